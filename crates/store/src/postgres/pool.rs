//! Connections: addresses, TLS, limits on time.

use std::str::FromStr;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Fault;

type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// How long a connection may take to be made, to one of several hosts.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// How long a statement may run, in milliseconds: a query that hangs must not hold up a node for ever.
const STATEMENT_MS: u32 = 30_000;
/// How long a statement may wait for a row that others hold, in milliseconds.
const LOCK_MS: u32 = 10_000;
/// How long a transaction may stand still, in milliseconds: a node that froze in one must not hold its rows.
const IDLE_MS: u32 = 15_000;
/// How long the network may be silent before a connection counts as dead.
const SILENCE: Duration = Duration::from_secs(10);
/// Every statement has one good plan: by an index, row by row. It must not depend on how full a table was when the
/// statement was first prepared.
const PLANS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off \
     -c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off -c jit=off";
/// Connections for what is not written in batches.
const POOL_MAX: usize = 16;

/// How a database is reached.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    tls: MakeRustlsConnect,
}

impl Address {
    /// Reads a URL `postgres://user:password@host1:5432,host2:5432/database?sslmode=…`.
    ///
    /// Of several hosts the one that takes writes is wanted.
    ///
    /// # Errors
    /// `Setting` that says what is wrong with the URL, never with its password.
    pub(crate) fn parse(url: &str, tls: rustls::ClientConfig) -> Result<Self, Fault> {
        let mut config = Config::from_str(url)
            .map_err(|error| Fault::Setting(format!("RESTANTE_DATABASE_URL: {error}")))?;
        if config.get_hosts().is_empty() {
            return Err(Fault::Setting("RESTANTE_DATABASE_URL names no host".into()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        if config.get_application_name().is_none() {
            config.application_name("restante");
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives(true);
        config.keepalives_idle(SILENCE);
        config.tcp_user_timeout(SILENCE);
        config.options(format!(
            "{} -c statement_timeout={STATEMENT_MS} -c lock_timeout={LOCK_MS} \
             -c idle_in_transaction_session_timeout={IDLE_MS} -c synchronous_commit=on {PLANS}",
            config.get_options().unwrap_or_default()
        ));
        Ok(Self { config, tls: MakeRustlsConnect::new(tls) })
    }

    /// A connection of its own, which the caller drives.
    pub(super) async fn open(&self) -> Result<(Client, Connection<Socket, TlsStream>), Fault> {
        Ok(self.config.connect(self.tls.clone()).await?)
    }

    /// A connection of its own. The task that drives it ends with it.
    pub(crate) async fn connect(&self) -> Result<Client, Fault> {
        let (client, connection) = self.open().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(error.message = %error, "a connection to the database ended");
            }
        });
        Ok(client)
    }

    pub(crate) fn pool(&self) -> Result<Pool, Fault> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), recycling);
        Pool::builder(manager)
            .max_size(POOL_MAX)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIME))
            .create_timeout(Some(CONNECT_TIME))
            .build()
            .map_err(|error| Fault::Setting(error.to_string()))
    }
}

/// A connection from the pool.
pub(crate) async fn take(pool: &Pool) -> Result<Object, Fault> {
    pool.get().await.map_err(|error| Fault::NoConnection(error.to_string()))
}

/// Settings for connections without TLS: no certificate is trusted.
#[must_use]
pub fn trust_nobody() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has its default versions");
    builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}
