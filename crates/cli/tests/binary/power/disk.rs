//! A disk, as far as is known of it after a power cut.

use std::collections::HashMap;
use std::path::Path;

use super::record::Event;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Which syncs do what they say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Syncs {
    All,
    /// Those of the write-ahead log do nothing.
    NoneOfLog,
}

/// The files of a directory.
pub(super) struct Disk<'a> {
    files: HashMap<String, Contents<'a>>,
}

/// A file: what is on the disk for certain, and what was written since, in order.
#[derive(Default)]
struct Contents<'a> {
    bytes: Vec<u8>,
    pending: Vec<&'a Event>,
    /// By the thread of a sync under way: how much of the pending it is for.
    syncing: HashMap<u32, usize>,
}

impl<'a> Disk<'a> {
    /// After these events, on files that were as in `base`.
    pub(super) fn after(events: &'a [Event], base: &Path, names: &[&str], syncs: Syncs) -> Self {
        let read = |name: &&str| {
            let bytes = std::fs::read(base.join(name)).unwrap();
            ((*name).to_owned(), Contents { bytes, ..Contents::default() })
        };
        let mut files: HashMap<String, Contents<'a>> = names.iter().map(read).collect();
        for event in events {
            match event {
                Event::Write { file, .. } | Event::Resize { file, .. } => {
                    if let Some(contents) = files.get_mut(file) {
                        contents.pending.push(event);
                    }
                }
                Event::SyncBegan { thread, file } => {
                    if let Some(contents) = files.get_mut(file) {
                        contents.syncing.insert(*thread, contents.pending.len());
                    }
                }
                Event::Synced { thread, file } => {
                    if syncs == Syncs::NoneOfLog && file.ends_with("-wal") {
                        continue;
                    }
                    if let Some(contents) = files.get_mut(file) {
                        contents.sync(*thread);
                    }
                }
                Event::Acknowledged { .. } => {}
            }
        }
        Self { files }
    }

    /// Writes what the disk may have.
    pub(super) fn write(mut self, directory: &Path, seed: &mut u64) {
        // All of it, none of it, or some of it.
        let chance = draw(seed, 3);
        for (name, contents) in &mut self.files {
            for event in std::mem::take(&mut contents.pending) {
                apply(&mut contents.bytes, event, &mut || match chance {
                    0 => true,
                    1 => false,
                    _ => draw(seed, 2) == 0,
                });
            }
            std::fs::write(directory.join(name), &contents.bytes).unwrap();
        }
    }
}

impl Contents<'_> {
    fn sync(&mut self, thread: u32) {
        let count = self.syncing.remove(&thread).unwrap_or(0);
        for event in self.pending.drain(..count) {
            apply(&mut self.bytes, event, &mut || true);
        }
        // Others are for less that is pending now.
        for other in self.syncing.values_mut() {
            *other = other.saturating_sub(count);
        }
    }
}

/// Does what an event does, sector by sector as `keeps` says.
fn apply(file: &mut Vec<u8>, event: &Event, keeps: &mut dyn FnMut() -> bool) {
    match event {
        Event::Write { at, bytes, .. } => {
            let end = at + bytes.len();
            let mut from = *at;
            while from < end {
                let to = ((from / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                if keeps() {
                    if file.len() < to {
                        file.resize(to, 0);
                    }
                    file[from..to].copy_from_slice(&bytes[from - at..to - at]);
                }
                from = to;
            }
        }
        Event::Resize { bytes, .. } => {
            if keeps() {
                file.resize(*bytes, 0);
            }
        }
        Event::SyncBegan { .. } | Event::Synced { .. } | Event::Acknowledged { .. } => {}
    }
}

/// A number below `count`, reproducible from the seed.
pub(super) fn draw(seed: &mut u64, count: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize % count
}
