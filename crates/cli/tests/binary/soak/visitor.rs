//! Somebody who looks at messages: cancels, retries, replays and erases.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::ledger::Sent;
use super::world::World;
use crate::dice::Dice;

/// Among so many of the newest requests one is looked for that is not delivered yet.
const NEW: usize = 12;
/// Among so many, one that is.
const OLD: usize = 2000;
/// Sources whose requests are not erased: one asks which request a repeat repeats.
const ERASABLE: usize = 0;
const IN_TURN: u64 = 6;

pub(super) async fn visit(world: Arc<World>) {
    let mut dice = world.plan.dice(2);
    let mut turn = 0;
    while !world.is_stopped() {
        tokio::time::sleep(world.plan.until_visitor(&mut dice)).await;
        turn = (turn + 1) % IN_TURN;
        match turn {
            0 => replay_delivery(&world, &mut dice).await,
            1 | 3 => cancel(&world, &mut dice).await,
            2 => retry(&world, &mut dice).await,
            4 => erase(&world, &mut dice).await,
            _ => replay(&world, &mut dice).await,
        }
    }
}

/// What a call that is made once is answered; `None`: nothing, or that the server stops.
async fn once(world: &World, method: Method, path: &str) -> Option<(StatusCode, Value)> {
    let answer = world.ask((method, path), &[], Bytes::new()).await?;
    (answer.0 != StatusCode::SERVICE_UNAVAILABLE).then_some(answer)
}

/// A request that is still there, and a delivery of it in one of these states.
async fn find(world: &World, dice: &mut Dice, newest: usize, states: &[&str]) -> Option<(Sent, Value)> {
    let sent = world.ledger.recent_request(dice, newest)?;
    if world.ledger.is_erased(&sent.id) {
        return None;
    }
    let shown = world.get(&format!("/v1/requests/{}", sent.id)).await?;
    let mut deliveries = shown["deliveries"].as_array()?.clone();
    deliveries.retain(|it| states.contains(&it["state"].as_str().unwrap()));
    let index = dice.below(u64::try_from(deliveries.len()).ok().filter(|count| *count > 0)?);
    Some((sent, deliveries.swap_remove(usize::try_from(index).unwrap())))
}

async fn cancel(world: &World, dice: &mut Dice) {
    let Some((sent, delivery)) = find(world, dice, NEW, &["pending", "sending"]).await else { return };
    let id = delivery["id"].as_str().unwrap();
    // From now on it may be.
    world.ledger.cancelled.lock().unwrap().insert(id.to_owned(), None);
    let Some((status, answer)) = once(world, Method::POST, &format!("/v1/deliveries/{id}/cancel")).await
    else {
        return;
    };
    match (status, answer["state"].as_str()) {
        (StatusCode::OK, Some("cancelled")) => {
            let attempts = answer["attempts"].as_array().unwrap().len();
            world.ledger.cancelled.lock().unwrap().insert(id.to_owned(), Some(attempts));
            world.diary.count("cancels");
        }
        (StatusCode::OK, Some("sending")) => world.diary.count("cancels of what was on its way"),
        (StatusCode::CONFLICT, _) => {}
        _ => world.diary.fault(Some(sent.at), format!("cancel {id}: {status} {answer}")),
    }
}

async fn retry(world: &World, dice: &mut Dice) {
    let ended = ["failed", "cancelled", "delivered"];
    let Some((sent, delivery)) = find(world, dice, OLD, &ended).await else { return };
    let id = delivery["id"].as_str().unwrap();
    match once(world, Method::POST, &format!("/v1/deliveries/{id}/retry")).await {
        Some((StatusCode::ACCEPTED, made)) => {
            let made = made["id"].as_str().unwrap().to_owned();
            world.ledger.retried.lock().unwrap().entry(sent.id).or_default().push(made);
            world.diary.count("retries");
        }
        Some(other) => world.diary.fault(Some(sent.at), format!("retry {id}: {other:?}")),
        None => {}
    }
}

async fn replay(world: &World, dice: &mut Dice) {
    let Some(original) = world.ledger.recent_request(dice, OLD) else { return };
    if world.ledger.is_erased(&original.id) {
        return;
    }
    match once(world, Method::POST, &format!("/v1/requests/{}/replay", original.id)).await {
        Some((StatusCode::ACCEPTED, made)) => {
            let (id, at) = (made["id"].as_str().unwrap().to_owned(), world.diary.now());
            world.ledger.requests.lock().unwrap().push(Sent { id, at, is_replay: true, ..original });
            world.diary.count("replays");
        }
        Some(other) => {
            world.diary.fault(Some(original.at), format!("replay {}: {other:?}", original.id));
        }
        None => {}
    }
}

async fn erase(world: &World, dice: &mut Dice) {
    let Some(sent) = world.ledger.recent_request(dice, OLD) else { return };
    if sent.source != ERASABLE || world.ledger.is_erased(&sent.id) {
        return;
    }
    world.ledger.erased.lock().unwrap().insert(sent.id.clone(), false);
    match once(world, Method::DELETE, &format!("/v1/requests/{}", sent.id)).await {
        Some((StatusCode::NO_CONTENT, _)) => {
            world.ledger.erased.lock().unwrap().insert(sent.id, true);
            world.diary.count("erased");
        }
        Some(other) => world.diary.fault(Some(sent.at), format!("erase {}: {other:?}", sent.id)),
        None => {}
    }
}

/// An event again to one of its webhooks.
async fn replay_delivery(world: &World, dice: &mut Dice) {
    let Some(event) = world.ledger.any_event(dice) else { return };
    let Some(shown) = world.get(&format!("/v1/events/{}", event.id)).await else { return };
    let webhook = world.webhook("/hook");
    let mut deliveries = shown["deliveries"].as_array().unwrap().iter();
    let Some(delivery) = deliveries.find(|it| it["webhook_id"] == webhook.id.as_str()) else {
        return world.diary.fault(Some(event.at), format!("not told to /hook: {shown:#}"));
    };
    let call = format!("{}/deliveries/{}/replay", webhook.resource, delivery["id"].as_str().unwrap());
    match once(world, Method::POST, &call).await {
        Some((StatusCode::ACCEPTED, _)) => world.diary.count("replays of a delivery"),
        Some(other) => world.diary.fault(Some(event.at), format!("{call}: {other:?}")),
        None => {}
    }
}
