//! Who shows what happens: the view on a terminal, lines elsewhere. Each has a thread of its own, so that a slow reader
//! holds up no delivery.

use std::io::{self, ErrorKind, IsTerminal, Write, stdin, stdout};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use anyhow::anyhow;
use restante_server::clock::Clock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::dial::reason;
use super::event::Event;
use super::queue::{Events, Queue, queue};
use super::render::{Line, Render};
use super::screen;
use super::sources::Chosen;
use super::view::{Action, View};
use super::zone::Zone;
use crate::output::hinted;
use crate::{exit, output};

/// Shows what happens.
pub(crate) struct Front {
    pub(crate) events: Events,
    actions: UnboundedReceiver<Action>,
    /// Closed when the thread has ended.
    ended: watch::Receiver<()>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    /// Keeps `actions` open where there are no keys.
    _actions: UnboundedSender<Action>,
}

impl Front {
    /// The view, where input and output are a terminal and nobody wants lines.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(
        sources: Vec<Chosen>,
        dashboard: String,
        (json, quiet): (bool, bool),
        zone: Zone,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let full_screen = !json && !quiet && stdout().is_terminal() && stdin().is_terminal();
        let (events, queue) = queue(full_screen);
        let (actor, actions) = unbounded_channel();
        let (end, ended) = watch::channel(());
        let colours = output::colours();
        let acting = actor.clone();
        let work = move || {
            // Dropped when the thread ends, in whatever way.
            let _end = end;
            if full_screen {
                let view = View::new(sources, dashboard, zone, colours);
                return screen::run(view, queue, &acting, &clock);
            }
            let render = Render { sources, dashboard, json, quiet, colours, zone };
            write_lines(&render, queue, clock.as_ref())
        };
        let thread = Builder::new().name("front".to_owned()).spawn(work)?;
        Ok(Self { events, actions, ended, thread: Some(thread), _actions: actor })
    }

    /// What a key asks for next.
    ///
    /// # Errors
    /// Nothing is shown any more, and why.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Action> {
        tokio::select! {
            Some(action) = self.actions.recv() => Ok(action),
            // Nothing is ever sent: it closes.
            _ = self.ended.changed() => Err(self.join().err().unwrap_or_else(|| anyhow!("the output ended"))),
        }
    }

    /// Returns when a key asks to end at once.
    pub(crate) async fn interrupted(&mut self) {
        while let Some(action) = self.actions.recv().await {
            if action == Action::Interrupt {
                return;
            }
        }
    }

    /// Shows what is left, and ends.
    ///
    /// # Errors
    /// It could not be shown.
    pub(crate) async fn finish(mut self) -> anyhow::Result<()> {
        self.events.tell(Event::Over);
        let _ = self.ended.changed().await;
        self.join()
    }

    fn join(&mut self) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(anyhow!("the output died of a fault in the program")))
    }
}

fn write_lines(render: &Render, mut events: Queue, clock: &dyn Clock) -> anyhow::Result<()> {
    while let Some(event) = events.next() {
        if matches!(event, Event::Over) {
            break;
        }
        for line in render.lines(&event, clock.now()) {
            match line {
                Line::Data(text) => {
                    let mut out = stdout().lock();
                    // Not as a cause: elsewhere a pipe that closes is a good end, here deliveries go on unseen.
                    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| unwritable(&error))?;
                }
                Line::Talk(text) => output::talk(&text),
            }
        }
    }
    Ok(())
}

fn unwritable(error: &io::Error) -> anyhow::Error {
    if error.kind() == ErrorKind::BrokenPipe {
        let what = "standard output is closed: whoever read it has ended";
        return hinted(what, "without a reader it listens with --quiet", exit::RUNTIME);
    }
    let what = format!("standard output cannot be written: {}", reason(error));
    hinted(what, "is there room where it goes? --quiet listens without it", exit::RUNTIME)
}

/// Says something to people.
pub(crate) fn talk_unless(quiet: bool, text: &str) {
    if !quiet {
        output::talk(text);
    }
}
