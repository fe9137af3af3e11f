//! `restante migrate`: a data directory becomes a PostgreSQL.

use std::path::Path;

use restante_server::channel::http::client_config;
use restante_server::vault::SECRET_KEY_FILE;
use restante_store::postgres;
use restante_store::sqlite;
use restante_store::transfer::{Fault, Progress, Report, transfer};

use crate::args::{Migrate, Serve};
use crate::exit::{CONFLICT, NETWORK, USAGE};
use crate::output::{self, hinted};
use crate::serve::settings;

pub(crate) fn run(args: &Migrate) -> anyhow::Result<()> {
    let Some(from) = args.from.strip_prefix("sqlite:").filter(|directory| !directory.is_empty()) else {
        let what = format!("--from {}: only a data directory can be moved", args.from);
        return Err(hinted(what, "it looks like --from sqlite:./restante-data", USAGE));
    };
    let from = Path::new(from);
    let config = settings(&Serve::default())?;
    let to = args.to.as_deref().or(config.database_url.as_ref().map(|url| url.expose()));
    let to = to.filter(|url| url.starts_with("postgres://") || url.starts_with("postgresql://"));
    let Some(to) = to else {
        let what = "--to must name a PostgreSQL";
        return Err(hinted(what, "it looks like --to postgres://user:password@host:5432/database", USAGE));
    };
    let tls = client_config(config.extra_ca_file.as_deref())
        .map_err(|fault| hinted(fault, "RESTANTE_EXTRA_CA_FILE must name a PEM file", USAGE))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(transfer(from, to, tls, show)).map_err(refused)?;
    summarise(&report, from)
}

/// One line for each table; on a terminal it shows how far that is.
fn show(Progress { table, done, total }: Progress) {
    output::progress(&format!("{table}: {done} of {total} rows"), done == total);
}

fn refused(fault: Fault) -> anyhow::Error {
    let (hint, code) = match &fault {
        Fault::Source(sqlite::Fault::InUse(_)) => ("stop the server that uses it, and repeat this", CONFLICT),
        Fault::Source(sqlite::Fault::Damaged(_)) => ("restore a backup of the data directory", 1),
        Fault::Source(sqlite::Fault::Sqlite(_) | sqlite::Fault::Io(_)) => {
            ("the data directory must be readable, and its lock file writable", 1)
        }
        Fault::Target(postgres::Fault::Setting(_)) => {
            ("it looks like --to postgres://user:password@host:5432/database", USAGE)
        }
        Fault::Target(postgres::Fault::CommitUnknown(_)) => {
            ("repeat this: if the database is then said to hold records, everything is there", NETWORK)
        }
        Fault::Target(postgres::Fault::Damaged(_)) => ("name an empty database with --to", CONFLICT),
        Fault::Target(_) => {
            ("is it running, and may this user make tables in it? Nothing was moved: repeat this", NETWORK)
        }
        Fault::NoData(_) => ("name the directory of RESTANTE_DATA: --from sqlite:DIR", USAGE),
        Fault::Outdated(_) => {
            ("start and stop this version of the server on it once, which brings it up to date", 1)
        }
        Fault::NotEmpty => ("name an empty database with --to", CONFLICT),
        Fault::Busy => ("stop all nodes, wait 15 seconds, and repeat this", CONFLICT),
        Fault::Differs { .. } => ("nothing was moved; keep the data directory, and report this", 1),
    };
    hinted(format!("cannot migrate: {fault}"), hint, code)
}

fn summarise(report: &Report, from: &Path) -> anyhow::Result<()> {
    output::line(&format!("{:<14}{:>16}{:>16}", "table", "data directory", "database"))?;
    for count in &report.counts {
        output::line(&format!("{:<14}{:>16}{:>16}", count.table, count.read, count.written))?;
    }
    output::line("\nAll rows are in the database, and the counts agree. The data directory is as it was.")?;
    if report.in_flight > 0 {
        let what = "attempts were in flight when the server died; the first node records them as lost.";
        output::line(&format!("{} {what}", report.in_flight))?;
    }
    if from.join(SECRET_KEY_FILE).exists() {
        output::line(&format!(
            "Start every node with RESTANTE_DATABASE_URL, and with RESTANTE_SECRET_KEY set to what is in {}.",
            from.join(SECRET_KEY_FILE).display()
        ))?;
    } else {
        output::line(
            "Start every node with RESTANTE_DATABASE_URL and the same RESTANTE_SECRET_KEY as before.",
        )?;
    }
    output::line("Do not start a server on the data directory again: it would deliver everything once more.")
}
