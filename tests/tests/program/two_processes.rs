//! Two programs at once on one folder.

use std::process::Stdio;

use crate::support::run::{Dues, alone};
use crate::support::workload::{Crowd, Output};

#[test]
fn two_programs_that_read_the_same_file_at_once_leave_what_one_leaves() {
    let _alone = alone();
    let crowd = Crowd::new(7);
    for round in 0..2 {
        let dues = Dues::new();
        for (n, part) in crowd.parts.iter().enumerate() {
            let file = dues.file(&format!("part-{n}.ndjson"), &part.lines);
            let start = || {
                let mut command = dues.command(&["ingest", "--stream", part.stream, &file, "--json"]);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            };
            for child in [start(), start()] {
                let output = child.wait_with_output().unwrap();
                assert!(
                    output.status.success(),
                    "{}: {}",
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
        if let Some(difference) = Output::of(&dues).difference(&crowd.output) {
            panic!("round {round}: {difference}");
        }
    }
}
