//! `restante listen`: brings what sources receive to a service on this machine.
//!
//! ```text
//! server ─▶ link (one per source) ─▶ forward ─▶ local service
//!             └▶ events ─▶ view on a terminal, lines elsewhere
//! ```

mod again;
mod dial;
mod event;
mod forward;
mod front;
mod link;
mod queue;
mod render;
mod running;
mod screen;
mod sources;
mod target;
#[cfg(test)]
mod testbed;
#[cfg(test)]
mod tests;
mod text;
mod view;
mod zone;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use restante_sdk::Client;
use restante_server::clock::{Clock, SystemClock};
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::output::hinted;
use crate::{args, connection, exit};
use again::Again;
use dial::Dialer;
use event::Event;
use forward::Forwarder;
use front::Front;
use link::{GivenUp, Link, Shared};
use queue::Events;
use running::Running;
use sources::{Chosen, Wanted};
use target::{Local, Target};
use view::Action;
use zone::Zone;

/// How long running attempts may go on, and links may take to say goodbye after that.
const END_TIME: Duration = Duration::from_millis(6_500);
/// How long the last lines may take to be shown.
const SHOW_TIME: Duration = Duration::from_secs(3);

/// What to bring where.
#[derive(Debug, clap::Args)]
pub(crate) struct ListenArgs {
    /// Where requests go: a port of this machine, or a URL [default: the destination's own URL]
    #[arg(value_name = "PORT|URL")]
    pub(crate) to: Option<String>,
    /// A source, by its name or id; also more than once [default: the only one there is]
    #[arg(long = "source", short = 's', value_name = "NAME")]
    pub(crate) sources: Vec<String>,
    /// Put this in front of the path of each request
    #[arg(long, value_name = "PREFIX")]
    pub(crate) path: Option<String>,
    /// Make the sources that are missing
    #[arg(long)]
    pub(crate) create: bool,
    /// One line of JSON for each attempt and each change of a connection, in a shape with a version
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// No lines for attempts, and only what needs a person on standard error
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

impl args::Listen {
    /// Listens until it is stopped, and gives how it ended.
    ///
    /// # Errors
    /// Settings that cannot be used, and what keeps it from listening.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let settled = self.connection.settled()?;
        let client = settled.client_for_tasks()?;
        let certificates = connection::certificate_file();
        run(
            &self.what,
            &Setup { client: &client, url: &settled.url.text, extra_ca_file: certificates.as_deref() },
        )
    }
}

/// The server.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) client: &'a Client,
    /// Address of the server, as the client has it.
    pub(crate) url: &'a str,
    /// PEM certificates to trust besides the public ones.
    pub(crate) extra_ca_file: Option<&'a Path>,
}

/// Why it ends.
#[derive(Debug)]
enum Ending {
    Quit,
    Interrupted,
    GivenUp(GivenUp),
    /// Nobody sees anything any more.
    Blind(anyhow::Error),
}

/// Listens until somebody or something ends it.
///
/// # Errors
/// With a hint and an exit code.
pub(crate) fn run(args: &ListenArgs, setup: &Setup<'_>) -> anyhow::Result<ExitCode> {
    let zone = Zone::here();
    let local = Local::parse(args.to.as_deref(), args.path.as_deref())
        .map_err(|error| hinted(error, "for example 3000, or http://localhost:3000/hooks", exit::USAGE))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending = runtime.block_on(listen(args, setup, local, zone))?;
    // Attempts that are still on their way after all that time end here.
    runtime.shutdown_background();
    match ending {
        Ending::Quit => Ok(ExitCode::SUCCESS),
        Ending::Interrupted => Ok(ExitCode::from(exit::INTERRUPTED)),
        Ending::Blind(error) => Err(error),
        Ending::GivenUp(given_up @ GivenUp::Unknown) => {
            Err(hinted(given_up, "its token was changed or it was deleted: start again", exit::AUTH))
        }
        Ending::GivenUp(given_up @ GivenUp::Full) => Err(hinted(
            given_up,
            "end another `restante listen` of this source, then start again",
            exit::RUNTIME,
        )),
    }
}

