//! What the server is done to: kills, stops, backups.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::world::World;
use crate::backup::backup;
use crate::dice::Dice;
use crate::migrate::talk;
use crate::process::Process;

/// For a stop.
const STOP_TIME: Duration = Duration::from_secs(10);
/// How long senders go on after the last kill.
const AFTERMATH: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
enum Turn {
    Kill,
    Stop,
    Backup,
}

const TURNS: [Turn; 4] = [Turn::Kill, Turn::Backup, Turn::Stop, Turn::Kill];

pub(super) struct Fate {
    pub(super) server: Process,
    world: Arc<World>,
    /// Of the embedded database; on PostgreSQL backups are the database's own.
    data: Option<PathBuf>,
    file: PathBuf,
    dice: Dice,
}

impl Fate {
    pub(super) fn of(world: Arc<World>, server: Process, data: Option<&Path>, aside: &Path) -> Self {
        let (file, dice) = (aside.join("backup.db"), world.plan.dice(0));
        Self { server, data: data.map(Path::to_owned), file, dice, world }
    }

    /// Until the life is over.
    pub(super) async fn run(&mut self) {
        let plan = self.world.plan;
        for turn in TURNS.into_iter().cycle() {
            self.sleep().await;
            if self.world.diary.now() > plan.calm_from() || self.world.is_stopped() {
                break;
            }
            match turn {
                Turn::Kill => self.kill().await,
                Turn::Stop => self.stop_and_restart().await,
                Turn::Backup => self.backup().await,
            }
        }
        self.world.diary.note("left alone");
        while self.world.diary.now() < plan.life && !self.world.is_stopped() {
            self.sleep().await;
            self.backup().await;
        }
        self.kill().await;
        tokio::time::sleep(AFTERMATH).await;
    }

    async fn sleep(&mut self) {
        tokio::time::sleep(self.world.plan.until_fate(&mut self.dice)).await;
    }

    async fn kill(&mut self) {
        self.world.diary.note("kill -9");
        self.world.downs.fetch_add(1, Ordering::AcqRel);
        self.server.kill_and_restart().await;
        self.is_up("kills");
    }

    async fn stop_and_restart(&mut self) {
        self.world.diary.note("stop");
        self.world.downs.fetch_add(1, Ordering::AcqRel);
        self.stop().await;
        self.server.restart().await;
        self.is_up("stops");
    }

    fn is_up(&self, after: &'static str) {
        self.world.pid.store(self.server.pid(), Ordering::Release);
        self.world.downs.fetch_add(1, Ordering::AcqRel);
        self.world.diary.note(format!("up again, process {}", self.server.pid()));
        self.world.diary.count(after);
    }

    /// SIGTERM.
    pub(super) async fn stop(&mut self) {
        let diary = &self.world.diary;
        let began = diary.now();
        let status = self.server.terminate().await;
        let took = diary.now() - began;
        diary.at_most("longest stop, ms", u64::try_from(took.as_millis()).unwrap());
        if !status.success() || took > STOP_TIME {
            diary.fault(Some(began), format!("stopped with {status} after {took:?}"));
        }
    }

    async fn backup(&self) {
        let Some(data) = self.data.clone() else { return };
        self.world.diary.note("backup");
        let (file, began) = (self.file.clone(), self.world.diary.now());
        let flags = ["--with-secret-key", "--force"];
        let output = tokio::task::spawn_blocking(move || backup(&data, &file, &flags)).await.unwrap();
        if !output.status.success() {
            self.world.diary.fault(Some(began), format!("no backup: {}", talk(&output)));
        }
        self.world.diary.count("backups");
    }
}
