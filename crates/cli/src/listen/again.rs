//! A delivery made again by hand, also one that is not over yet: then it is asked for twice.

use std::sync::{Arc, Mutex, PoisonError};

use restante_core::Timestamp;
use restante_sdk::wire::{Delivery, DeliveryState};
use restante_sdk::{Client, Error};
use restante_server::clock::Clock;

use super::zone::Zone;

/// How long after the first time the second one counts. As long as the note of it is shown.
const SECOND_MS: i64 = 8_000;

/// Makes deliveries again.
#[derive(Clone)]
pub(crate) struct Again {
    client: Client,
    clock: Arc<dyn Clock>,
    zone: Zone,
    /// The delivery that was last refused because it is not over, and when.
    refused: Arc<Mutex<Option<(String, Timestamp)>>>,
}

impl Again {
    pub(crate) fn new(client: Client, clock: Arc<dyn Clock>, zone: Zone) -> Self {
        Self { client, clock, zone, refused: Arc::default() }
    }

    /// Makes a delivery again; what came of it, for people.
    ///
    /// One that waits for its next attempt is left alone the first time, and cancelled the second.
    pub(crate) async fn retry(&self, id: &str) -> String {
        if self.is_second(id) {
            return self.cancel_and_retry(id).await;
        }
        let refusal = match self.client.deliveries().retry(id).await {
            Ok(delivery) => return retried(&delivery),
            Err(refusal) if refusal.code() == Some("not_retryable") => refusal,
            Err(error) => return not_retried(&error),
        };
        match self.client.deliveries().get(id).await {
            Ok(delivery) if delivery.state == DeliveryState::Pending => {
                self.refuse(id);
                self.pending(&delivery)
            }
            // The refusal says how it stands.
            Ok(_) | Err(_) => not_retried(&refusal),
        }
    }

    async fn cancel_and_retry(&self, id: &str) -> String {
        // It may be over by now, and then it need not be cancelled: the retry tells.
        let cancelled = self.client.deliveries().cancel(id).await.is_ok();
        match self.client.deliveries().retry(id).await {
            Ok(delivery) if cancelled => format!("cancelled {id}; {}", retried(&delivery)),
            Ok(delivery) => retried(&delivery),
            Err(error) if cancelled => format!("cancelled {id}; {}", not_retried(&error)),
            Err(error) => not_retried(&error),
        }
    }

    fn pending(&self, delivery: &Delivery) -> String {
        let next = match delivery.next_attempt_at.map(|at| Timestamp::from_millis(at.millis())) {
            Some(at) if at > self.clock.now() => format!("its next attempt is at {}", self.zone.clock(at)),
            Some(_) | None => "its next attempt is due".to_owned(),
        };
        format!("{next}; r again cancels it and begins anew")
    }

    fn refuse(&self, id: &str) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((id.to_owned(), self.clock.now()));
    }

    /// Whether this was just refused because it is not over. Counts once.
    fn is_second(&self, id: &str) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        refused.is_some_and(|(refused, at)| {
            refused == id && self.clock.now().millis().saturating_sub(at.millis()) < SECOND_MS
        })
    }
}

fn retried(delivery: &Delivery) -> String {
    format!("retried: {}", delivery.id)
}

fn not_retried(error: &Error) -> String {
    format!("not retried: {}", error.message())
}

#[cfg(test)]
mod tests {
    use restante_server::clock::SystemClock;

    use super::*;
    use crate::listen::testbed::Server;

    fn again(server: &Server) -> Again {
        let client = Client::new(&server.url, "rst_live_0123456789abcdefghijklmnopqrstuv").unwrap();
        Again::new(client, Arc::new(SystemClock::start()), Zone::Utc)
    }

    #[tokio::test]
    async fn what_is_pending_is_cancelled_only_when_it_is_asked_for_twice() {
        let server = Server::start().await.with_delivery("dlv_1", "pending");
        let again = again(&server);
        let first = again.retry("dlv_1").await;
        assert_eq!(first, "its next attempt is at 23:19:41Z; r again cancels it and begins anew");
        assert!(!server.calls().contains(&"POST /v1/deliveries/dlv_1/cancel".to_owned()));
        assert_eq!(again.retry("dlv_1").await, "cancelled dlv_1; retried: dlv_1_again");
        let posts: Vec<String> = server.calls().into_iter().filter(|call| call.starts_with("POST")).collect();
        let path = "POST /v1/deliveries/dlv_1";
        assert_eq!(posts, ["retry", "cancel", "retry"].map(|verb| format!("{path}/{verb}")));
    }

    #[tokio::test]
    async fn the_second_time_counts_for_the_same_delivery_and_only_once() {
        let server =
            Server::start().await.with_delivery("dlv_1", "pending").with_delivery("dlv_2", "pending");
        let again = again(&server);
        for id in ["dlv_1", "dlv_2", "dlv_1"] {
            assert!(again.retry(id).await.ends_with("; r again cancels it and begins anew"), "{id}");
        }
        assert!(!server.calls().iter().any(|call| call.ends_with("/cancel")));
    }

    #[tokio::test]
    async fn what_is_over_is_made_again_at_once() {
        let server = Server::start().await.with_delivery("dlv_1", "failed");
        assert_eq!(again(&server).retry("dlv_1").await, "retried: dlv_1_again");
        assert_eq!(again(&server).retry("dlv_9").await, "not retried: it is not over yet");
    }
}
