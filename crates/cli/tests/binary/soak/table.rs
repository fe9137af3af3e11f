//! What was done, for people.

use std::fmt::Write as _;

use super::judge::Judged;
use super::watch::{Pair, Watch};
use super::world::World;
use crate::mail::load::{Counts, Load};

/// All of these happened, or nothing is shown by their absence from the faults.
const HAPPENED: [&str; 18] = [
    "requests",
    "request repeats",
    "events",
    "event repeats",
    "keys refused",
    "kills",
    "stops",
    "pauses",
    "changes",
    "laptop opened",
    "recoveries",
    "replays of failures",
    "replays of a delivery",
    "cancels",
    "retries",
    "replays",
    "erased",
    "audits",
];

/// Says what did not happen as a fault.
pub(super) fn of(
    world: &World,
    is_embedded: bool,
    judged: &Judged,
    mails: &Counts,
    emails: &Load,
    watch: &Watch,
) -> String {
    let diary = &world.diary;
    let done = |name: &'static str| {
        let count = diary.counted(name);
        let must = HAPPENED.contains(&name) || is_embedded && name == "backups";
        if must && count == 0 {
            diary.fault(None, format!("no {name}"));
        }
        format!("{count} {name}")
    };
    let all = |names: &[&'static str]| names.iter().map(|name| done(name)).collect::<Vec<_>>().join(", ");
    let states = judged.deliveries.iter().map(|(state, count)| format!("{count} {state}"));
    let mebibytes = |(before, after): Pair, unit: f64| {
        format!("{:.1} MiB, then {:.1} MiB", before as f64 / unit, after as f64 / unit)
    };
    let plain = |(before, after): Pair| format!("{before}, then {after}");
    let minutes = world.plan.life.as_secs_f64() / 60.0;
    let store = if is_embedded { "the embedded database" } else { "PostgreSQL" };
    let rows = [
        (
            "requests",
            all(&["requests", "request repeats"]) + &format!(", {} shown as such", judged.duplicates),
        ),
        ("events", all(&["events", "event repeats", "keys refused"])),
        (
            "emails",
            format!(
                "{} emails, {} repeats, {} uncertain ({} of them arrived), {} events about them",
                mails.emails,
                emails.replayed(),
                mails.uncertain,
                mails.arrived,
                judged.events_of_emails
            ),
        ),
        ("deliveries", states.collect::<Vec<_>>().join(", ")),
        ("attempts", format!("{} recorded, {} seen, {} lost", judged.attempts, judged.visits, judged.lost)),
        (
            "server",
            format!(
                "{}; the longest stop took {} ms",
                all(&["kills", "stops", "backups"]),
                diary.counted("longest stop, ms")
            ),
        ),
        ("callers", all(&["calls unanswered", "calls refused"])),
        ("settings", all(&["pauses", "changes", "recoveries", "replays of failures"])),
        ("laptop", all(&["laptop opened"]).replace(" laptop opened", " times opened")),
        (
            "messages",
            all(&[
                "cancels",
                "cancels of what was on its way",
                "retries",
                "replays",
                "replays of a delivery",
            ]) + &format!(", {}", done("erased")),
        ),
        ("looks", format!("{}, {} at the server", done("audits"), watch.looks())),
        ("log", all(&["log lines"])),
        ("memory", mebibytes(watch.memory_kib, 1024.0)),
        ("open files", plain(watch.files)),
        ("threads", plain(watch.threads)),
        (
            "WAL",
            format!(
                "{}, {:.1} MiB at most",
                mebibytes(watch.wal_bytes, 1_048_576.0),
                watch.wal_bytes_most as f64 / 1_048_576.0
            ),
        ),
        ("late", format!("{:.1} s at most, while left alone", watch.late_most.as_secs_f64())),
        (
            "backup",
            judged.emails_restored.map_or("none: it is PostgreSQL's".to_owned(), |emails| {
                format!("restored with all of this, and {emails} emails")
            }),
        ),
    ];
    let mut text = format!("{minutes:.1} minutes on {store}, seed {}\n", world.plan.seed());
    for (name, row) in rows {
        let _ = writeln!(text, "  {name:<12}{row}");
    }
    text
}
