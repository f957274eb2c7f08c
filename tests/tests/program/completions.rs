//! Shell completions.

use std::process::{Command, Stdio};

use crate::support::run::{Dues, assert_says, program};

/// The completions that bash offers for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    let complete = r#"source <("$PROGRAM" completions bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        COMPREPLY=()
        _dues dues "${@: -1}" "${@: -2:1}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let output = Command::new("bash")
        .args(["-c", complete, "bash"])
        .args(words)
        .env("PROGRAM", program())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(offered(&["dues", "ex"]), ["explain", "export"]);
    assert!(offered(&["dues", ""]).contains(&"explain".to_owned()));
    assert_eq!(offered(&["dues", "parked", "re"]), ["redrive"]);
    assert!(offered(&["dues", "explain", "--"]).contains(&"--at".to_owned()));
    assert_eq!(offered(&["dues", "ingest", "--stream", "m"]), ["memberships"]);
    assert_eq!(offered(&["dues", "completions", "f"]), ["fish"]);
}

#[test]
fn every_shell_completes_every_command() {
    let dues = Dues::new();
    let help = dues.ok(&["--help"]);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()))
        .collect();
    assert!(names.len() > 20 && names.contains(&"serve"), "{names:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = dues.ok(&["completions", shell]);
        assert_says(&script, &names);
        assert!(!script.contains("gateway-token"), "{shell} offers what belongs into the environment");
    }
    assert!(!dues.data().exists(), "nothing is opened for it");
    assert_says(
        &dues.fails(&["completions", "cmd.exe"]),
        &["cmd.exe", "bash", "zsh", "fish", "elvish", "powershell"],
    );
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(program())
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
