//! The machine a run was measured on.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use serde::Serialize;

/// Facts from the operating system; empty or 0 where it does not tell.
#[derive(Serialize)]
pub(crate) struct Machine {
    pub(super) cores: usize,
    pub(super) cpu: String,
    pub(super) memory_bytes: u64,
    pub(super) kernel: String,
    /// Type of the file system that holds the data directories.
    pub(super) filesystem: String,
}

impl Machine {
    pub(super) fn read(data_root: &Path) -> Self {
        Self {
            cores: thread::available_parallelism().map_or(0, usize::from),
            cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_bytes: kibibytes(&text("/proc/meminfo"), "MemTotal").unwrap_or_default(),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            filesystem: filesystem(&text("/proc/self/mounts"), data_root).unwrap_or_default(),
        }
    }
}

/// Memory of a process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ProcessMemory {
    /// Resident now, in bytes.
    pub(super) rss_bytes: u64,
    /// The most that was resident since its start, in bytes.
    pub(super) peak_bytes: u64,
}

impl ProcessMemory {
    /// `None` when the process is gone.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(Self { rss_bytes: kibibytes(&status, "VmRSS")?, peak_bytes: kibibytes(&status, "VmHWM")? })
    }
}

/// Processor time that a process has used since its start, over all its threads; `None` when it is gone.
pub(super) fn processor_time(pid: u32) -> Option<Duration> {
    let ticks = cpu_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    Some(Duration::from_millis(ticks * 1_000 / clock_ticks_per_second()))
}

/// User and system time of a line of `/proc/PID/stat`, in clock ticks.
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The name of the program comes second, in brackets, and may hold anything; user time is the twelfth after it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The value of a `name:  123 kB` line, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The type of the mount that `path` lies on: the one with the longest mount point above it.
fn filesystem(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut columns = line.split(' ').skip(1);
        Some((columns.next()?, columns.next()?))
    });
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t     12 kB\n";
        assert_eq!(kibibytes(status, "VmHWM"), Some(2_097_152));
        assert_eq!(kibibytes(status, "VmRSS"), Some(12_288));
        assert_eq!(kibibytes(status, "VmSwap"), None);
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 3 0 100 200 300";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("7 (a"), None);
        assert!(processor_time(std::process::id()).is_some());
    }

    #[test]
    fn this_process_has_memory() {
        let memory = ProcessMemory::of(std::process::id()).unwrap();
        assert!(0 < memory.rss_bytes && memory.rss_bytes <= memory.peak_bytes);
    }

    #[test]
    fn the_nearest_mount_decides_the_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk xfs rw 0 0\n";
        assert_eq!(filesystem(mounts, Path::new("/home/x")).as_deref(), Some("ext4"));
        assert_eq!(filesystem(mounts, Path::new("/tmp/x")).as_deref(), Some("tmpfs"));
        assert_eq!(filesystem(mounts, Path::new("/tmp/disk/x")).as_deref(), Some("xfs"));
    }
}
