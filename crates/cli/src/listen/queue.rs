//! What is waiting to be shown: bounded, because whoever shows it may stand still while deliveries go on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::event::Event;
use super::forward::head::Line;

/// Events about attempts that wait.
const EVENTS_MAX: usize = 50_000;
/// Bytes of them, about.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where events go. Whoever shows them may be gone already: then nobody is left to tell.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: UnboundedSender<Event>,
    backlog: Arc<Mutex<Backlog>>,
    /// Whether bodies are shown, and attempts from their beginning.
    pub(crate) bodies: bool,
}

/// Where they come out.
#[derive(Debug)]
pub(crate) struct Queue {
    receiver: UnboundedReceiver<Event>,
    backlog: Arc<Mutex<Backlog>>,
}

/// A queue, and its entrance.
pub(crate) fn queue(bodies: bool) -> (Events, Queue) {
    let (sender, receiver) = unbounded_channel();
    let backlog = Arc::<Mutex<Backlog>>::default();
    (Events { sender, backlog: Arc::clone(&backlog), bodies }, Queue { receiver, backlog })
}

impl Events {
    /// Takes an event, unless too much waits already: then it is counted, and the count is shown.
    pub(crate) fn tell(&self, event: Event) {
        if locked(&self.backlog).admit(&event, self.bodies) {
            let _ = self.sender.send(event);
        }
    }
}

impl Queue {
    /// The next event; `None` when nobody can tell anything any more.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.missed().or_else(|| self.receiver.blocking_recv().inspect(|event| self.leaves(event)))
    }

    /// The next event, if there is one.
    ///
    /// # Errors
    /// There is none now, or never again.
    pub(crate) fn try_next(&mut self) -> Result<Event, TryRecvError> {
        let missed = self.missed();
        missed.map_or_else(|| self.receiver.try_recv().inspect(|event| self.leaves(event)), Ok)
    }

    #[cfg(test)]
    pub(crate) async fn recv(&mut self) -> Option<Event> {
        self.receiver.recv().await.inspect(|event| self.leaves(event))
    }

    fn missed(&self) -> Option<Event> {
        let count = std::mem::take(&mut locked(&self.backlog).missed);
        (count > 0).then_some(Event::Missed { count })
    }

    fn leaves(&self, event: &Event) {
        locked(&self.backlog).leave(event);
    }
}

fn locked(backlog: &Mutex<Backlog>) -> MutexGuard<'_, Backlog> {
    backlog.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much waits.
#[derive(Debug, Default)]
struct Backlog {
    events: usize,
    bytes: usize,
    /// Attempts that are not shown, since that was last said.
    missed: usize,
    /// Attempts on their way whose beginning was not shown; nor will their end be.
    hidden: HashSet<u64>,
}

impl Backlog {
    /// Whether an event may wait. `begins`: attempts are shown from their beginning, and else when they have ended.
    fn admit(&mut self, event: &Event, begins: bool) -> bool {
        let Some(bytes) = weight(event) else { return true };
        let full = self.events >= EVENTS_MAX || self.bytes.saturating_add(bytes) > BYTES_MAX;
        let shown = match event {
            Event::Began(attempt) => {
                if begins && full {
                    self.hidden.insert(attempt.serial);
                    self.missed += 1;
                }
                begins && !full
            }
            // What is shown as running must be seen to end; no more of those can come than were shown.
            Event::Ended { attempt, .. } if begins => !self.hidden.remove(&attempt.serial),
            Event::Ended { .. } => {
                self.missed += usize::from(full);
                !full
            }
            Event::Answered { .. } => !full,
            Event::Link { .. }
            | Event::Local { .. }
            | Event::Note(_)
            | Event::Missed { .. }
            | Event::Stopping { .. }
            | Event::Over => true,
        };
        if shown {
            self.events += 1;
            self.bytes += bytes;
        }
        shown
    }

    fn leave(&mut self, event: &Event) {
        if let Some(bytes) = weight(event) {
            self.events -= 1;
            self.bytes -= bytes;
        }
    }
}

/// Bytes that an event about an attempt holds. `None`: it is of another kind, which are few, and must be told.
fn weight(event: &Event) -> Option<usize> {
    let of = |lines: &[Line]| lines.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    match event {
        Event::Began(attempt) => Some(attempt.body.len() + of(&attempt.lines) + attempt.url.len()),
        Event::Ended { attempt, end } => Some(of(&attempt.lines) + of(&end.lines) + attempt.url.len()),
        Event::Answered { body, .. } => Some(body.len()),
        Event::Link { .. }
        | Event::Local { .. }
        | Event::Note(_)
        | Event::Missed { .. }
        | Event::Stopping { .. }
        | Event::Over => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::listen::event::{Attempt, Outcome};
    use crate::listen::tests::{attempt, ended};

    const ANSWERED: Outcome = Outcome::Answer { status: 200 };

    fn drained(queue: &mut Queue) -> Vec<Event> {
        std::iter::from_fn(|| queue.try_next().ok()).collect()
    }

    #[test]
    fn lines_that_nobody_reads_are_counted_and_what_matters_is_told() {
        let (events, mut queue) = queue(false);
        let over = EVENTS_MAX as u64 + 7;
        for serial in 1..=over {
            let attempt = attempt(serial, "GET", "/", b"");
            events.tell(Event::Began(Arc::clone(&attempt)));
            events.tell(ended(&attempt, ANSWERED, 1));
        }
        events.tell(Event::Stopping { running: 0 });
        let shown = drained(&mut queue);
        assert!(matches!(shown[0], Event::Missed { count: 7 }), "{:?}", shown[0]);
        assert!(matches!(shown.last(), Some(Event::Stopping { .. })));
        assert_eq!(shown.len(), EVENTS_MAX + 2);
        events.tell(ended(&attempt(1, "GET", "/", b""), ANSWERED, 1));
        assert!(matches!(drained(&mut queue)[..], [Event::Ended { .. }]), "there is room again");
    }

    #[test]
    fn a_view_that_stands_still_keeps_no_more_bodies_than_it_may_and_sees_the_end_of_all_it_shows() {
        let (events, mut queue) = queue(true);
        let body = Bytes::from(vec![b'x'; 10 * 1024 * 1024]);
        let attempts: Vec<Arc<Attempt>> = (1..=9)
            .map(|serial| {
                let bare = Arc::unwrap_or_clone(attempt(serial, "POST", "/", b""));
                Arc::new(Attempt { body: body.clone(), ..bare })
            })
            .collect();
        attempts.iter().for_each(|attempt| events.tell(Event::Began(Arc::clone(attempt))));
        attempts.iter().for_each(|attempt| events.tell(ended(attempt, ANSWERED, 1)));
        let shown = drained(&mut queue);
        assert!(matches!(shown[0], Event::Missed { count: 3 }), "{:?}", shown[0]);
        let (mut began, mut ended) = (Vec::new(), Vec::new());
        for event in &shown {
            if let Event::Began(attempt) = event {
                began.push(attempt.serial);
            }
            if let Event::Ended { attempt, .. } = event {
                ended.push(attempt.serial);
            }
        }
        assert_eq!((began, ended), (vec![1, 2, 3, 4, 5, 6], vec![1, 2, 3, 4, 5, 6]));
    }
}
