//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::listen::ListenArgs;
use crate::{commands, connection};

/// Answers for messages until they arrive: receives webhooks, keeps them, delivers them, shows every attempt.
#[derive(Debug, Parser)]
#[command(name = "restante", version, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: Serve,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (also without any command)
    Serve(Serve),
    /// Watch a throw-away server deliver, fail, retry and replay: no set-up, under 30 seconds
    Tour,
    /// Move a data directory into an empty PostgreSQL, for any number of nodes
    Migrate(Migrate),
    /// Bring what sources receive to a service on this machine
    Listen(Listen),
    #[command(flatten)]
    Client(Box<commands::Command>),
    /// Print the reference page of all settings
    #[command(hide = true)]
    ConfigReference,
}

/// What to bring where, and from which server.
#[derive(Debug, clap::Args)]
pub(crate) struct Listen {
    #[command(flatten)]
    pub(crate) what: ListenArgs,
    #[command(flatten)]
    pub(crate) connection: connection::Flags,
}

/// From where to where everything is moved.
#[derive(Debug, clap::Args)]
pub(crate) struct Migrate {
    /// The data directory of a server that is stopped, as sqlite:DIR. It is only read
    #[arg(long, value_name = "sqlite:DIR")]
    pub(crate) from: String,
    /// The database, postgres://user:password@host/database, which holds nothing yet [default: the setting database_url]
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
}

/// Flags of the server. Those that are settings win over the environment and the file.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Serve {
    /// Deliver to any address, in plain http too: for development
    #[arg(long)]
    pub(crate) dev: bool,
    /// The data directory [default: ./restante-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// Address and port to listen on [default: 127.0.0.1:8420]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The address under which the world reaches this server
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// What is logged: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// The settings file [default: restante.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
