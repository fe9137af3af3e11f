//! The client against a server that does what it is told, in time that only passes in waits.

mod budget;
mod course;
mod keys;
mod lists;
mod matrix;
mod runtimes;
mod script;
mod spans;
mod streams;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::time::{Sleep, Time};
use super::{Client, ClientBuilder};
use crate::Timestamp;
use script::{Does, Scripted};

/// 2026-11-29T23:19:41.000Z.
const NOW_MS: i64 = 1_795_994_381_000;
const KEY: &str = "rst_live_canary";

/// Time that passes only in waits, and notes them.
#[derive(Clone, Debug, Default)]
struct Virtual(Arc<Mutex<Waits>>);

#[derive(Debug, Default)]
struct Waits {
    waits: Vec<Duration>,
    draws: u64,
    /// Waits never end.
    endless: bool,
    /// The machine has no random bytes.
    dry: bool,
}

impl Virtual {
    /// The waits since this was last asked.
    fn waits(&self) -> Vec<Duration> {
        std::mem::take(&mut self.0.lock().unwrap().waits)
    }

    fn pass(&self, time: Duration) {
        self.0.lock().unwrap().waits.push(time);
    }
}

impl Time for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(NOW_MS)
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().unwrap().waits.iter().sum()
    }

    /// Other bytes each time, from low to high.
    fn draw(&self) -> Option<[u8; 16]> {
        let mut waits = self.0.lock().unwrap();
        waits.draws += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&waits.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        bytes[8..].copy_from_slice(&waits.draws.wrapping_mul(0xd1b5_4a32_d192_ed03).to_le_bytes());
        (!waits.dry).then_some(bytes)
    }

    fn sleep(&self, time: Duration) -> Sleep {
        self.pass(time);
        if self.0.lock().unwrap().endless { Box::pin(std::future::pending()) } else { Box::pin(async {}) }
    }

    fn sleep_blocking(&self, time: Duration) {
        self.pass(time);
    }
}

fn client_of(server: &Scripted, time: &Virtual) -> Client {
    ClientBuilder::new(&server.url, KEY).time(time.clone()).build().unwrap()
}

/// A server that does these things, one per request, a client of it, and the time it goes by.
fn setting(does: impl IntoIterator<Item = Does>) -> (Scripted, Client, Virtual) {
    let server = Scripted::new(does);
    let time = Virtual::default();
    let client = client_of(&server, &time);
    (server, client, time)
}
