//! Completions and help.

use super::{bare, talk};
use crate::process::data_directory;

#[test]
fn completions_know_the_commands_and_the_shell_can_read_them() {
    let home = data_directory();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = bare(home.path(), &["completions", shell]).output().unwrap();
        assert!(output.status.success(), "{shell}: {}", talk(&output));
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["rotate-token", "deliveries", "--retention-days"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    let script = home.path().join("restante.bash");
    std::fs::write(&script, bare(home.path(), &["completions", "bash"]).output().unwrap().stdout).unwrap();
    let output = std::process::Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(bare(home.path(), &["completions", "tcsh"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn help_of_each_command_begins_with_examples() {
    let home = data_directory();
    for arguments in
        [&["--help"][..], &["sources", "--help"], &["requests", "tail", "--help"], &["doctor", "--help"]]
    {
        let output = bare(home.path(), arguments).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.starts_with("Examples:\n  restante "), "{arguments:?}: {help}");
        assert!(!help.contains('\u{1b}'), "{arguments:?}");
    }
}
