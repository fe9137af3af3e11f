//! `restante backup`: the embedded database in one file.

use std::borrow::Cow;
use std::path::Path;

use restante_core::Timestamp;
use restante_core::endpoint::Sealed;
use restante_server::clock::{Clock, SystemClock};
use restante_server::config::Config;
use restante_server::vault::{self, SECRET_KEY_FILE};
use restante_store::backup::{self, Contents, Fault, Order, Progress, SecretKey};
use restante_store::sqlite;
use serde::Serialize;

use crate::args::{Backup, Place, Serve};
use crate::exit::{CONFLICT, RUNTIME, USAGE};
use crate::output::{self, hinted};
use crate::serve::settings;

/// So much the server may write while it is copied: 4 GiB.
const LOG_GROWTH_BYTES_MAX: u64 = 4 << 30;

/// What a backup holds, for programs.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    object: &'static str,
    file: Cow<'a, str>,
    data: Cow<'a, str>,
    bytes: u64,
    taken_at: String,
    schema: u32,
    messages: u64,
    deliveries_pending: u64,
    attempts_in_flight: u64,
    secret_key: bool,
}

impl<'a> Told<'a> {
    pub(crate) fn new(file: &'a Path, data: &'a Path, contents: &Contents) -> Self {
        Self {
            object: "backup",
            file: file.to_string_lossy(),
            data: data.to_string_lossy(),
            bytes: contents.bytes,
            taken_at: contents.taken_at.to_string(),
            schema: contents.schema,
            messages: contents.messages,
            deliveries_pending: contents.pending,
            attempts_in_flight: contents.in_flight,
            secret_key: contents.has_secret_key,
        }
    }

    pub(crate) fn json(&self) -> anyhow::Result<()> {
        output::line(&serde_json::to_string(self)?)
    }
}

pub(crate) fn run(args: &Backup) -> anyhow::Result<()> {
    let config = embedded(&args.place, "backup")?;
    let key = if args.with_secret_key { Some(secret_key(&config)?) } else { None };
    let opens = |sealed: &Sealed| key.as_ref().is_some_and(|key| vault::is_key(key.expose(), sealed));
    let order = Order {
        directory: &config.data,
        to: &args.file,
        replace: args.force,
        now: SystemClock::start().now(),
        secret_key: key.as_ref().map(|key| SecretKey { text: key.expose().to_owned(), opens: &opens }),
        log_growth_bytes_max: LOG_GROWTH_BYTES_MAX,
    };
    let contents = backup::take(&order, &mut |progress| show(progress, args.place.json)).map_err(refused)?;
    if args.place.json {
        return Told::new(&args.file, &config.data, &contents).json();
    }
    output::line(&format!("{}: {}", args.file.display(), summary(&contents)))?;
    output::line(&format!(
        "It holds all that was acknowledged before {}, and was checked.",
        moment(contents.taken_at)
    ))?;
    output::line(about_key(&contents, &config))
}

/// The settings, of a server with an embedded database.
///
/// # Errors
/// The settings name a PostgreSQL.
pub(crate) fn embedded(place: &Place, what: &str) -> anyhow::Result<Config> {
    let serve = Serve { data: place.data.clone(), config: place.config.clone(), ..Serve::default() };
    let config = settings(&serve)?;
    if config.database_url.is_some() && place.data.is_none() {
        let what = format!("cannot {what}: all is in the PostgreSQL of database_url");
        let hint = "use its own tools, such as pg_basebackup or pgBackRest (docs/deploy); \
                    --data DIR names an embedded database";
        return Err(hinted(what, hint, USAGE));
    }
    Ok(config)
}

fn secret_key(config: &Config) -> anyhow::Result<vault::Secret> {
    let key = vault::kept_key(&config.data)
        .map_err(|fault| hinted(fault, "without --with-secret-key the file is not read", USAGE))?;
    key.ok_or_else(|| {
        let what = format!("there is no {SECRET_KEY_FILE} in {}", config.data.display());
        hinted(
            what,
            "the key is what RESTANTE_SECRET_KEY was set to: keep that, and leave out --with-secret-key",
            USAGE,
        )
    })
}

