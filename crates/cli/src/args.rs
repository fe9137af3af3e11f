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
    /// Copy the embedded database into one file, also while a server works on it
    Backup(Backup),
    /// Put a backup into an empty data directory
    Restore(Restore),
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

/// What is copied where.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The file to make
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Keep the content of secret.key in it, too: whoever has the file can then read the secrets in it
    #[arg(long)]
    pub(crate) with_secret_key: bool,
    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// What is put back where.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// A file made by restante backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Which data directory, and how what was done is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The data directory [default: the setting data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// The settings file [default: restante.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One line of JSON
    #[arg(long)]
    pub(crate) json: bool,
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
