//! What neither the compiler nor clippy can forbid, read out of the sources and manifests. Each failure says what to do.
#![expect(clippy::unwrap_used, reason = "a file of the workspace that cannot be read fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

/// Workspace crates that a crate may depend on. Nobody depends on the simulator or the bench.
const EDGES: [(&str, &[&str]); 7] = [
    ("core", &[]),
    ("sdk", &[]),
    ("store", &["restante-core"]),
    ("server", &["restante-core", "restante-store", "restante-sdk"]),
    ("cli", &["restante-core", "restante-store", "restante-server", "restante-sdk"]),
    ("sim", &["restante-core", "restante-store", "restante-server"]),
    ("bench", &["restante-core", "restante-store", "restante-sdk"]),
];
/// Dependencies that a crate must not have, and what to do instead.
const BANNED_DEPENDENCIES: [(&str, &[&str], &str); 4] = [
    (
        "core",
        &["tokio", "async-trait", "rand", "getrandom", "tracing"],
        "take time and randomness as arguments",
    ),
    ("store", &["axum", "hyper", "tower"], "HTTP belongs into crates/server"),
    ("server", &["rusqlite", "tokio-postgres", "sqlx"], "add a method to the trait Store"),
    ("cli", &["rusqlite", "tokio-postgres", "axum"], "call crates/server or crates/store"),
];
/// The places that read clocks and draw randomness.
const CLOCKS: [&str; 3] =
    ["crates/server/src/clock.rs", "crates/sdk/src/clock.rs", "crates/bench/src/clock.rs"];
/// Fills tables with masses of rows for the benchmark of claims, beside the store.
const FILLS: &str = "crates/bench/src/pipeline/stage/claims/fill.rs";
/// This file names what it forbids.
const THIS: &str = "crates/sim/tests/tidy.rs";
const LINES_MAX: usize = 700;

/// A text file of the workspace.
struct Text {
    /// From the root, with slashes.
    path: String,
    text: String,
}

impl Text {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs") && self.path != THIS
    }

    fn is_of(&self, name: &str) -> bool {
        self.path.starts_with(&format!("crates/{name}/"))
    }

    /// Lines that are not comments, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = (1..).zip(self.text.lines());
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// All text files, but for what is built and what git keeps.
fn texts() -> Vec<Text> {
    let (root, mut found) = (root(), Vec::new());
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_ours = !["target", ".git", "restante-data"].contains(&name.as_str());
            if path.is_dir() && is_ours {
                directories.push(path);
            } else if let (true, Ok(text)) = (path.is_file(), fs::read_to_string(&path)) {
                let path = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                found.push(Text { path, text });
            }
        }
    }
    assert!(
        found.iter().any(|it| it.path == "crates/core/src/lib.rs"),
        "the workspace is not where it should be"
    );
    found
}

/// Names of the dependencies in a manifest, those of tests included.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let (mut within, mut found) = (false, Vec::new());
    for line in manifest.lines() {
        if line.starts_with('[') {
            within = line.contains("dependencies");
            let named = line.trim_matches(['[', ']']).rsplit_once("dependencies.").map(|(_, name)| name);
            found.extend(named.map(str::to_owned));
        } else if let (true, Some((name, _))) = (within, line.split_once(['=', '.'])) {
            found.push(name.trim().to_owned());
        }
    }
    found
}

/// Fails with every place found and the remedy.
fn none(found: &[String], remedy: &str) {
    assert!(found.is_empty(), "{remedy}\n{}", found.join("\n"));
}

/// Code lines of some files that hold one of some words.
fn holding(texts: &[Text], of: impl Fn(&Text) -> bool, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts.iter().filter(|text| text.is_rust() && of(text)) {
        for (number, line) in text.code() {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                found.push(format!("{}:{number}: {word}", text.path));
            }
        }
    }
    found
}

#[test]
fn crates_depend_only_in_one_direction() {
    let mut found = Vec::new();
    for (name, allowed) in EDGES {
        // A crate may depend on itself for its tests, to switch a feature on.
        let itself = format!("restante-{name}");
        let edges = dependencies(name).into_iter().filter(|it| it.starts_with("restante") && *it != itself);
        found.extend(
            edges.filter(|edge| !allowed.contains(&edge.as_str())).map(|edge| format!("{name} -> {edge}")),
        );
    }
    none(
        &found,
        "move the code to where its dependencies point, or argue for the edge and add it to EDGES and to docs/ARCHITECTURE.md",
    );
    let known: Vec<&str> = EDGES.iter().map(|(name, _)| *name).collect();
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|it| it.unwrap().file_name());
    let strangers: Vec<String> = crates
        .map(|it| it.to_string_lossy().into_owned())
        .filter(|it| !known.contains(&it.as_str()))
        .collect();
    none(&strangers, "say in EDGES what the new crate may depend on");
}

