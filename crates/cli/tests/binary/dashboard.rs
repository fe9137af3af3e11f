//! The dashboard in a browser: what people do there, and what hostile messages must not do.
//!
//! The steps are scripts of `tests/browser`; each gets a server of its own, at its first start.

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::clients::{root, tool};
use crate::process::data_directory;

/// What Chromium is called, depending on who packs it.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

#[test]
fn a_link_or_a_key_signs_in() {
    passes("sign-in");
}

#[test]
fn a_request_is_watched_opened_retried_and_replayed() {
    passes("requests");
}

#[test]
fn a_failing_webhook_is_seen_tested_and_made_good() {
    passes("webhooks");
}

#[test]
fn an_email_is_read_in_all_its_forms() {
    passes("emails");
}

#[test]
fn whatever_id_is_at_hand_opens_what_it_names() {
    passes("search");
}

#[test]
fn empty_pages_teach_and_keys_and_settings_are_changed() {
    passes("workspace");
}

#[test]
fn hostile_messages_are_shown_and_do_nothing() {
    passes("hostile");
}

#[test]
fn everybody_can_use_it() {
    passes("access");
}

#[test]
fn it_is_pictured() {
    passes("pictures");
}

/// A server in an empty data directory, and what it says at that start. Dropping it kills it.
struct FirstStart {
    child: Child,
    url: String,
    link: String,
    key: String,
    /// Kept open: a server that cannot say where it listens ends.
    _said: Lines<BufReader<ChildStdout>>,
    _data: tempfile::TempDir,
}

impl FirstStart {
    fn new() -> Self {
        let data = data_directory();
        let mut child = Command::new(env!("CARGO_BIN_EXE_restante"))
            .args(["serve", "--dev", "--log", "error", "--listen", "127.0.0.1:0", "--data"])
            .arg(data.path())
            // A webhook is degraded as soon as its first event has failed twice.
            .env("RESTANTE_DEGRADED_AFTER_FAILURES", "2")
            .env("RESTANTE_DEGRADED_AFTER_SECONDS", "0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line =
            |with: &str| said.by_ref().map(Result::unwrap).find(|line| line.contains(with)).unwrap();
        let link = line("/sign-in#link=").trim().to_owned();
        let key = line("rst_live_").trim().to_owned();
        let url = link.split("/sign-in").next().unwrap().to_owned();
        Self { child, url, link, key, _said: said, _data: data }
    }
}

impl Drop for FirstStart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a script to its end; what it says names the step that does not hold.
fn passes(script: &str) {
    let server = FirstStart::new();
    let given = json!({
        "url": server.url,
        "link": server.link,
        "key": server.key,
        "chromium": browser(),
        "tools": tool("browser"),
        "pictures": root().join("target/screenshots"),
    });
    let output = Command::new("node")
        .arg(root().join(format!("tests/browser/{script}.mjs")))
        .arg(given.to_string())
        .output()
        .unwrap();

    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    let last = shown.lines().last().unwrap_or_default();
    assert!(last.ends_with(&format!("steps of {script}")), "it did not get to the end:\n{shown}");
}

fn browser() -> PathBuf {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = std::env::split_paths(&directories).collect();
    let found = BROWSERS.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    found.into_iter().find(|path| path.is_file()).expect("Chromium is missing; ./test installs it")
}
