//! A connection at work: frames come in, attempts are made side by side, results go out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use restante_sdk::tunnel::{AckFrame, ResultFrame, ResultStatus, ToClient, ToServer};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, unconstrained, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::course::{Beat, Pulse, Sleep};
use super::inbox::{Inbox, Work};
use super::open::{Socket, told};
use super::{LOOK_EVERY, Link, Shared, stopped};
use crate::listen::event::{Attempt, End, Event, FaultKind, Outcome};
use crate::listen::forward::{Fault, Outgoing, head};
use crate::listen::render::word;
use crate::listen::target::Target;

/// Attempts at the same time on one connection.
const RUNNING_MAX: usize = 64;
/// For a delivery that says nothing of it.
const ATTEMPT_TIME: Duration = Duration::from_secs(30);
/// How long a frame may take to leave.
const WRITE_TIME: Duration = Duration::from_secs(15);
/// How long attempts may go on when it is to stop.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How long the server is given to say goodbye.
const CLOSE_TIME: Duration = Duration::from_millis(500);
/// Numbers attempts.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// An attempt that has ended.
struct Done {
    attempt: Arc<Attempt>,
    end: End,
    report: ResultFrame,
}

/// An attempt on its way.
struct Started {
    attempt: Arc<Attempt>,
    /// The delivery on this connection.
    delivery_id: i64,
    since: Instant,
    task: AbortHandle,
}

struct Session {
    shared: Arc<Shared>,
    source: usize,
    socket: Socket,
    inbox: Inbox,
    /// By serial.
    started: HashMap<u64, Started>,
    done: mpsc::UnboundedSender<Done>,
    pulse: Pulse,
    /// Whether the server has said anything but goodbye.
    heard: bool,
}

/// How a connection ended.
pub(super) struct Over {
    /// `None`: it was to stop.
    pub(super) why: Option<String>,
    /// Whether the server has said anything on it but goodbye.
    pub(super) heard: bool,
}

/// Works until the connection ends.
pub(super) async fn run(link: &mut Link, socket: Socket) -> Over {
    let (done, mut ended) = mpsc::unbounded_channel();
    let mut session = Session {
        shared: Arc::clone(&link.shared),
        source: link.source,
        socket,
        inbox: Inbox::default(),
        started: HashMap::new(),
        done,
        pulse: Pulse::new(link.shared.clock.monotonic()),
        heard: false,
    };
    let why = match session.work(&mut ended, &mut link.stop).await {
        Ok(()) => session.wind_up(&mut ended).await.err(),
        Err(why) => Some(why),
    };
    let heard = session.heard;
    session.leave(ended);
    // A link that broke while it was to stop is stopped.
    Over { why: why.filter(|_| !*link.stop.borrow()), heard }
}

