//! The commands that call a server: one file for each noun.

mod completions;
mod credits;
mod deliveries;
mod destinations;
mod doctor;
mod domains;
mod emails;
mod endpoint;
mod events;
mod keys;
mod lookup;
mod notices;
mod profiles;
mod requests;
mod send;
mod sources;
mod suppressions;
mod tail;
mod templates;
mod timeline;
mod trigger;
mod webhooks;
mod words;
mod workspace;

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::blocking::Client;
use restante_server::clock::{Clock, SystemClock};

use crate::connection;
use crate::show::{self, Show};

/// Commands about what a server holds.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Permanent URLs that receive webhooks
    Sources(Noun<sources::Action>),
    /// Receivers of a source
    Destinations(Noun<destinations::Action>),
    /// What sources have received
    Requests(Noun<requests::Action>),
    /// Messages on their way, with each attempt
    Deliveries(Noun<deliveries::Action>),
    /// Customers' endpoints, subscribed to event types
    Webhooks(Noun<webhooks::Action>),
    /// What is published to webhooks
    Events(Noun<events::Action>),
    /// What is sent to mailboxes
    Emails(Noun<emails::Action>),
    /// What emails are made from
    Templates(Noun<templates::Action>),
    /// Domains that mail is sent from
    Domains(Noun<domains::Action>),
    /// Mailboxes that get no mail
    Suppressions(Noun<suppressions::Action>),
    /// What the owners were told about webhooks
    Notices(Noun<notices::Action>),
    /// Who may call, and what they may do
    Keys(Noun<keys::Action>),
    /// The balance, and what changed it
    Credits(Single<credits::Ledger>),
    /// The workspace of the key
    Workspace(Noun<workspace::Action>),
    /// Send a request to a source, publish an event, or send an email
    Send(Noun<send::Action>),
    /// Send what GitHub, Stripe or Slack would, correctly signed
    Trigger(trigger::Trigger),
    /// Look at settings, server, key and clock, and say what is wrong
    Doctor(doctor::Doctor),
    /// Servers and keys by name
    Profiles(profiles::Profiles),
    /// Print a script that completes commands in a shell
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Sources(noun) => noun.run(),
            Self::Destinations(noun) => noun.run(),
            Self::Requests(noun) => noun.run(),
            Self::Deliveries(noun) => noun.run(),
            Self::Webhooks(noun) => noun.run(),
            Self::Events(noun) => noun.run(),
            Self::Emails(noun) => noun.run(),
            Self::Templates(noun) => noun.run(),
            Self::Domains(noun) => noun.run(),
            Self::Suppressions(noun) => noun.run(),
            Self::Notices(noun) => noun.run(),
            Self::Keys(noun) => noun.run(),
            Self::Credits(noun) => noun.run(),
            Self::Workspace(noun) => noun.run(),
            Self::Send(noun) => noun.run(),
            Self::Trigger(trigger) => trigger.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Profiles(profiles) => profiles.run(),
            Self::Completions(completions) => completions.run(),
        }
    }
}

/// What is done in a session.
pub(crate) trait Act {
    /// # Errors
    /// It failed.
    fn act(self, session: &Session) -> anyhow::Result<()>;
}

/// A noun with its verbs.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Noun<A: Subcommand> {
    #[command(subcommand)]
    action: A,
    #[command(flatten)]
    connection: connection::Flags,
    #[command(flatten)]
    show: show::Flags,
}

/// A noun without verbs.
#[derive(Debug, clap::Args)]
pub(crate) struct Single<A: clap::Args> {
    #[command(flatten)]
    action: A,
    #[command(flatten)]
    connection: connection::Flags,
    #[command(flatten)]
    show: show::Flags,
}

impl<A: Subcommand + Act> Noun<A> {
    fn run(self) -> anyhow::Result<()> {
        self.action.act(&Session::open(&self.connection, self.show)?)
    }
}

impl<A: clap::Args + Act> Single<A> {
    fn run(self) -> anyhow::Result<()> {
        self.action.act(&Session::open(&self.connection, self.show)?)
    }
}

/// A client, and how what it gets is shown.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) show: Show,
}

impl Session {
    /// # Errors
    /// The settings make no client.
    pub(crate) fn open(connection: &connection::Flags, show: show::Flags) -> anyhow::Result<Self> {
        let client = connection.settled()?.client()?;
        Ok(Self { client, show: Show::new(show, now(&SystemClock::start())) })
    }
}

/// The time of day.
pub(crate) fn now(clock: &SystemClock) -> Timestamp {
    Timestamp::from_millis(clock.now().millis())
}