/// On a terminal, how far it is.
pub(crate) fn show(progress: Progress, json: bool) {
    if json || !output::is_talk_watched() {
        return;
    }
    match progress {
        Progress::Copying { bytes, total_bytes } => {
            output::progress(
                &format!("copied {} of {}", size(bytes), size(total_bytes)),
                bytes == total_bytes,
            );
        }
        Progress::Checking => output::progress("checking what was written", true),
    }
}

fn refused(fault: Fault) -> anyhow::Error {
    let (hint, code) = match &fault {
        Fault::NoData(_) => {
            ("name the directory of RESTANTE_DATA with --data; the server makes it at its first start", USAGE)
        }
        Fault::Exists(_) => ("name another file, or replace this one with --force", CONFLICT),
        Fault::Busy(_) => ("wait until it has ended, or name another file", CONFLICT),
        Fault::WithinData(_) => ("name a file elsewhere, best on another disk", USAGE),
        Fault::WrongKey => (
            "the server's key is what RESTANTE_SECRET_KEY is set to: keep that, and leave out --with-secret-key",
            USAGE,
        ),
        Fault::LogGrew(_) => ("copy to a faster disk, or when less is going on", RUNTIME),
        Fault::Io { .. } => ("its directory must exist, be writable, and have room for all of it", RUNTIME),
        Fault::Database(sqlite::Fault::Damaged(_)) => ("use the version of restante that serves it", RUNTIME),
        Fault::Database(_) => (
            "the data directory must be readable and its log file writable, and the backup's disk not full",
            RUNTIME,
        ),
        Fault::Damaged { .. } => (
            "the database itself may be damaged: keep it, and the last good backup; look at the disk",
            RUNTIME,
        ),
        Fault::NoBackup(_) | Fault::NotEmpty { .. } => ("repeat this", RUNTIME),
    };
    hinted(format!("no backup was made: {fault}"), hint, code)
}

fn about_key(contents: &Contents, config: &Config) -> &'static str {
    if contents.has_secret_key {
        "It holds the secret key: whoever has the file can read the secrets in it. Keep it as you keep those."
    } else if contents.sealed.is_none() {
        "It holds no secret key, and no secrets."
    } else if config.data.join(SECRET_KEY_FILE).exists() {
        "It does not hold the secret key. Without a copy of secret.key in the data directory (or --with-secret-key), \
         signing secrets and header values in it cannot be read."
    } else {
        "It does not hold the secret key. Without what RESTANTE_SECRET_KEY is set to, signing secrets and header values \
         in it cannot be read."
    }
}

/// `412.0 MiB, 93114 messages, 12 deliveries pending`.
pub(crate) fn summary(contents: &Contents) -> String {
    let Contents { bytes, messages, pending, .. } = contents;
    format!("{}, {messages} messages, {pending} deliveries pending", size(*bytes))
}

/// `2026-11-30 09:00:00.123 UTC`.
pub(crate) fn moment(at: Timestamp) -> String {
    at.to_string().replacen('T', " ", 1).replacen('Z', " UTC", 1)
}

/// `512 bytes`, `4.0 KiB`, `1.5 GiB`.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        None => format!("{bytes} bytes"),
        Some((shift, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_greatest_unit_that_fits() {
        let table = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            ((1 << 20) - 1, "1023.9 KiB"),
            (3 << 19, "1.5 MiB"),
            (5 << 40, "5120.0 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ];
        for (bytes, expected) in table {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn a_moment_is_told_to_the_millisecond() {
        let at = Timestamp::parse("2026-11-30T09:00:00.123Z").unwrap();
        assert_eq!(moment(at), "2026-11-30 09:00:00.123 UTC");
    }
}