#[test]
fn crates_have_no_dependency_that_is_not_their_business() {
    for (name, banned, remedy) in BANNED_DEPENDENCIES {
        let found: Vec<String> =
            dependencies(name).into_iter().filter(|it| banned.contains(&it.as_str())).collect();
        none(&found, &format!("crates/{name} must do without: {remedy}"));
    }
}

#[test]
fn rules_are_pure() {
    let words = [
        "tokio",
        "async fn",
        "async move",
        ".await",
        "SystemTime",
        "Instant",
        "std::fs",
        "std::net",
        "rand::",
    ];
    let found = holding(&texts(), |text| text.is_of("core"), &words);
    none(&found, "core decides and does nothing: take `now`, `jitter` and data as arguments");
}

#[test]
fn only_clock_rs_reads_clocks_and_draws_randomness() {
    let texts = texts();
    let words = [
        "SystemTime::now",
        "std::time::SystemTime",
        "getrandom::",
        "now_utc",
        "std::time::Instant",
        "thread_rng",
        "OsRng",
    ];
    let mut found = holding(&texts, |text| !CLOCKS.contains(&text.path.as_str()), &words);
    for text in texts.iter().filter(|text| text.is_rust() && !CLOCKS.contains(&text.path.as_str())) {
        // The runtime's own instants are timers, and stop with its clock in tests.
        let is_timer = text.code().any(|(_, line)| line.contains("tokio::time"));
        let reads = text.code().filter(|(_, line)| line.contains("Instant::now") && !is_timer);
        found.extend(reads.map(|(number, _)| format!("{}:{number}: Instant::now", text.path)));
    }
    none(
        &found,
        "take time from `Clock` and bits from `Clock::draw` (server/src/clock.rs), in the bench from its clock.rs",
    );
}

#[test]
fn modules_are_files_with_names() {
    let texts = texts();
    let found: Vec<String> =
        texts.into_iter().map(|text| text.path).filter(|path| path.ends_with("/mod.rs")).collect();
    none(&found, "write `name.rs` beside `name/`");
}

#[test]
fn files_are_short_enough_to_be_read() {
    let texts = texts();
    let long = |text: &&Text| text.path.ends_with(".rs") && text.text.lines().count() > LINES_MAX;
    let found: Vec<String> = texts.iter().filter(long).map(|text| text.path.clone()).collect();
    none(&found, "split it: one noun or verb per file, about 400 lines");
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["#[ignore", "todo!", "unimplemented!", "dbg!"];
    none(&holding(&texts(), |_| true, &words), "finish it, or take it out");
}

#[test]
fn doors_know_neither_channels_nor_the_dispatcher() {
    const DOORS: [&str; 3] = ["crates/server/src/api", "crates/server/src/ingress", "crates/server/src/door"];
    let mut found = Vec::new();
    for text in texts().iter().filter(|text| DOORS.iter().any(|door| text.path.starts_with(door))) {
        let uses = text.code().filter(|(_, line)| {
            line.contains("channel::http") || line.contains("dispatcher::") || line.contains("::dispatcher")
        });
        found.extend(uses.map(|(number, line)| format!("{}:{number}: {}", text.path, line.trim())));
    }
    none(&found, "a handler makes one call to the store; what is sent, the dispatcher learns from the store");
}

#[test]
fn only_the_store_speaks_sql() {
    let words = ["\"SELECT ", "INSERT INTO ", "\"UPDATE ", "DELETE FROM ", "CREATE TABLE ", "\"PRAGMA "];
    let found = holding(&texts(), |text| !text.is_of("store") && text.path != FILLS, &words);
    none(&found, "add a method to the trait Store, with its promise in its documentation");
}

#[test]
fn every_migration_says_why() {
    let texts = texts();
    let migrations: Vec<&Text> = texts
        .iter()
        .filter(|text| text.path.contains("/migrations/") && text.path.ends_with(".sql"))
        .collect();
    assert!(!migrations.is_empty(), "there are no migrations where they should be");
    let mute = migrations.iter().filter(|text| !text.text.starts_with("-- Why: "));
    let found: Vec<String> = mute.map(|text| text.path.clone()).collect();
    none(&found, "begin with a line `-- Why: …`: what could not be done without it");
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    const PLACES: [&str; 2] = ["/root/", "/Users/"];
    let mut found = Vec::new();
    for text in texts().iter().filter(|text| text.path != THIS) {
        for (number, line) in (1..).zip(text.text.lines()) {
            let absolute = |place: &&str| {
                line.match_indices(*place).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|char| char.is_whitespace() || "\"'`=(:".contains(char))
                })
            };
            found.extend(
                PLACES.into_iter().find(absolute).map(|place| format!("{}:{number}: {place}", text.path)),
            );
        }
    }
    none(&found, "write paths from the root of the repository, or take them from the environment");
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let block = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    let commands: Vec<&str> =
        block.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).collect();
    assert_eq!(commands, ["cargo run --release", "./test"], "one command runs it, one tests it");
}
