//! What has to be done now and then: erase what expired, go on with bulk retries, note when keys were used, write down
//! what was counted.

use std::sync::Arc;
use std::time::Duration;

use restante_core::Timestamp;
use restante_store::record::{BulkRetryJob, BulkRetryState};
use restante_store::{Error, Page, Start, Store};

use crate::api::ApiState;
use crate::clock::Clock;

/// How often expired requests are looked for, by the server's clock.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Requests erased in one transaction: whatever comes meanwhile waits as long.
const PRUNE_MAX: usize = 8;
/// What a step takes is left to others so many times over, ...
const PRUNE_PATIENCE: u32 = 48;
/// ... half as many times whenever a round has gone on for so long again: what expires must not outrun it.
const PRUNE_PATIENCE_HALVES_AFTER: Duration = Duration::from_secs(300);
/// A step that took long for a reason of its own does not put off the next for ever.
const PRUNE_PAUSE_MAX: Duration = Duration::from_millis(250);
/// How often bulk retries are looked for.
const BULK_EVERY: Duration = Duration::from_millis(500);
/// Deliveries that a bulk retry creates in one transaction.
const BULK_MAX: usize = 200;
/// How often it is written down when keys were used.
const NOTE_USE_EVERY: Duration = Duration::from_secs(60);
/// How often it is looked whether another node has died.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(2);
/// How often what was counted is written down: a crash loses what was counted since, and no message.
const ROLL_UP_EVERY: Duration = Duration::from_secs(5);
/// Bulk retries looked at in one round.
const BULK_PAGE: usize = 100;

/// Erases what expired, for as long as the server runs.
pub(crate) async fn prune(store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    loop {
        let (now, round_began) = (clock.now(), clock.monotonic());
        loop {
            let began = clock.monotonic();
            match store.prune(now, PRUNE_MAX).await {
                // What is erased is room for what is new.
                Ok(true) if store.room().short.is_some() => tokio::task::yield_now().await,
                Ok(true) => {
                    let ended = clock.monotonic();
                    let (took, lasted) = (ended.saturating_sub(began), ended.saturating_sub(round_began));
                    tokio::time::sleep(prune_pause(took, lasted)).await;
                }
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(error.message = %error, "expired requests cannot be erased yet");
                    break;
                }
            }
        }
        sleep(clock.as_ref(), now + PRUNE_EVERY).await;
    }
}

/// How long others have the store for themselves after a step of a round that has gone on for a while.
fn prune_pause(took: Duration, lasted: Duration) -> Duration {
    let halvings = lasted.as_secs() / PRUNE_PATIENCE_HALVES_AFTER.as_secs();
    let patience = PRUNE_PATIENCE.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0);
    (took * patience.max(1)).min(PRUNE_PAUSE_MAX)
}

/// Goes on with bulk retries, for as long as the server runs.
pub(crate) async fn bulk_retries(store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    loop {
        match advance_all(store.as_ref(), clock.as_ref()).await {
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => tokio::time::sleep(BULK_EVERY).await,
            Err(error) => {
                tracing::warn!(error.message = %error, "bulk retries cannot go on yet");
                tokio::time::sleep(BULK_EVERY).await;
            }
        }
    }
}

/// Settles as lost what nodes that died left behind, for as long as the server runs.
pub(crate) async fn take_over(store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    loop {
        tokio::time::sleep(TAKE_OVER_EVERY).await;
        match store.take_over(clock.now()).await {
            Ok(0) => {}
            Ok(count) => tracing::warn!(count, "attempts of a node that is no more are recorded as lost"),
            Err(error) => {
                tracing::warn!(error.message = %error, "what other nodes left behind cannot be taken over yet");
            }
        }
    }
}

/// Writes down what was counted, for as long as the server runs.
pub(crate) async fn roll_up(store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    loop {
        tokio::time::sleep(ROLL_UP_EVERY).await;
        if let Err(error) = store.roll_up(clock.now()).await {
            tracing::warn!(error.message = %error, "what was counted cannot be written down yet");
        }
    }
}

/// Writes down when keys were last used, for as long as the server runs.
pub(crate) async fn note_use_of_keys(api: ApiState) {
    loop {
        tokio::time::sleep(NOTE_USE_EVERY).await;
        if let Err(error) = api.flush_last_used().await {
            tracing::warn!(error.message = %error, "the use of keys cannot be noted yet");
        }
    }
}

/// Takes all running bulk retries one step further. Returns whether one has more to do.
async fn advance_all(store: &(dyn Store + 'static), clock: &dyn Clock) -> Result<bool, Error> {
    let mut more = false;
    let mut page = Page::newest(BULK_PAGE);
    loop {
        let jobs = store.list::<BulkRetryJob>(None, None, page).await?;
        for job in jobs.items.iter().filter(|job| job.body.state == BulkRetryState::Running) {
            // One step each: a long job must not hold up the others, nor a broken one.
            match store.advance_bulk_retry(job.id, clock.now(), BULK_MAX).await {
                Ok(left) => more |= left,
                Err(error) => {
                    tracing::warn!(error.message = %error, bulk_retry.id = %job.id, "a bulk retry cannot go on yet");
                }
            }
        }
        match jobs.next {
            Some(next) => page.start = Start::After(next),
            None => return Ok(more),
        }
    }
}

/// Sleeps until `at`, whatever the clock does meanwhile.
async fn sleep(clock: &dyn Clock, at: Timestamp) {
    while clock.now() < at {
        clock.sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_there_is_something_to_erase_the_less_others_are_spared() {
        let pause_us = |took_us, lasted_s| {
            prune_pause(Duration::from_micros(took_us), Duration::from_secs(lasted_s)).as_micros()
        };
        let pauses = [0, 299, 300, 600, 1_500, 1_800, 100_000_000].map(|lasted_s| pause_us(100, lasted_s));
        assert_eq!(pauses, [4_800, 4_800, 2_400, 1_200, 100, 100, 100]);
        assert_eq!(pause_us(1_000_000, 0), 250_000);
    }
}
