//! What `strace` saw: a line for each call, two where another thread's came in between.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Something that matters after a power cut.
#[derive(Debug)]
pub(super) enum Event {
    /// Bytes on their way to the disk, from when the call began.
    Write {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    /// A new size, from when the call began.
    Resize {
        file: String,
        bytes: usize,
    },
    SyncBegan {
        thread: u32,
        file: String,
    },
    /// What was written before that sync began is on the disk.
    Synced {
        thread: u32,
        file: String,
    },
    /// The caller may know of it, from when the call began.
    Acknowledged {
        id: String,
    },
}

impl Event {
    pub(super) fn acknowledged(&self) -> Option<&str> {
        match self {
            Self::Acknowledged { id } => Some(id),
            Self::Write { .. } | Self::Resize { .. } | Self::SyncBegan { .. } | Self::Synced { .. } => None,
        }
    }
}

/// Events in their order.
pub(super) struct Record {
    pub(super) events: Vec<Event>,
}

impl Record {
    pub(super) fn read(path: &Path) -> Self {
        let (mut events, mut syncing) = (Vec::new(), HashMap::new());
        for line in BufReader::new(File::open(path).unwrap()).lines() {
            let line = line.unwrap();
            let (thread, call) = line.split_once(' ').unwrap();
            let (thread, call): (u32, &str) = (thread.parse().unwrap(), call.trim_start());
            if call.starts_with("<... f") && call.contains("sync resumed>") {
                let file = syncing.remove(&thread).unwrap();
                // One that failed, or that the kill cut off, tells nothing.
                if call.ends_with(" = 0") {
                    events.push(Event::Synced { thread, file });
                }
            } else if let Some((name, arguments)) = call.split_once('(')
                && !call.starts_with('<')
            {
                begun(name, arguments, thread, &mut events, &mut syncing);
            }
        }
        Self { events }
    }
}

fn begun(
    name: &str,
    arguments: &str,
    thread: u32,
    events: &mut Vec<Event>,
    syncing: &mut HashMap<u32, String>,
) {
    let file = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(path, _)| path);
    let file = file.map(file_name).unwrap_or_default();
    match name {
        "pwrite64" => {
            let (bytes, rest) = quoted(arguments);
            // The number of bytes and the place, before the end of the call or its interruption.
            let mut numbers = rest.split([',', ')', ' ']).filter_map(|part| part.parse::<usize>().ok());
            assert_eq!(numbers.next(), Some(bytes.len()), "a write was cut short in the record");
            events.push(Event::Write { file, at: numbers.next().unwrap(), bytes });
        }
        "ftruncate" => {
            let bytes = arguments.split([',', ')', ' ']).find_map(|part| part.parse().ok()).unwrap();
            events.push(Event::Resize { file, bytes });
        }
        "fsync" | "fdatasync" => {
            events.push(Event::SyncBegan { thread, file: file.clone() });
            match arguments.ends_with("<unfinished ...>") {
                true => drop(syncing.insert(thread, file)),
                false if arguments.ends_with(" = 0") => events.push(Event::Synced { thread, file }),
                false => {}
            }
        }
        // Answers are in one piece, or in several with vectors.
        _ => events.extend(answers(arguments).into_iter().map(|id| Event::Acknowledged { id })),
    }
}

fn file_name(path: &str) -> String {
    // With -xx paths are in hexadecimal digits, too.
    let path =
        if path.starts_with("\\x") { String::from_utf8(bytes(path)).unwrap() } else { path.to_owned() };
    path.rsplit('/').next().unwrap().to_owned()
}

/// The text in quotes, and what stands behind it.
fn quoted(arguments: &str) -> (Vec<u8>, &str) {
    let (_, rest) = arguments.split_once('"').unwrap();
    let (text, rest) = rest.split_once('"').unwrap();
    (bytes(text), rest)
}

/// `\x41\x42`.
fn bytes(text: &str) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks_exact(4).map(|piece| digit(piece[2]) << 4 | digit(piece[3])).collect()
}

/// The ids of requests in a call that answers.
fn answers(arguments: &str) -> Vec<String> {
    const BEFORE: &[u8] = b"{\"id\":\"req_";
    let parts = arguments.split('"').skip(1).step_by(2);
    let sent: Vec<u8> = parts.flat_map(bytes).collect();
    let begins = |at: &usize| sent[*at..].starts_with(BEFORE);
    let id = |at: usize| String::from_utf8(sent[at + 7..at + 7 + 4 + 26].to_vec()).unwrap();
    (0..sent.len()).filter(begins).map(id).collect()
}