impl Session {
    /// Works until it is to stop.
    ///
    /// # Errors
    /// Why the connection ended.
    async fn work(
        &mut self,
        ended: &mut mpsc::UnboundedReceiver<Done>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), String> {
        let clock = Arc::clone(&self.shared.clock);
        let mut sleep = Sleep::new(clock.now().millis(), clock.monotonic());
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = self.socket.next() => self.hear(message)?,
                Some(done) = ended.recv() => self.report(done).await?,
                _ = look.tick() => {
                    if sleep.look(clock.now().millis(), clock.monotonic()).is_some() {
                        self.pulse.doubt(clock.monotonic());
                    }
                    self.beat().await?;
                }
                () = stopped(stop) => return Ok(()),
            }
            loop {
                // What was called off while nobody listened, as in a sleep, must not begin: the cancel is here already,
                // behind the request.
                self.hear_what_is_here().await?;
                if self.started.len() >= RUNNING_MAX {
                    break;
                }
                let Some(work) = self.inbox.next() else { break };
                self.begin(work).await?;
            }
        }
    }

    /// Takes in the frames that can be read without waiting. What a server hands over without a result is bounded, and
    /// so is this.
    async fn hear_what_is_here(&mut self) -> Result<(), String> {
        loop {
            let mut heard = false;
            // Else the runtime would say after a while that nothing is here, to give others a turn.
            while let Some(message) = unconstrained(self.socket.next()).now_or_never() {
                self.hear(message)?;
                heard = true;
            }
            if !heard {
                return Ok(());
            }
            // What was read made room for more, which the runtime learns of only when it has its turn.
            yield_now().await;
        }
    }

    /// Begins nothing new; lets end what runs, and reports it.
    async fn wind_up(&mut self, ended: &mut mpsc::UnboundedReceiver<Done>) -> Result<(), String> {
        let until = Instant::now() + DRAIN_TIME;
        self.inbox.clear();
        while !self.started.is_empty() {
            tokio::select! {
                message = self.socket.next() => self.hear(message)?,
                Some(done) = ended.recv() => self.report(done).await?,
                () = sleep_until(until) => break,
            }
            self.inbox.clear();
        }
        let goodbye = async {
            self.socket.close(None).await?;
            while let Some(message) = self.socket.next().await {
                message?;
            }
            Ok::<_, tokio_tungstenite::tungstenite::Error>(())
        };
        // It is over in any case.
        let _ = timeout(CLOSE_TIME, goodbye).await;
        Ok(())
    }

    /// Attempts that still run can be reported to nobody, but their ends are shown.
    fn leave(self, mut ended: mpsc::UnboundedReceiver<Done>) {
        let Self { shared, done, .. } = self;
        drop(done);
        tokio::spawn(async move {
            while let Some(Done { attempt, end, .. }) = ended.recv().await {
                shared.events.tell(Event::Ended { attempt, end: End { reported: false, ..end } });
            }
        });
    }

    fn hear(
        &mut self,
        message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<(), String> {
        let message = message.ok_or("the server ended the connection")?.map_err(|error| told(&error))?;
        self.pulse.heard(self.shared.clock.monotonic());
        self.heard |= !matches!(message, Message::Close(_));
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Close(Some(frame)) if !frame.reason.is_empty() => {
                return Err(format!("the server ended the connection: {}", frame.reason));
            }
            Message::Close(_) => return Err("the server ended the connection".to_owned()),
            // Pings are answered by the library.
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Ok(()),
        };
        let frame =
            ToClient::read(&bytes).map_err(|error| format!("the server does not make sense: {error}"))?;
        if let Some(delivery_id) = frame.and_then(|frame| self.inbox.take(frame)) {
            self.cancel(delivery_id);
        }
        Ok(())
    }

    /// Ends an attempt whose result nobody wants.
    fn cancel(&mut self, delivery_id: i64) {
        let of_delivery = |_: &u64, started: &mut Started| started.delivery_id == delivery_id;
        for (_, Started { attempt, since, task, .. }) in self.started.extract_if(of_delivery) {
            task.abort();
            let end = End {
                outcome: Outcome::Cancelled,
                duration: since.elapsed(),
                lines: Vec::new(),
                reported: true,
            };
            self.shared.events.tell(Event::Ended { attempt, end });
        }
    }

    async fn beat(&mut self) -> Result<(), String> {
        let now = self.shared.clock.monotonic();
        match self.pulse.beat(now) {
            Beat::Nothing => Ok(()),
            Beat::Ping => self.send(Message::Ping(Bytes::new())).await,
            Beat::GiveUp => {
                Err(format!("nothing was heard of the server for {} s", self.pulse.silence(now).as_secs()))
            }
        }
    }

    /// Tells the server that an attempt begins, and makes it.
    async fn begin(&mut self, work: Work) -> Result<(), String> {
        let Work { request, delivery } = &work;
        let url = self.shared.local.target(&delivery.url, &request.frame.uri);
        let key = delivery.destination.add_idempotency_key.then_some(&request.frame.idempotency_key);
        let lines = head::forwardable(&request.lines(), request.body.len(), key);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let attempt = Arc::new(Attempt {
            serial,
            source: self.source,
            at: self.shared.clock.now(),
            request_id: request.frame.restante.as_ref().map(|detail| detail.request_id.clone()),
            delivery_id: delivery.restante.as_ref().map(|detail| detail.delivery_id.clone()),
            destination_id: delivery.restante.as_ref().map(|detail| detail.destination_id.clone()),
            number: delivery.attempt_number,
            attempts_max: delivery.restante.as_ref().map(|detail| detail.attempts_max),
            method: request.frame.method.clone(),
            uri: request.frame.uri.clone(),
            url,
            lines,
            body: if self.shared.events.bodies { request.body.clone() } else { Bytes::new() },
            body_bytes: request.body.len(),
        });
        let ack = AckFrame { delivery_id: delivery.id, attempt_number: delivery.attempt_number };
        self.send(Message::Binary(ToServer::Ack(ack).to_bytes().into())).await?;
        self.shared.events.tell(Event::Began(Arc::clone(&attempt)));
        let making = make(Arc::clone(&self.shared), work.clone(), Arc::clone(&attempt), self.done.clone());
        let task = tokio::spawn(making);
        let (delivery_id, since, task) = (delivery.id, Instant::now(), task.abort_handle());
        self.started.insert(serial, Started { attempt, delivery_id, since, task });
        Ok(())
    }

    /// Tells the server what became of an attempt, unless it was called off.
    async fn report(&mut self, done: Done) -> Result<(), String> {
        let Done { attempt, end, report } = done;
        if self.started.remove(&attempt.serial).is_none() {
            return Ok(());
        }
        let sent = self.send(Message::Binary(ToServer::Result(report).to_bytes().into())).await;
        let end = End { reported: sent.is_ok(), ..end };
        self.shared.events.tell(Event::Ended { attempt, end });
        sent
    }

    async fn send(&mut self, message: Message) -> Result<(), String> {
        let sent = timeout(WRITE_TIME, self.socket.send(message)).await;
        sent.map_err(|_| "the server takes nothing any more")?.map_err(|error| told(&error))
    }
}

