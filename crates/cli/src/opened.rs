//! The store that the settings name: the embedded database or a PostgreSQL.

use std::sync::Arc;

use restante_server::channel::http::client_config;
use restante_server::config::Config;
use restante_store::Store;
use restante_store::postgres::{self, Postgres};
use restante_store::sqlite::{self, Sqlite};

use crate::exit::{CONFLICT, NETWORK, USAGE};
use crate::output::hinted;

/// An open store, to be closed in the end.
pub(crate) enum Opened {
    Embedded(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

impl Opened {
    /// Opens what `database_url` names, or else the data directory.
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        match &config.database_url {
            Some(url) => Ok(Self::Postgres(Arc::new(open_postgres(config, url.expose()).await?))),
            None => Ok(Self::Embedded(Arc::new(open_sqlite(config)?))),
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Postgres(store) => Arc::clone(store) as _,
        }
    }

    /// Finishes what is queued.
    pub(crate) async fn close(self) {
        match self {
            Self::Embedded(store) => store.close(),
            Self::Postgres(store) => store.close().await,
        }
    }
}

async fn open_postgres(config: &Config, url: &str) -> anyhow::Result<Postgres> {
    let tls = client_config(config.extra_ca_file.as_deref())
        .map_err(|fault| hinted(fault, "RESTANTE_EXTRA_CA_FILE must name a PEM file", USAGE))?;
    Postgres::open(url, tls, config.policy()).await.map_err(|fault| {
        let what = format!("cannot use the database of RESTANTE_DATABASE_URL: {fault}");
        match fault {
            postgres::Fault::Setting(_) => {
                hinted(what, "it looks like postgres://user:password@host:5432/database", USAGE)
            }
            postgres::Fault::Damaged(_) => {
                hinted(what, "start the version that wrote it, or restore a backup", 1)
            }
            postgres::Fault::Database(_)
            | postgres::Fault::NoConnection(_)
            | postgres::Fault::CommitUnknown(_)
            | postgres::Fault::Stale
            | postgres::Fault::Gone
            | postgres::Fault::NeedsConfiguration => {
                hinted(what, "is it running, and may this user make tables in it?", NETWORK)
            }
        }
    })
}

fn open_sqlite(config: &Config) -> anyhow::Result<Sqlite> {
    Sqlite::open(&config.data, config.policy()).map_err(|fault| {
        let what = format!("cannot open the data directory {}: {fault}", config.data.display());
        match fault {
            sqlite::Fault::InUse(_) => {
                hinted(what, "stop the other process, or name another directory with --data", CONFLICT)
            }
            sqlite::Fault::Damaged(_) => {
                hinted(what, "start the version that wrote it, or restore a backup", 1)
            }
            sqlite::Fault::Sqlite(_) | sqlite::Fault::Io(_) => {
                hinted(what, "the directory must be writable and its disk not full; --data names another", 1)
            }
        }
    })
}
