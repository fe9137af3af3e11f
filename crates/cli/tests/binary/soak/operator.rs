//! Somebody who changes settings, pauses, resumes, and opens and closes his laptop.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::json;

use super::world::World;
use crate::dice::Dice;
use crate::tunnel::Listen;

/// A workspace has twenty a day.
const REPLAYS_MAX: u64 = 18;

#[derive(Clone, Copy)]
enum Turn {
    PauseDestination(bool),
    ChangeDestination,
    PauseWebhook,
    ResumeWebhook,
    ChangeWebhook,
    ReplayFailures,
    CloseLaptop,
    OpenLaptop,
}

const TURNS: [Turn; 9] = [
    Turn::PauseDestination(true),
    Turn::ChangeDestination,
    Turn::PauseWebhook,
    Turn::CloseLaptop,
    Turn::PauseDestination(false),
    Turn::ChangeWebhook,
    Turn::ResumeWebhook,
    Turn::OpenLaptop,
    Turn::ReplayFailures,
];

pub(super) struct Operator {
    world: Arc<World>,
    server: SocketAddr,
    laptop: Option<Listen>,
    dice: Dice,
    /// Of the settings.
    version: u64,
}

impl Operator {
    pub(super) fn of(world: Arc<World>, server: SocketAddr) -> Self {
        let dice = world.plan.dice(1);
        Self { world, server, laptop: None, dice, version: 0 }
    }

    /// Until it is stopped; what was paused goes on then, and the laptop is open.
    pub(super) async fn work(mut self) -> Self {
        self.turn(Turn::OpenLaptop).await;
        for turn in TURNS.into_iter().cycle() {
            tokio::time::sleep(self.world.plan.until_operator(&mut self.dice)).await;
            if self.world.is_stopped() {
                break;
            }
            self.turn(turn).await;
        }
        for turn in [Turn::PauseDestination(false), Turn::ResumeWebhook, Turn::OpenLaptop] {
            self.turn(turn).await;
        }
        self
    }

    async fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::PauseDestination(paused) => self.pause_destination(paused).await,
            Turn::ChangeDestination => self.change_destination().await,
            Turn::PauseWebhook => self.set_webhook("paused").await,
            Turn::ResumeWebhook => {
                self.set_webhook("active").await;
                self.start("/hook-paused", "recover", "recoveries").await;
            }
            Turn::ChangeWebhook => self.change_webhook().await,
            Turn::ReplayFailures => self.replay_failures().await,
            Turn::CloseLaptop => self.close_laptop(),
            Turn::OpenLaptop => self.open_laptop(),
        }
    }

    async fn pause_destination(&self, paused: bool) {
        self.world.diary.note(if paused { "destination paused" } else { "destination resumed" });
        self.world.set(&self.world.destination("/paused").resource, &json!({"paused": paused})).await;
        self.world.diary.add("pauses", u64::from(paused));
    }

    /// The query changes, so the receiver's path stays.
    async fn change_destination(&mut self) {
        self.version += 1;
        let version = self.version;
        let change = json!({
            "url": format!("{}?version={version}", self.world.receiver.url("/changing")),
            "headers": {"x-version": version.to_string()},
            "max_in_flight": 1 + version % 64,
            "timeout_seconds": 5 + version % 3,
            "rate_per_second": if version.is_multiple_of(3) { json!(20) } else { json!(null) },
        });
        self.world.set(&self.world.destination("/changing").resource, &change).await;
        self.world.diary.count("changes");
    }

    async fn set_webhook(&self, status: &str) {
        self.world.diary.note(format!("webhook {status}"));
        self.world.set(&self.world.webhook("/hook-paused").resource, &json!({"status": status})).await;
        self.world.diary.add("pauses", u64::from(status == "paused"));
    }

    async fn change_webhook(&mut self) {
        self.version += 1;
        let change = json!({
            "url": format!("{}?version={}", self.world.receiver.url("/all"), self.version),
            "description": format!("Version {}", self.version),
            "max_in_flight": 1 + self.version % 64,
        });
        self.world.set(&self.world.webhook("/all").resource, &change).await;
        self.world.diary.count("changes");
    }

    async fn replay_failures(&self) {
        for path in ["/hook-moody", "/hook-paused"] {
            if self.world.diary.counted("replay calls") < REPLAYS_MAX {
                self.world.diary.count("replay calls");
                self.start(path, "replay", "replays of failures").await;
            }
        }
    }

    /// A call that is made once, whatever becomes of it.
    async fn start(&self, path: &str, what: &str, name: &'static str) {
        let call = format!("{}/{what}", self.world.webhook(path).resource);
        match self.world.ask((Method::POST, &call), &[], Bytes::new()).await {
            Some((StatusCode::ACCEPTED, _)) => {
                self.world.diary.note(format!("{path}: {what}"));
                self.world.diary.count(name);
            }
            None | Some((StatusCode::SERVICE_UNAVAILABLE, _)) => {}
            Some(other) => self.world.diary.fault(None, format!("{call}: {other:?}")),
        }
    }

    fn close_laptop(&mut self) {
        if let Some(laptop) = self.laptop.take() {
            self.world.diary.note("laptop closed");
            laptop.kill();
        }
    }

    fn open_laptop(&mut self) {
        self.world.diary.note("laptop opened");
        self.world.diary.count("laptop opened");
        self.laptop = Some(Listen::start(self.server, &self.world.receiver.url("/laptop")));
    }
}
