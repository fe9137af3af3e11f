//! What the world outside knows: what publishers and people were told, and what receivers saw.

use std::collections::BTreeMap;

use restante_core::id::DeliveryId;

use super::database::{AttemptRow, DeliveryRow};
use super::plan::Plan;
use crate::in_force::InForce;
use crate::receiver::Reply;
use crate::timeline::Moment;

#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) publishes: Vec<Publish>,
    pub(super) dials: Vec<Dial>,
    pub(super) cancels: Vec<Cancel>,
    pub(super) settings: Vec<InForce<Setting>>,
    pub(super) stale: Vec<Stale>,
    /// When which host was frozen, cut off or without a node.
    pub(super) troubled: Vec<Trouble>,
    pub(super) died: BTreeMap<u32, Died>,
    pub(super) broken: Vec<String>,
    /// When faults had ended.
    pub(super) healed: Moment,
    /// When people had resumed everything.
    pub(super) resumed: Moment,
    pub(super) met: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
pub(super) struct Publish {
    pub(super) asked: Moment,
    pub(super) told: Told,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    Nothing,
    Refused,
    Accepted { at: Moment, message: i64, deliveries: Vec<DeliveryId> },
}

/// An attempt, as its receiver sees it.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    pub(super) life: u32,
    pub(super) delivery: DeliveryId,
    pub(super) number: u32,
    pub(super) marker: usize,
    pub(super) message: i64,
    pub(super) endpoint: usize,
    pub(super) started: Moment,
    /// When it has answered or given up.
    pub(super) ends: Moment,
    pub(super) reply: Reply,
}

#[derive(Debug)]
pub(super) struct Cancel {
    pub(super) delivery: DeliveryId,
    /// Told that it is cancelled, or will be when its attempt has ended.
    pub(super) told: Option<Moment>,
}

/// Of an endpoint, what decides whether it may be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) paused: bool,
    pub(super) gone: bool,
}

/// Somebody settled or released what was not his any more.
#[derive(Debug)]
pub(super) struct Stale {
    pub(super) at: Moment,
    pub(super) life: u32,
    pub(super) number: u32,
    pub(super) before: DeliveryRow,
    pub(super) after: Option<DeliveryRow>,
}

/// When a host could not be reckoned with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub(super) host: usize,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Died {
    pub(super) at: Moment,
}

/// What the public reads show in the end.
#[derive(Debug, Default)]
pub(super) struct Reads {
    pub(super) deliveries: BTreeMap<DeliveryId, DeliveryRow>,
    pub(super) attempts: BTreeMap<(DeliveryId, u32), AttemptRow>,
}

/// What the checker is shown.
pub(super) struct Witness<'a> {
    pub(super) story: &'a Story,
    pub(super) reads: &'a Reads,
    pub(super) plan: &'a Plan,
    pub(super) end: Moment,
}