async fn listen(args: &ListenArgs, setup: &Setup<'_>, local: Local, zone: Zone) -> anyhow::Result<Ending> {
    let mut signals = Signals::new()?;
    let quiet = args.quiet;
    let wanted = Wanted { sources: &args.sources, create: args.create, local: &local };
    let mut say = |text: &str| front::talk_unless(quiet, text);
    let chosen = tokio::select! {
        chosen = sources::choose(setup.client, &wanted, &mut say) => chosen?,
        () = signals.any() => return Ok(Ending::Interrupted),
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let dialer = Arc::new(Dialer::new(setup.extra_ca_file)?);
    let server = setup.url.trim_end_matches('/').to_owned();
    let mut front =
        Front::start(chosen.clone(), server.clone(), (args.json, quiet), zone, Arc::clone(&clock))?;
    let shared = Arc::new(Shared {
        server,
        local,
        forwarder: Arc::new(Forwarder::new(Arc::clone(&dialer))),
        dialer,
        clock,
        events: front.events.clone(),
        running: Running::default(),
    });
    for (source, chosen) in chosen.iter().enumerate() {
        check(source, chosen, &shared.events);
    }
    let (stop, stopping) = watch::channel(false);
    let mut links = JoinSet::new();
    for (source, Chosen { token, .. }) in chosen.into_iter().enumerate() {
        let link = Link { shared: Arc::clone(&shared), source, token, stop: stopping.clone() };
        links.spawn(link.run());
    }
    let again = Again::new(setup.client.clone(), Arc::clone(&shared.clock), zone);
    let ending = attend(&again, &mut front, &mut links, &mut signals, &shared).await;
    stop.send_replace(true);
    let ended = async {
        shared.events.tell(Event::Stopping { running: shared.running.count() });
        while links.join_next().await.is_some() {}
        shared.running.end(link::DRAIN_TIME).await;
    };
    tokio::select! {
        // What is over in time, and what is not, both end here.
        _ = tokio::time::timeout(END_TIME, ended) => {}
        // A second time: at once.
        () = signals.any() => {}
        () = front.interrupted() => {}
    }
    links.shutdown().await;
    drop(shared);
    let shown = tokio::select! {
        shown = front.finish() => shown,
        // Whoever reads the output has stopped, and is not waited for.
        () = signals.any() => Err(anyhow!("the output is not taken")),
        () = tokio::time::sleep(SHOW_TIME) => Err(anyhow!("the output is not taken")),
    };
    Ok(match (ending, shown) {
        (ending @ (Ending::GivenUp(_) | Ending::Blind(_)), _) | (ending, Ok(())) => ending,
        (Ending::Quit | Ending::Interrupted, Err(error)) => Ending::Blind(error),
    })
}

/// Does what is asked for until there is a reason to end.
async fn attend(
    again: &Again,
    front: &mut Front,
    links: &mut JoinSet<Result<(), GivenUp>>,
    signals: &mut Signals,
    shared: &Shared,
) -> Ending {
    loop {
        tokio::select! {
            () = signals.any() => return Ending::Interrupted,
            Some(ended) = links.join_next() => match ended {
                Ok(Err(given_up)) => return Ending::GivenUp(given_up),
                Ok(Ok(())) => return Ending::Quit,
                Err(error) => return Ending::Blind(anyhow::Error::new(error).context("a connection's task died")),
            },
            action = front.next() => match action {
                Err(error) => return Ending::Blind(error),
                Ok(Action::Quit) => return Ending::Quit,
                Ok(Action::Interrupt) => return Ending::Interrupted,
                Ok(Action::Retry(delivery_id)) => retry(again, delivery_id, &shared.events),
                Ok(Action::Copy(text)) => {
                    let note = if screen::fits_clipboard(&text) { "copied" } else { "too long for the clipboard" };
                    shared.events.tell(Event::Note(format!("curl command: {note}")));
                }
                Ok(Action::Open(url)) => open(&url, &shared.events),
            },
        }
    }
}

/// Looks once whether the local service answers, and says so.
fn check(source: usize, chosen: &Chosen, events: &Events) {
    for url in chosen.targets.clone() {
        let events = events.clone();
        tokio::spawn(async move {
            let fault = match Target::parse(&url) {
                Ok(target) => dial::connect(&target.place).await.err(),
                Err(error) => Some(error.to_string()),
            };
            events.tell(Event::Local { source, url, fault });
        });
    }
}

fn retry(again: &Again, delivery_id: String, events: &Events) {
    let (again, events) = (again.clone(), events.clone());
    tokio::spawn(async move { events.tell(Event::Note(again.retry(&delivery_id).await)) });
}

/// Shows an address in the browser, if there is one; in any case it is said.
fn open(url: &str, events: &Events) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    let null = std::process::Stdio::null;
    let started = command.arg(url).stdin(null()).stdout(null()).stderr(null()).spawn();
    // The browser lives on; its end is taken note of by the runtime.
    drop(started);
    events.tell(Event::Note(url.to_owned()));
}

/// What tells a process to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
