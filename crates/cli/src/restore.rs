//! `restante restore`: a backup becomes a data directory.

use restante_server::clock::SystemClock;
use restante_server::config::Config;
use restante_server::vault::{self, SECRET_KEY_FILE};
use restante_store::backup::{self, Contents, Fault};
use restante_store::sqlite;

use crate::args::Restore;
use crate::backup::{Told, embedded, moment, show, summary};
use crate::exit::{CONFLICT, NOT_FOUND, RUNTIME, USAGE};
use crate::output::{self, hinted};

pub(crate) fn run(args: &Restore) -> anyhow::Result<()> {
    let config = embedded(&args.place, "restore")?;
    let begun =
        backup::Restore::begin(&args.file, &config.data, &mut |progress| show(progress, args.place.json));
    let restore = begun.map_err(refused)?;
    // Before the database is there: a server that starts on it without a key would not start, or make another.
    if let Some(key) = &restore.secret_key {
        vault::put_key(&config.data, &vault::Secret::new(key), &SystemClock::start())
            .map_err(|fault| hinted(fault, "name an empty directory with --data", CONFLICT))?;
    }
    let contents = restore.finish().map_err(refused)?;
    if args.place.json {
        return Told::new(&args.file, &config.data, &contents).json();
    }
    tell(&contents, &config)
}

fn tell(contents: &Contents, config: &Config) -> anyhow::Result<()> {
    let data = config.data.display();
    output::line(&format!("{data}: {}", summary(contents)))?;
    output::line(&format!("It is as it was at {}, and was checked.", moment(contents.taken_at)))?;
    output::line(
        "What was accepted since is not there. What was delivered since is delivered again; receivers know it by its id \
         (webhook-id, X-Adal-Idempotency, Message-ID).",
    )?;
    if contents.in_flight > 0 {
        output::line(&format!(
            "{} attempts were under way; the first start records them as lost and makes them again.",
            contents.in_flight
        ))?;
    }
    output::line(&about_key(contents, config))?;
    output::line(&format!("Start it: restante serve --data {data}"))
}

fn about_key(contents: &Contents, config: &Config) -> String {
    let file = config.data.join(SECRET_KEY_FILE);
    if contents.has_secret_key {
        format!("The secret key was in the backup, and is in {}.", file.display())
    } else if contents.sealed.is_none() {
        "There are no secrets in it: the first start makes a key.".to_owned()
    } else {
        format!(
            "The secret key was not in the backup: put it to {} (mode 0600), or set RESTANTE_SECRET_KEY, as it \
             was then. Without it the server does not start.",
            file.display()
        )
    }
}

fn refused(fault: Fault) -> anyhow::Error {
    let (hint, code) = match &fault {
        Fault::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound => {
            ("name a file that restante backup made", NOT_FOUND)
        }
        Fault::Io { .. } => (
            "the file must be readable, the directory writable, and its disk have room for all of it",
            RUNTIME,
        ),
        Fault::NoBackup(_) => (
            "name a file that restante backup made; a copy of a data directory is served as it is, with --data",
            USAGE,
        ),
        Fault::Damaged { .. } => {
            ("use another backup; what can still be read of this one, sqlite3 reads", RUNTIME)
        }
        Fault::NotEmpty { .. } | Fault::Exists(_) => {
            ("name a new directory with --data; nothing is ever overwritten", CONFLICT)
        }
        Fault::Busy(_) => ("wait until it has ended", CONFLICT),
        Fault::Database(sqlite::Fault::InUse(_)) => {
            ("name a directory that no server uses with --data", CONFLICT)
        }
        Fault::Database(sqlite::Fault::Damaged(_)) => {
            ("use the version of restante that made it, or a newer one", RUNTIME)
        }
        Fault::Database(sqlite::Fault::Sqlite(_) | sqlite::Fault::Io(_)) => (
            "the file must be readable, the directory writable, and its disk have room for all of it",
            RUNTIME,
        ),
        Fault::NoData(_) | Fault::WithinData(_) | Fault::LogGrew(_) | Fault::WrongKey => {
            ("repeat this", RUNTIME)
        }
    };
    hinted(format!("nothing was restored: {fault}"), hint, code)
}