fn kind(fault: &Fault) -> FaultKind {
    match fault {
        Fault::Timeout(_) => FaultKind::Timeout,
        Fault::Unwritable | Fault::Dial(_) | Fault::Broken(_) => FaultKind::Network,
    }
}

/// One attempt's whole life.
async fn make(shared: Arc<Shared>, work: Work, attempt: Arc<Attempt>, done: mpsc::UnboundedSender<Done>) {
    let counted = shared.running.begin();
    let Work { request, delivery } = work;
    let time = delivery.restante.as_ref().map(|detail| Duration::from_millis(detail.timeout_ms));
    let since = Instant::now();
    let sent = match Target::parse(&attempt.url) {
        Ok(target) => {
            let outgoing = Outgoing {
                method: attempt.method.clone(),
                target,
                lines: attempt.lines.clone(),
                body: request.body.clone(),
            };
            let answer = shared.forwarder.send(&outgoing, time.unwrap_or(ATTEMPT_TIME)).await;
            answer.map_err(|fault| (kind(&fault), fault.to_string()))
        }
        Err(fault) => Err((FaultKind::InvalidUrl, fault.to_string())),
    };
    let duration = since.elapsed();
    let (outcome, lines, rest) = match sent {
        Ok(answer) => (Outcome::Answer { status: answer.status }, answer.lines, Some(answer.rest)),
        Err((kind, detail)) => (Outcome::Fault { kind, detail }, Vec::new(), None),
    };
    let report = ResultFrame {
        delivery_id: delivery.id,
        destination_id: delivery.destination.id,
        url: attempt.url.clone(),
        attempt_number: delivery.attempt_number,
        status: if outcome.is_success() { ResultStatus::Success } else { ResultStatus::Failed },
        response_code: match &outcome {
            Outcome::Answer { status } => Some(*status),
            Outcome::Fault { .. } | Outcome::Cancelled => None,
        },
        message: match &outcome {
            Outcome::Fault { kind, .. } => Some(word(*kind).to_owned()),
            Outcome::Answer { .. } | Outcome::Cancelled => None,
        },
        delivery_duration: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        detail: match &outcome {
            Outcome::Fault { detail, .. } => Some(detail.clone()),
            Outcome::Answer { .. } | Outcome::Cancelled => None,
        },
    };
    let serial = attempt.serial;
    let end = End { outcome, duration, lines, reported: true };
    // The session outlives its connection in `leave`, which takes what comes.
    let _ = done.send(Done { attempt, end, report });
    drop(counted);
    if let Some(rest) = rest {
        let (body, whole) = rest.read().await;
        if shared.events.bodies {
            shared.events.tell(Event::Answered { serial, body, whole });
        }
    }
}
