use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pending::options;
use super::{Answer, Client, Draft};
use crate::calls::Call;
use crate::wire::Page;
use crate::{Error, ErrorKind};

/// Items a page has when all of a list are wanted: as many as a page may have.
const PAGE_ITEMS: &str = "100";

/// A list: its first page when it is awaited (or with `wait`), or all of it, page by page or item by item.
#[must_use = "a list is read when it is awaited, with `wait`, or item by item"]
pub struct Listing<C, T> {
    client: C,
    draft: Draft,
    read: fn(&Answer) -> Result<Page<T>, serde_json::Error>,
}

impl<C: Clone, T: DeserializeOwned> Listing<C, T> {
    pub(crate) fn new(client: &C, call: &'static Call) -> Self {
        Self { client: client.clone(), draft: Draft::of(call), read: Answer::json }
    }

    /// Fills in a parameter of the call's path.
    pub(crate) fn param(mut self, name: &str, value: &str) -> Self {
        self.draft.param(name, value);
        self
    }

    /// Adds to the query.
    pub(crate) fn query(mut self, query: &impl Serialize) -> Self {
        self.draft.query(query);
        self
    }
}

impl<C, T> Listing<C, T> {
    options!();

    /// All pages from here on, each fetched when it is asked for.
    pub fn pages(self) -> Pages<C, T> {
        let mut draft = self.draft;
        if !draft.asks("limit") {
            draft.set_query("limit", PAGE_ITEMS);
        }
        Pages { client: self.client, read: self.read, walk: Walk::Start(draft), fetching: None }
    }

    /// All items from here on. What is inserted meanwhile does not appear, and nothing appears twice.
    pub fn items(self) -> Items<C, T> {
        Items { pages: self.pages(), fetched: VecDeque::new() }
    }
}

/// Where a reader of pages is.
enum Walk {
    Start(Draft),
    /// The page behind this cursor comes next.
    Behind(Draft, String),
    Over,
}

impl Walk {
    /// The call for the next page, and what it is called.
    fn turn(&mut self) -> Option<Draft> {
        match self {
            Self::Start(draft) => Some(draft.clone()),
            Self::Behind(draft, cursor) => {
                draft.set_query("cursor", cursor);
                Some(draft.clone())
            }
            Self::Over => None,
        }
    }

    /// Goes on behind a page.
    ///
    /// # Errors
    /// The list leads back to where it was, or does not say where it goes on: it must not seem to be over.
    fn step(&mut self, more: bool, next: Option<String>) -> Result<(), Error> {
        let (draft, before) = match std::mem::replace(self, Self::Over) {
            Self::Start(draft) => (draft, None),
            Self::Behind(draft, cursor) => (draft, Some(cursor)),
            Self::Over => return Ok(()),
        };
        let fault = match next {
            _ if !more => return Ok(()),
            Some(next) if before.as_ref() != Some(&next) => {
                *self = Self::Behind(draft, next);
                return Ok(());
            }
            Some(_) => "the list leads back to the page it was at",
            None => "the list goes on, and does not say where",
        };
        Err(Error::broken(ErrorKind::Answer, draft.name().to_string(), fault.to_owned(), None))
    }

    /// # Errors
    /// Walking a list goes to older items, `ending_before` to newer ones.
    fn check(&mut self) -> Result<(), Error> {
        match self {
            Self::Start(draft) if draft.asks("ending_before") => {
                let name = draft.name().to_string();
                *self = Self::Over;
                let message = "all of a list is read from newer to older: leave `ending_before` out";
                Err(Error::invalid(name, "invalid_query", "ending_before", message))
            }
            Self::Start(_) | Self::Behind(..) | Self::Over => Ok(()),
        }
    }
}

type Fetching<T> = Pin<Box<dyn Future<Output = Result<Page<T>, Error>> + Send>>;

/// The pages of a list: a [`Stream`], and for threads an [`Iterator`]. Ends after the first error.
pub struct Pages<C, T> {
    client: C,
    read: fn(&Answer) -> Result<Page<T>, serde_json::Error>,
    walk: Walk,
    fetching: Option<Fetching<T>>,
}

impl<C, T> Pages<C, T> {
    /// A page that came: the walk goes on behind it.
    fn took(&mut self, page: Result<Page<T>, Error>) -> Result<Page<T>, Error> {
        match page {
            Ok(page) => {
                self.walk.step(page.has_more, page.next_cursor.clone())?;
                Ok(page)
            }
            Err(error) => {
                self.walk = Walk::Over;
                Err(error)
            }
        }
    }
}

/// The items of a list: a [`Stream`], and for threads an [`Iterator`]. Ends after the first error.
pub struct Items<C, T> {
    pages: Pages<C, T>,
    fetched: VecDeque<T>,
}

fn pending<C, T>(
    client: C,
    draft: Draft,
    read: fn(&Answer) -> Result<Page<T>, serde_json::Error>,
) -> super::Pending<C, Page<T>> {
    super::Pending { client, draft, read }
}

impl<T: Send + 'static> IntoFuture for Listing<Client, T> {
    type Output = Result<Page<T>, Error>;
    type IntoFuture = Fetching<T>;

    fn into_future(self) -> Self::IntoFuture {
        pending(self.client, self.draft, self.read).into_future()
    }
}

impl<T: Send + 'static> Stream for Pages<Client, T> {
    type Item = Result<Page<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.fetching.is_none() {
            if let Err(error) = this.walk.check() {
                return Poll::Ready(Some(Err(error)));
            }
            let Some(draft) = this.walk.turn() else { return Poll::Ready(None) };
            this.fetching = Some(pending(this.client.clone(), draft, this.read).into_future());
        }
        let Some(fetching) = &mut this.fetching else { return Poll::Ready(None) };
        let page = ready!(fetching.as_mut().poll(context));
        this.fetching = None;
        Poll::Ready(Some(this.took(page)))
    }
}

impl<T: Send + Unpin + 'static> Stream for Items<Client, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(item) = this.fetched.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            match ready!(Pin::new(&mut this.pages).poll_next(context)) {
                Some(Ok(page)) => this.fetched = page.data.into(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T: Send + 'static> Pages<Client, T> {
    /// The next page; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Page<T>, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T: Send + Unpin + 'static> Items<Client, T> {
    /// The next item; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

mod blocking {
    use super::*;
    use crate::blocking::Client;

    impl<T> Listing<Client, T> {
        /// Reads the first page. The calling thread waits.
        ///
        /// # Errors
        /// [`Error`].
        pub fn wait(self) -> Result<Page<T>, Error> {
            pending(self.client, self.draft, self.read).wait()
        }
    }

    impl<T> Iterator for Pages<Client, T> {
        type Item = Result<Page<T>, Error>;

        fn next(&mut self) -> Option<Self::Item> {
            if let Err(error) = self.walk.check() {
                return Some(Err(error));
            }
            let draft = self.walk.turn()?;
            let page = pending(self.client.clone(), draft, self.read).wait();
            Some(self.took(page))
        }
    }

    impl<T> Iterator for Items<Client, T> {
        type Item = Result<T, Error>;

        fn next(&mut self) -> Option<Self::Item> {
            loop {
                if let Some(item) = self.fetched.pop_front() {
                    return Some(Ok(item));
                }
                match self.pages.next()? {
                    Ok(page) => self.fetched = page.data.into(),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
    }
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl<C, T> fmt::Debug for $name<C, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}
debug!(Listing Pages Items);
