//! A mixed life of the server for as long as one is told to, an hour for instance: senders, receivers with their
//! troubles, people at the API, kills, stops and backups, all at once.
//!
//! Kills and stops come in the first half, and once more at the very end. In between one process is left alone, for what
//! grows with its age shows only there.

mod diary;
mod fate;
mod judge;
mod ledger;
mod operator;
mod plan;
mod sender;
mod table;
mod visitor;
mod watch;
mod world;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::backup::{backup, restore, shown};
use crate::mail::load::{self, Load};
use crate::mail::receiver::Receiver as MailServer;
use crate::mail::{Client, relaying_home};
use crate::patience::until;
use crate::process::{Home, Process, data_directory, on_both_stores};
use fate::Fate;
use judge::{Against, Judged};
use operator::Operator;
use plan::Plan;
use watch::Watch;
use world::World;

/// For all to come to its end: on PostgreSQL an email whose node was killed waits for 75 s, and so does an attempt whose
/// endpoint has other settings since.
const DRAIN_TIME: Duration = Duration::from_secs(180);
/// People wait between two looks, too; a list is not asked for as often as the server can.
const BETWEEN_LISTS: Duration = Duration::from_millis(20);

on_both_stores!(nothing_is_lost_nothing_is_doubled_and_nothing_grows_in_a_long_mixed_life);

async fn nothing_is_lost_nothing_is_doubled_and_nothing_grows_in_a_long_mixed_life(home: Home) {
    let (plan, aside, mail) = (Plan::told(), data_directory(), MailServer::start());
    let log = aside.path().join("log");
    let home = relaying_home(home, &mail).heard("info", &log);
    let server = Process::start(&home).await;
    let emails = Arc::new(Load::new(Client::from(&server), plan.email_pause()));
    let world = Arc::new(World::open(&server, plan).await);

    let mut fate = Fate::of(Arc::clone(&world), server, home.embedded(), aside.path());
    let watch = tokio::spawn(Watch::keep(Arc::clone(&world)));
    let operator = tokio::spawn(Operator::of(Arc::clone(&world), fate.server.address).work());
    let mut others = vec![
        tokio::spawn(sender::requests(Arc::clone(&world))),
        tokio::spawn(sender::requests(Arc::clone(&world))),
        tokio::spawn(sender::events(Arc::clone(&world))),
        tokio::spawn(visitor::visit(Arc::clone(&world))),
        tokio::spawn(judge::audit(Arc::clone(&world))),
    ];
    others.push(tokio::spawn(Arc::clone(&emails).send()));
    fate.run().await;
    world.stop();
    emails.stop();
    for other in others {
        other.await.unwrap();
    }
    // The client of the tunnel stays: what waits for it must end.
    let operator = operator.await.unwrap();
    drain(&world).await;
    drop(operator);
    world.check_idle(&fate.server).await;
    let mut judged = Judged::of(&world, &fate.server, Against::Receivers).await;
    let mails = load::judge(&emails.client, &emails.acknowledged(), &mail).await;
    let watch = watch.await.unwrap();
    watch.judge(&world);
    if let Some(data) = home.embedded() {
        restored(&world, data, aside.path(), &mut judged).await;
    }
    fate.stop().await;
    world.diary.check_log(&log);
    println!("{}", table::of(&world, home.embedded().is_some(), &judged, &mails, &emails, &watch));
    world.diary.conclude();
}

/// Waits until nothing is on its way, and nothing is about to be.
async fn drain(world: &World) {
    let mut lists: Vec<String> = world.webhooks.iter().map(|it| format!("{}/replays", it.resource)).collect();
    // What was on its way may be pending again, and the other way.
    let deliveries = ["sending", "pending", "sending"];
    lists.extend(deliveries.map(|state| format!("/v1/deliveries?state={state}")));
    let over = ["done", "ended"];
    let left = Mutex::new(Value::Null);
    let empty = async || {
        for list in &lists {
            let mut shown = world.get(list).await?;
            let all = shown["data"].as_array_mut().unwrap();
            all.retain(|it| !over.contains(&it["state"].as_str().unwrap()));
            if !all.is_empty() {
                *left.lock().unwrap() = shown;
                return None;
            }
            tokio::time::sleep(BETWEEN_LISTS).await;
        }
        Some(())
    };
    if tokio::time::timeout(DRAIN_TIME, until("all ended", DRAIN_TIME * 2, empty)).await.is_err() {
        let left = left.lock().unwrap();
        world.diary.fault(None, format!("not over after {DRAIN_TIME:?}: {:#}", left["data"]));
    }
}

/// The last backup, restored, has what the server has.
async fn restored(world: &Arc<World>, data: &Path, aside: &Path, judged: &mut Judged) {
    let (file, into) = (aside.join("last.db"), aside.join("restored"));
    shown(&backup(data, &file, &["--with-secret-key"]));
    shown(&restore(&file, &into));
    let server = Process::start(&*into).await;
    let again = Judged::of(world, &server, Against::Nobody).await;
    if again.deliveries != judged.deliveries {
        let what = format!("restored {:?} of {:?}", again.deliveries, judged.deliveries);
        world.diary.fault(None, what);
    }
    let emails = server.call(Method::GET, "/v1/emails?limit=1&include_total=true", Value::Null).await;
    judged.emails_restored = emails["total"].as_u64();
}
