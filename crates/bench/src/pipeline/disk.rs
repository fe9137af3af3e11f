//! How long the disk takes to keep a write.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clock;
use crate::latency::{Latencies, Percentiles};

const PAGE_BYTES: usize = 4096;
/// Pages of the file that is overwritten in turn: the cheapest durable write, as in a log file that is reused.
const PAGES: u64 = 1024;

/// Overwrites pages of a file in `directory` for `lasting`, each with its own fdatasync, and gives the time of both.
pub(super) async fn fdatasync(directory: &Path, lasting: Duration) -> Result<Percentiles> {
    let path = directory.join("fdatasync");
    tokio::task::spawn_blocking(move || {
        let latencies =
            overwrite(&path, lasting).with_context(|| format!("cannot write {}", path.display()))?;
        std::fs::remove_file(&path)?;
        Ok(latencies.percentiles())
    })
    .await?
}

fn overwrite(path: &Path, lasting: Duration) -> Result<Latencies> {
    let file = File::create(path)?;
    let page = [0x5a; PAGE_BYTES];
    for index in 0..PAGES {
        file.write_all_at(&page, index * PAGE_BYTES as u64)?;
    }
    file.sync_all()?;
    let mut latencies = Latencies::new();
    let start = clock::now();
    for index in (0..PAGES).cycle() {
        let begun = clock::now();
        if begun.duration_since(start) >= lasting {
            break;
        }
        file.write_all_at(&page, index * PAGE_BYTES as u64)?;
        file.sync_data()?;
        latencies.record(clock::micros_since(begun));
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_is_timed() {
        let directory = tempfile::tempdir().unwrap();
        let latencies = overwrite(&directory.path().join("file"), Duration::from_millis(20)).unwrap();
        assert!(latencies.percentiles().count > 0);
    }
}
