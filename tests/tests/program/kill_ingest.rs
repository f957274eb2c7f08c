//! The program is killed during ingestion, again and again, and nothing is lost or applied twice.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::run::{Dues, alone};
use crate::support::workload::{Crowd, Dice, Output, Part};

/// How many kills must hit a running program.
const KILLS: usize = 100;
/// How many runs over each file are to be killed. Finished work stays finished, so later runs find less to
/// do.
const KILLS_A_PART: usize = 8;

#[test]
fn a_hundred_kills_leave_exactly_what_an_undisturbed_run_leaves() {
    let _alone = alone();
    let seed = match std::env::var("DUES_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs(),
    };
    println!("DUES_SEED={seed} repeats this workload (the moments of the kills differ)");
    let crowd = Crowd::new(seed);
    let records: usize =
        crowd.parts.iter().map(|part| part.lines.split(|byte| *byte == b'\n').count() - 1).sum();
    println!(
        "{records} records; undisturbed: {:?}",
        crowd.parts.iter().map(|part| part.took).collect::<Vec<_>>()
    );
    assert!(records > 2500 && crowd.output.records() > 500, "{records} records are too few");

    let mut dice = Dice::new(seed ^ 0xdead);
    let mut tally = Tally::default();
    let mut folders = 0;
    // A fresh folder after some kills, so that they hit work in progress and not its remainder.
    while tally.kills < KILLS {
        let dues = Dues::new();
        for (n, part) in crowd.parts.iter().enumerate() {
            let file = dues.file(&format!("part-{n}.ndjson"), &part.lines);
            for _ in 0..KILLS_A_PART {
                // Not in the first quarter: that would only hit the program's start.
                let life = part.took / 4 + dice.within(part.took * 3 / 4);
                if killed(&dues, part, &file, life, &mut tally) {
                    tally.kills += 1;
                }
            }
            // Then one run completes.
            let output = dues.run(&["ingest", "--stream", part.stream, &file]);
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{}: {said}", output.status);
            tally.count(&said);
        }
        folders += 1;
        if let Some(difference) = Output::of(&dues).difference(&crowd.output) {
            panic!("seed {seed}, folder {folders}, after {} kills: {difference}", tally.kills);
        }
    }
    println!(
        "{} kills in {folders} folders; {} left records on the stream that were not done",
        tally.kills, tally.cut_short
    );
    assert!(
        tally.cut_short * 20 >= tally.kills,
        "seed {seed}: only {} of {} kills cut work short",
        tally.cut_short,
        tally.kills
    );
}

#[derive(Default)]
struct Tally {
    /// Kills that hit a running program.
    kills: usize,
    /// Runs that found unfinished work of an earlier one.
    cut_short: usize,
}

impl Tally {
    fn count(&mut self, said: &str) {
        self.cut_short += usize::from(said.contains("by an earlier run"));
    }
}

/// Ingests a file and kills the program after this long; `false` when it ended before that.
fn killed(dues: &Dues, part: &Part, file: &str, life: Duration, tally: &mut Tally) -> bool {
    let mut command = dues.command(&["ingest", "--stream", part.stream, file]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(life);
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    let status = child.wait().unwrap();
    let said = said(&mut child);
    tally.count(&said);
    let hit = running && status.code().is_none();
    assert!(hit || status.success(), "{status}: {said}");
    hit
}

/// Standard error of a program that has ended.
pub(crate) fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}
