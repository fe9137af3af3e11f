//! A request at the door: how it was judged there, and what became of it.

use std::sync::{Arc, PoisonError, RwLock};

use restante_core::Timestamp;
use restante_core::endpoint::Answer;
use restante_core::id::{RequestId, Tail};
use restante_core::intake::{Rules, Value};
use restante_core::message::Received;
use rustc_hash::FxHashMap;

/// A request at the door.
#[derive(Debug)]
pub struct Incoming {
    pub token: String,
    pub received: Received,
    pub judgement: Judgement,
    pub now: Timestamp,
    /// Random part of the new ids.
    pub tail: Tail,
}

/// By which rules of its source a request was judged, and how. The default is that of a source without rules.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    /// As [`Store::rules`](crate::Store::rules) gave them.
    pub by: Option<Arc<Rules>>,
    pub verdict: Verdict,
}

impl Judgement {
    /// Why the request is rejected.
    pub(crate) fn rejected(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Rejected(because) => Some(because),
            Verdict::Taken | Verdict::Marked(_) => None,
        }
    }
}

/// How a request was judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Verdict {
    /// It is to be delivered.
    #[default]
    Taken,
    /// It is to be delivered unless the source knows this value.
    Marked(Value),
    /// It is not its sender's, and why.
    Rejected(String),
}

/// What became of an incoming request.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// Stored durably, with one delivery for each destination.
    ///
    /// `crowded`: a lane that works well has more to do than the node holds in memory. Whoever sent this should be
    /// answered a little later, or the rest goes by way of the table, which costs everybody.
    Fresh { id: RequestId, answer: Option<Arc<Answer>>, crowded: bool },
    /// Stored durably as a repeat of an earlier request, without deliveries. It is answered like that one, and free.
    Duplicate { id: RequestId, answer: Option<Arc<Answer>> },
    /// Stored durably as it was judged, without deliveries. It is free.
    Rejected { id: RequestId },
    /// The source has other rules than it was judged by. Nothing was stored: judge it anew.
    RulesChanged(Box<Received>),
    /// No living source has this token. Nothing was stored.
    UnknownSource,
    /// The workspace's balance does not cover it. Nothing was stored.
    CreditsExhausted,
}

impl Accepted {
    /// The request, if it was stored.
    pub const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Fresh { id, .. } | Self::Duplicate { id, .. } | Self::Rejected { id } => Some(*id),
            Self::RulesChanged(_) | Self::UnknownSource | Self::CreditsExhausted => None,
        }
    }
}

/// How a request comes to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    Replay(RequestId),
    Duplicate(RequestId),
    Rejected(String),
}

impl Arrival {
    /// Whether destinations get it.
    pub(crate) const fn is_delivered(&self) -> bool {
        match self {
            Self::New | Self::Replay(_) => true,
            Self::Duplicate(_) | Self::Rejected(_) => false,
        }
    }

    pub(crate) const fn replay_of(&self) -> Option<RequestId> {
        match self {
            Self::Replay(id) => Some(*id),
            Self::New | Self::Duplicate(_) | Self::Rejected(_) => None,
        }
    }

    pub(crate) const fn duplicate_of(&self) -> Option<RequestId> {
        match self {
            Self::Duplicate(id) => Some(*id),
            Self::New | Self::Replay(_) | Self::Rejected(_) => None,
        }
    }

    pub(crate) fn rejected(&self) -> Option<&str> {
        match self {
            Self::Rejected(because) => Some(because),
            Self::New | Self::Replay(_) | Self::Duplicate(_) => None,
        }
    }
}

/// The rules of sources that have some, by their tokens, for whoever judges.
///
/// Changed with the configuration in memory, before it is committed: whoever judged by what never was is told when the
/// request is to be stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleBook(Arc<RwLock<FxHashMap<String, Arc<Rules>>>>);

impl RuleBook {
    pub(crate) fn of(&self, token: &str) -> Option<Arc<Rules>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    pub(crate) fn set(&self, token: &str, rules: Option<&Arc<Rules>>) {
        let mut book = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match rules {
            Some(rules) => book.insert(token.to_owned(), Arc::clone(rules)),
            None => book.remove(token),
        };
    }

    /// Leaves only what belongs to one of these tokens.
    pub(crate) fn retain(&self, known: impl Fn(&str) -> bool) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|token, _| known(token));
    }
}
