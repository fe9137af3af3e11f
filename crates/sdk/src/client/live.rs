//! The live stream: what happens in a workspace, as it happens.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;

use super::course::{Content, Course, Reading, broken};
use super::pending::options;
use super::runtime::{self, NoRuntime};
use super::{Client, Draft};
use crate::calls::STREAM_FOLLOW;
use crate::wire::{FollowStream, StreamEvent};
use crate::{Error, ErrorKind};

/// A live stream says that it lives every 15 s. One that is silent for so long is cut off.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Calls about what happens.
#[derive(Clone, Debug)]
pub struct LiveStream<C> {
    client: C,
}

impl<C: Clone> LiveStream<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Follows what happens in the workspace, from now on.
    ///
    /// Wants the scopes `requests:read` and `deliveries:read`; events and emails come to keys that may read them.
    pub fn follow(&self, wanted: &FollowStream) -> Follow<C> {
        Follow::new(&self.client, wanted)
    }
}

/// The live stream, not opened yet: it is when it is awaited, or with `wait`. Opening it is retried like every read;
/// its timeout is for opening it.
#[must_use = "a stream is opened when it is awaited, or with `wait`"]
pub struct Follow<C> {
    client: C,
    draft: Draft,
}

impl<C: Clone> Follow<C> {
    fn new(client: &C, wanted: &FollowStream) -> Self {
        let mut draft = Draft::of(&STREAM_FOLLOW);
        draft.accept("text/event-stream");
        draft.query(wanted);
        Self { client: client.clone(), draft }
    }
}

impl<C> Follow<C> {
    options!();
}

/// What happens from now on: a [`Stream`], and for threads an [`Iterator`].
///
/// Ends when the server stops, and after the first error. Whoever follows on opens it anew, and reads from the lists
/// what happened in between.
pub struct Live<C> {
    source: Source,
    reader: Reader,
    found: VecDeque<Result<StreamEvent, String>>,
    course: Course,
    client: PhantomData<fn() -> C>,
}

/// Where bytes come from.
enum Source {
    Idle(reqwest::Response),
    Reading(Fetching),
    Over,
}

type Chunk = (reqwest::Response, Result<Option<Bytes>, (ErrorKind, String)>);
type Fetching = Pin<Box<dyn Future<Output = Result<Chunk, NoRuntime>> + Send>>;

async fn chunk(mut response: reqwest::Response) -> Chunk {
    let read = match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
        Ok(read) => read.map_err(|error| (ErrorKind::Network, broken(error).0)),
        Err(_) => Err((ErrorKind::Timeout, format!("the stream is silent for {} s", SILENCE_MAX.as_secs()))),
    };
    (response, read)
}

impl<C> Live<C> {
    fn open(content: Content, course: Course) -> Self {
        let source = match content {
            Content::Open(response) => Source::Idle(response),
            Content::Whole(_) => Source::Over,
        };
        Self { source, reader: Reader::default(), found: VecDeque::new(), course, client: PhantomData }
    }

    /// The next of what was found in the bytes that came.
    fn pop(&mut self) -> Option<Result<StreamEvent, Error>> {
        let found = self.found.pop_front()?;
        Some(found.map_err(|message| {
            self.source = Source::Over;
            self.found.clear();
            self.error(ErrorKind::Answer, message)
        }))
    }

    /// Bytes that came, or the end.
    ///
    /// # Errors
    /// The stream broke.
    fn took(&mut self, read: Result<Chunk, NoRuntime>) -> Result<(), Error> {
        let (kind, message) = match read {
            Ok((response, Ok(Some(bytes)))) => {
                self.source = Source::Idle(response);
                self.found.extend(self.reader.read(&bytes));
                return Ok(());
            }
            Ok((_, Ok(None))) => return Ok(()),
            Ok((_, Err(broken))) => broken,
            Err(fault) => (ErrorKind::Network, fault.to_string()),
        };
        Err(self.error(kind, message))
    }

    fn error(&self, kind: ErrorKind, message: String) -> Error {
        self.course.told(Error::broken(kind, STREAM_FOLLOW.name.to_owned(), message, None), None)
    }
}

