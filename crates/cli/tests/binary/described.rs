//! The API against its own description, as a stranger's tool reads it.

use std::process::Command;

use crate::clients::{root, tool};
use crate::process::{Home, KEY, Process, on_sqlite};

on_sqlite!(the_api_answers_as_it_is_described);

/// How many calls are made up for each operation, beside those at the edges of what is described.
const EXAMPLES: u32 = 5;

async fn the_api_answers_as_it_is_described(home: Home) {
    let server = Process::start(&home).await;

    let output = Command::new(tool("schemathesis/bin/python"))
        .arg(root().join("tests/schema/run.py"))
        .args([&format!("http://{}", server.address), KEY, &EXAMPLES.to_string()])
        .output()
        .unwrap();

    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.ends_with("ok\n"), "it did not get to the end:\n{shown}");
}
