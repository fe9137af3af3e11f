//! `restante serve`: settings, store, threads, greeting, and an orderly end.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use restante_server::Server;
use restante_server::clock::{Clock, SystemClock};
use restante_server::config::{Config, Fault};
use restante_server::threads::Threads;
use restante_store::Store;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::Serve;
use crate::connection::{PROJECT_TABLE, VARIABLES};
use crate::exit::{CONFLICT, USAGE};
use crate::log::{self, JsonLines, LogThread};
use crate::opened::Opened;
use crate::output::{self, hinted};

/// The settings file that is read if it is there.
const CONFIG_FILE: &str = "restante.toml";

pub(crate) fn run(args: &Serve) -> anyhow::Result<()> {
    let config = settings(args)?;
    let _log = start_log(&config)?;
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // What a database of its own goes on with in the background is done by this thread.
    let opened = runtime.block_on(Opened::open(&config))?;
    let threads = Threads::start(config.threads).context("cannot start the runtime threads")?;
    let served = runtime.block_on(serve(&config, opened.store(), &threads, args.dev));
    drop(threads);
    runtime.block_on(opened.close());
    served
}

async fn serve(config: &Config, store: Arc<dyn Store>, threads: &Threads, dev: bool) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let server = Server::start(config, store, clock, threads.handles()).await.map_err(start_fault)?;
    greet(config, &server, dev)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping: attempts on the wire may end, new requests are refused");
    server.stop().await;
    Ok(())
}

pub(crate) fn settings(args: &Serve) -> anyhow::Result<Config> {
    let path = args.config.as_deref().unwrap_or(Path::new(CONFIG_FILE));
    let file = match std::fs::read_to_string(path) {
        Ok(text) => Some(without_client(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && args.config.is_none() => None,
        Err(error) => {
            let what = format!("cannot read {}: {error}", path.display());
            return Err(hinted(what, "name a readable file with --config", USAGE));
        }
    };
    let flags = [
        ("data", &args.data),
        ("listen", &args.listen),
        ("public_url", &args.public_url),
        ("log", &args.log),
    ];
    let flags = flags.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    let mut config = Config::layered(file.as_deref(), environment()?, flags).map_err(|fault| {
        let hint = match fault {
            Fault::Unknown { .. } => {
                "remove it or correct its name; docs/configuration.md lists all settings"
            }
            Fault::Value { .. } => "docs/configuration.md says what each setting takes",
            Fault::File(_) => "restante.toml holds lines such as `listen = \"127.0.0.1:8420\"`",
        };
        hinted(fault, hint, USAGE)
    })?;
    if args.dev {
        config.loosen_for_development();
    }
    Ok(config)
}

/// The file without the table that clients read.
fn without_client(text: String) -> String {
    let table = text.parse::<toml::Table>().ok();
    let Some(mut table) = table.filter(|table| table.contains_key(PROJECT_TABLE)) else { return text };
    table.remove(PROJECT_TABLE);
    toml::to_string(&table).unwrap_or(text)
}

/// The environment's variables but those of clients. A setting that is not UTF-8 must not pass for one that is not there.
fn environment() -> anyhow::Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else { continue };
        if VARIABLES.contains(&name.as_str()) {
            continue;
        }
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(_) if name.starts_with("RESTANTE_") || name.starts_with("OTEL_") => {
                return Err(hinted(format!("the value of {name} is not UTF-8"), "set it anew", USAGE));
            }
            Err(_) => {}
        }
    }
    Ok(variables)
}

fn start_fault(fault: restante_server::StartFault) -> anyhow::Error {
    use restante_server::StartFault;
    use restante_server::vault::KeyFault;
    match fault {
        StartFault::Listen { address, source } => hinted(
            format!("cannot listen on {address}: {source}"),
            "is another server running there? --listen 127.0.0.1:0 takes a free port",
            CONFLICT,
        ),
        StartFault::Channel(fault) => hinted(fault, "RESTANTE_EXTRA_CA_FILE must name a PEM file", USAGE),
        StartFault::FirstKey(fault) => hinted(fault, "RESTANTE_ADMIN_KEY sets the first admin key", USAGE),
        StartFault::SecretKey(fault @ KeyFault::Unset) => hinted(
            fault,
            "set RESTANTE_SECRET_KEY on every node to the same text, such as `openssl rand -hex 32` prints once",
            USAGE,
        ),
        StartFault::SecretKey(fault) => {
            hinted(fault, "secrets can be read only with the key they were sealed with", USAGE)
        }
        StartFault::Store(fault) => anyhow::Error::new(fault).context("the store does not answer"),
    }
}

/// Lines for people on a terminal, JSON for machines elsewhere.
fn start_log(config: &Config) -> anyhow::Result<LogThread> {
    let filter: Targets = config.log.parse().map_err(|_| {
        hinted(format!("setting `log`: `{}`", config.log), "a level such as info or warn", USAGE)
    })?;
    // Libraries say at their lower levels what passes through them: headers, names, statements. Whatever is asked for,
    // only lines of this program get into the log, for only of those it is known what they hold.
    let ours = filter_fn(|metadata| metadata.target().starts_with("restante"));
    let filter = filter.and(ours);
    let (writer, thread) = log::start().context("cannot start the log")?;
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    if std::io::stderr().is_terminal() {
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let layer = layer.compact().with_target(false).with_ansi(colours);
        tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    } else {
        let layer = layer.event_format(JsonLines(SystemClock::start()));
        tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    }
    Ok(thread)
}

/// Takes as many file descriptors as the system gives: each connection is one.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(error.message = %error, "the limit of open files stays as it is");
    }
}

/// Says where the server is, and at the first start how to use it.
fn greet(config: &Config, server: &Server, dev: bool) -> anyhow::Result<()> {
    let url = &server.public_url;
    let version = env!("CARGO_PKG_VERSION");
    let place = match &config.database_url {
        // It may hold a password.
        Some(_) => "the database of RESTANTE_DATABASE_URL".to_owned(),
        None => config.data.display().to_string(),
    };
    output::line(&format!("Restante {version} listens on http://{}, data in {place}", server.address))?;
    if dev {
        output::line("Development: delivers to any address, in plain http too.")?;
    }
    if config.mail_route().is_none() {
        output::line(
            "Mail is captured: it is kept and shown, and goes nowhere (RESTANTE_SMTP_URL sends it).",
        )?;
    }
    let Some(key) = &server.fresh_key else {
        output::line(&format!("The dashboard: {url}/"))?;
        return Ok(());
    };
    if let Some(link) = &server.sign_in_link {
        output::line(&format!("\nThe dashboard; this link signs in, once:\n\n    {link}"))?;
    }
    output::line(&format!(
        "\nThis is its first start. The admin key, shown only now, signs in and stands in calls:\n\n    {key}\n\n\
         Try it. This makes a source and answers with its URL; send anything there:\n\n    \
         curl -s {url}/v1/sources -H 'Authorization: Bearer {key}' -d '{{\"name\":\"hello\"}}'\n\n\
         See what arrived:\n\n    \
         curl -s {url}/v1/requests -H 'Authorization: Bearer {key}'\n\n\
         In half a minute, what it does when a receiver is broken: restante tour"
    ))
}