impl IntoFuture for Follow<Client> {
    type Output = Result<Live<Client>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut course = Course::start(&self.client, self.draft)?;
            let (_, content) = course.opened(Reading::Open).await?;
            Ok(Live::open(content, course))
        })
    }
}

impl Stream for Live<Client> {
    type Item = Result<StreamEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.pop() {
                return Poll::Ready(Some(event));
            }
            match std::mem::replace(&mut self.source, Source::Over) {
                Source::Idle(response) => {
                    self.source = Source::Reading(Box::pin(runtime::within(chunk(response))));
                }
                Source::Reading(mut fetching) => {
                    let Poll::Ready(read) = fetching.as_mut().poll(context) else {
                        self.source = Source::Reading(fetching);
                        return Poll::Pending;
                    };
                    if let Err(error) = self.took(read) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Source::Over => return Poll::Ready(None),
            }
        }
    }
}

impl Live<Client> {
    /// What happens next; `None` when the server stops.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Follow<crate::blocking::Client> {
    /// Opens the stream. The calling thread waits.
    ///
    /// # Errors
    /// [`Error`].
    pub fn wait(self) -> Result<Live<crate::blocking::Client>, Error> {
        let mut course = Course::start(&self.client.0, self.draft)?;
        let (_, content) = course.opened_blocking(Reading::Open)?;
        Ok(Live::open(content, course))
    }
}

impl Iterator for Live<crate::blocking::Client> {
    type Item = Result<StreamEvent, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.pop() {
                return Some(event);
            }
            let read = match std::mem::replace(&mut self.source, Source::Over) {
                Source::Idle(response) => runtime::block_on(chunk(response)),
                Source::Reading(_) | Source::Over => return None,
            };
            if let Err(error) = self.took(read) {
                return Some(Err(error));
            }
        }
    }
}

/// Reads server-sent events out of bytes that come in pieces.
#[derive(Default)]
struct Reader {
    /// The line so far.
    line: Vec<u8>,
    /// The line before ended with a carriage return, to which a line feed may belong.
    after_return: bool,
    name: String,
    data: Option<String>,
}

impl Reader {
    fn read(&mut self, bytes: &[u8]) -> Vec<Result<StreamEvent, String>> {
        let mut found = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    found.extend(self.end_of_line());
                }
                other => {
                    self.after_return = false;
                    self.line.push(*other);
                }
            }
        }
        found
    }

    /// An empty line ends an event; the others add to it.
    fn end_of_line(&mut self) -> Option<Result<StreamEvent, String>> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), self.data.take()?);
            let event = StreamEvent::read(&name, &data);
            return Some(
                event.map_err(|fault| format!("a {name:?} is not of the shape it should have: {fault}")),
            );
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments keep the connection alive; ids and reconnection times are not used.
            _ => {}
        }
        None
    }
}

impl<C> fmt::Debug for Follow<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for Live<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pieces: &[&str]) -> Vec<String> {
        let mut reader = Reader::default();
        let found = pieces.iter().flat_map(|piece| reader.read(piece.as_bytes()));
        found.map(|event| event.map_or_else(|fault| fault, |event| event.name().to_owned())).collect()
    }

    #[test]
    fn events_come_out_however_their_bytes_are_cut() {
        let text = ": ping\n\nevent: lagged\ndata: {\"missed\":3}\n\nevent: a\r\ndata: [1,\r\ndata: 2]\r\n\r\nevent:b\rdata:1\r\r";
        assert_eq!(names(&[text]), ["lagged", "a", "b"]);
        for cut in 1..text.len() {
            assert_eq!(names(&[&text[..cut], &text[cut..]]), ["lagged", "a", "b"], "{cut}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let told = names(&["event: lagged\ndata: {}\n\n"]);
        assert_eq!(
            told,
            ["a \"lagged\" is not of the shape it should have: missing field `missed` at line 1 column 2"]
        );
        assert_eq!(names(&["event: x\n\n", "\n\n", "data: 1"]), [""; 0]);
    }
}
