//! The scripts of `tests/mail` that end by themselves.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::clients::{root, tool};

/// What a script prints, given its input; null when it prints nothing.
pub(super) fn run(name: &str, arguments: &[&Path], input: &Value) -> Value {
    let mut child = Command::new(tool("clients/bin/python"))
        .arg(root().join("tests/mail").join(name))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // None of them prints before it has read all.
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name} ended with {}", output.status);
    if output.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&output.stdout).unwrap() }
}
