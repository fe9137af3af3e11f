//! `restante tour`: a throw-away server, three receivers, real webhooks, and what becomes of them.

mod client;
mod receiver;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use restante_server::Server;
use restante_server::clock::{Clock, SystemClock};
use restante_server::config::Config;
use restante_server::threads::Threads;
use restante_store::Policy;
use restante_store::sqlite::Sqlite;
use serde_json::{Value, json};

use crate::output;
use client::Client;
use receiver::Receiver;

/// Waits of the tour's destinations, in seconds; the ordinary schedule begins with four minutes.
const WAITS_SECONDS: [f64; 2] = [1.0, 2.0];
/// How often the tour asks for news.
const ASK_EVERY: Duration = Duration::from_millis(60);
/// No step of the tour takes as long.
const STEP_TIME: Duration = Duration::from_secs(15);

pub(crate) fn run() -> anyhow::Result<()> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let store = Arc::new(Sqlite::open(directory.path(), Policy::default())?);
    let threads = Threads::start(1)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let toured = runtime.block_on(async {
        let mut config = Config { data: directory.path().to_owned(), threads: 1, ..Config::default() };
        config.listen.set_port(0);
        config.loosen_for_development();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let server =
            Server::start(&config, Arc::clone(&store) as _, Arc::clone(&clock), threads.handles()).await?;
        let key = server.fresh_key.clone().context("a new data directory gives a new key")?;
        let client = Client::new(server.address, key);
        let tour =
            Tour { client, clock: Arc::clone(&clock), began: clock.monotonic(), colours: output::colours() };
        let result = tour.walk().await;
        server.stop().await;
        result
    });
    drop(threads);
    store.close();
    toured
}

struct Tour {
    client: Client,
    clock: Arc<dyn Clock>,
    began: Duration,
    colours: bool,
}

impl Tour {
    async fn walk(&self) -> anyhow::Result<()> {
        let good = Receiver::start(0).await?;
        let flaky = Receiver::start(2).await?;
        let broken = Receiver::start(u32::MAX).await?;

        self.title("A source is a permanent URL. It gets three destinations")?;
        let source = self.client.post("/v1/sources", &json!({"name": "tour"})).await?;
        let source_id = text(&source, "id")?;
        let intake = text(&source, "url")?;
        self.say(&format!("source       {intake}"))?;
        let path = format!("/v1/sources/{source_id}/destinations");
        let mut names = Vec::new();
        for (name, about, receiver) in [
            ("good", "answers 200", &good),
            ("flaky", "answers 503 twice, then 200", &flaky),
            ("broken", "answers 503, for now", &broken),
        ] {
            let destination = self
                .client
                .post(
                    &path,
                    &json!({"kind": "http", "url": receiver.url(), "idempotency_header": true,
                            "schedule": {"kind": "custom", "waits_seconds": WAITS_SECONDS}}),
                )
                .await?;
            self.say(&format!("destination  {name:<7} {about}"))?;
            names.push((text(&destination, "id")?, name));
        }
        self.say("The waits between attempts are 1 s and 2 s here; a destination's own schedule begins with 4 min.")?;

        self.title("A webhook comes in. It is on disk, with one delivery for each destination, before the sender gets its 200")?;
        let request = self.client.send_webhook(&intake, r#"{"event":"order.paid","order":1042}"#).await?;
        self.say(&format!("POST …  →  200 {request}"))?;
        let request_id = text(&request, "id")?;
        let mut told = HashSet::new();
        let seen = self.watch(&request_id, &names, &mut told).await?;

        self.title(
            "The broken one used its three attempts up. It is mended now, and the delivery retried by hand",
        )?;
        broken.mend();
        let failed =
            seen.iter().find(|delivery| delivery["state"] == "failed").context("one delivery failed")?;
        let retry = format!("/v1/deliveries/{}/retry", text(failed, "id")?);
        self.client.post(&retry, &Value::Null).await?;
        self.watch(&request_id, &names, &mut told).await?;

        self.title(
            "Replay: the same bytes once more, as a new request with a new key, to the destinations of today",
        )?;
        let replayed = self.client.post(&format!("/v1/requests/{request_id}/replay"), &Value::Null).await?;
        self.watch(&text(&replayed, "id")?, &names, &mut told).await?;

        self.title("What the receivers saw")?;
        for (receiver, (_, name)) in [good, flaky, broken].iter().zip(&names) {
            self.say(&receiver.summary(name))?;
        }
        self.title("That was all. `restante serve --dev` starts a server that stays")
    }

    /// Prints a request's attempts as they end, until all its deliveries ended. Gives the deliveries.
    async fn watch(
        &self,
        request: &str,
        names: &[(String, &str)],
        told: &mut HashSet<String>,
    ) -> anyhow::Result<Vec<Value>> {
        let until = self.clock.monotonic() + STEP_TIME;
        loop {
            let shown = self.client.get(&format!("/v1/requests/{request}")).await?;
            let deliveries = shown["deliveries"].as_array().cloned().unwrap_or_default();
            for delivery in &deliveries {
                self.tell_news(delivery, names, told)?;
            }
            if shown["state"] != "pending" {
                return Ok(deliveries);
            }
            if self.clock.monotonic() > until {
                bail!("a delivery did not end in time: {shown}");
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    fn tell_news(
        &self,
        delivery: &Value,
        names: &[(String, &str)],
        told: &mut HashSet<String>,
    ) -> anyhow::Result<()> {
        let destination = delivery["destination_id"].as_str().unwrap_or_default();
        let name = names.iter().find(|(id, _)| id == destination).map_or("?", |(_, name)| name);
        for attempt in delivery["attempts"].as_array().into_iter().flatten() {
            let id = text(attempt, "id")?;
            if attempt["result"].is_null() || !told.insert(id) {
                continue;
            }
            let delivered = attempt["result"] == "delivered";
            let mark = if delivered { self.green("✓") } else { self.red("✗") };
            let number = &attempt["number"];
            let manual = if attempt["trigger"] == "manual" { " by hand" } else { "" };
            let why = match (attempt["response_status_code"].as_u64(), attempt["error_message"].as_str()) {
                (Some(status), _) => status.to_string(),
                (None, message) => message.unwrap_or("no answer").to_owned(),
            };
            self.say(&format!("{mark} {name:<7} attempt {number}{manual}: {why}"))?;
            let newest = delivery["attempts"].as_array().and_then(|all| all.last()) == Some(attempt);
            match delivery["wait_because"].as_str() {
                Some(because) if newest && !delivered => self.say(&format!("          next: {because}"))?,
                _ if newest && delivery["state"] == "failed" => {
                    self.say("          failed: no attempt is left")?
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn title(&self, text: &str) -> anyhow::Result<()> {
        output::line(&format!("\n{}", self.paint("1", text)))
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        let at = self.clock.monotonic().saturating_sub(self.began).as_secs_f64();
        output::line(&format!("  {at:5.2} s  {text}"))
    }

    fn green(&self, text: &str) -> String {
        self.paint("32", text)
    }

    fn red(&self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn text(value: &Value, field: &str) -> anyhow::Result<String> {
    value[field].as_str().map(str::to_owned).with_context(|| format!("the answer has no `{field}`: {value}"))
}
