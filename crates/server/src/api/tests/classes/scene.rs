//! A workspace in which everything is there once in each state that a call can meet.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use restante_core::outcome::FailureKind;
use restante_store::record::{Domain, Written};

use super::*;
use crate::channel::guard::PrivateTargets;

pub(super) struct Scene {
    pub(super) world: World,
    /// Ids by what the thing is.
    ids: BTreeMap<&'static str, String>,
    /// Tokens of keys by whose they are.
    pub(super) tokens: BTreeMap<&'static str, String>,
    /// Requests that the receiver of the webhook `tested` got.
    received: Arc<AtomicUsize>,
}

impl Scene {
    pub(super) async fn new() -> Self {
        let mut world = World::new().await;
        let (received, url) = receiver();
        open_to_loopback(&mut world);
        let tokens = BTreeMap::from([("admin", world.admin.clone())]);
        let mut scene = Self { world, ids: BTreeMap::new(), tokens, received };
        scene.add_emails_that_wait().await;
        scene.world.attach().await;
        scene.add_keys().await;
        scene.add_requests().await;
        scene.add_webhooks(&url).await;
        scene.add_a_degraded_webhook().await;
        scene.add_events().await;
        scene.add_templates().await;
        scene.add_emails().await;
        scene.add_domains().await;
        scene.add_what_goes_on().await;
        scene.add_another_workspace().await;
        scene
    }

    /// The id of the thing of this name.
    pub(super) fn id(&self, name: &str) -> &str {
        self.ids.get(name).unwrap_or_else(|| panic!("no {name} in the scene"))
    }

    pub(super) fn received(&self) -> usize {
        self.received.load(Ordering::SeqCst)
    }

    fn name(&mut self, name: &'static str, thing: &Value) -> String {
        self.ids.insert(name, text(thing, "id"));
        text(thing, "id")
    }

    /// Makes something and gives it a name.
    async fn add(&mut self, name: &'static str, path: &str, body: Value) -> Value {
        let answer = self.world.post(path, body).await;
        assert!(answer.status.is_success(), "{name}: {answer:?}");
        let made = answer.json();
        self.name(name, &made);
        made
    }

    /// Names the delivery of a request or an event to this endpoint.
    async fn add_delivery(&mut self, name: &'static str, query: String) {
        let found = self.world.get(&format!("/v1/deliveries?{query}")).await.expect(200);
        let found = found["data"].as_array().unwrap();
        assert_eq!(found.len(), 1, "{name}");
        self.name(name, &found[0]);
    }

    async fn add_emails_that_wait(&mut self) {
        let email = json!({"from": "a@x.example", "to": "b@y.example", "subject": "s", "text": "one\n"});
        self.add("queued", "/v1/emails", email.clone()).await;
        for name in ["scheduled", "cancelled_email"] {
            let rich = json!({"cc": "c@y.example", "html": "<b>one</b>", "headers": {"X-Order": "42"},
                "tags": {"kind": "a"}, "metadata": {"n": 1.50}, "reply_to": "r@x.example",
                "attachments": [{"filename": "a.bin", "content": "AAEC"}],
                "scheduled_at": "2026-11-30T12:00:00Z"});
            let mut body = email.clone();
            body.as_object_mut().unwrap().extend(rich.as_object().unwrap().clone());
            self.add(name, "/v1/emails", body).await;
        }
        let cancel = format!("/v1/emails/{}/cancel", self.id("cancelled_email"));
        self.world.post(&cancel, Value::Null).await.expect(200);
    }

    async fn add_keys(&mut self) {
        for (name, scopes, mode) in [
            ("key", json!(["sources:read"]), "live"),
            ("revoked_key", json!(["sources:read"]), "live"),
            ("manager", json!(["keys:manage"]), "live"),
            ("tester", json!(["emails:send", "emails:read"]), "test"),
        ] {
            let body = json!({"name": name, "scopes": scopes, "mode": mode});
            let made = self.add(name, "/v1/keys", body).await;
            self.tokens.insert(name, text(&made, "token"));
        }
        let revoke = format!("/v1/keys/{}/revoke", self.id("revoked_key"));
        self.world.post(&revoke, Value::Null).await.expect(200);
    }

    /// Two sources: the deliveries of one are retried and wait, those of the other have a single attempt.
    async fn add_requests(&mut self) {
        let source = self.add("source", "/v1/sources", json!({"name": "orders"})).await;
        let strict = self.add("strict", "/v1/sources", json!({"name": "strict"})).await;
        self.add("inbox", "/v1/sources", json!({"name": "inbox", "retention_days": 7})).await;
        let below = |source: &Value| format!("/v1/sources/{}/destinations", text(source, "id"));
        let body = json!({"kind": "http", "url": "https://a.example/hook", "headers": {"X-Key": "k"}});
        self.add("destination", &below(&source), body).await;
        let body = json!({"kind": "http", "url": "https://b.example/hook", "attempts": 1});
        self.add("strict_destination", &below(&strict), body).await;
        let failed = || Outcome::failed(FailureKind::Timeout, "too slow");
        for (name, source, outcome) in [
            ("delivered", &strict, Outcome::of_status(204, None)),
            ("failed", &strict, failed()),
            ("failed_too", &strict, failed()),
            ("pending", &source, failed()),
            ("cancelled", &source, failed()),
        ] {
            let request = self.world.receive(source, r#"{"n": 1}"#).await;
            self.world.settle(outcome).await;
            self.add_delivery(name, format!("request={request}")).await;
            self.ids.insert("request", request);
        }
        let cancel = format!("/v1/deliveries/{}/cancel", self.id("cancelled"));
        self.world.post(&cancel, Value::Null).await.expect(200);
        let body = json!({"kind": "http", "url": "https://c.example/hook", "paused": true});
        let paused = self.add("paused_destination", &below(&source), body).await;
        let request = self.world.receive(&source, "held").await;
        self.world.settle(Outcome::of_status(200, None)).await;
        let query = format!("request={request}&destination={}", text(&paused, "id"));
        self.add_delivery("held", query).await;
    }

    async fn add_webhooks(&mut self, receiver: &str) {
        for (name, url, events) in [
            ("webhook", "https://a.example/events", json!(["a.*", "email.scheduled", "email.canceled"])),
            ("paused_webhook", "https://p.example/events", json!(["a.*"])),
            ("degraded_webhook", "https://d.example/events", json!(["d.*"])),
            ("resumed_webhook", "https://r.example/events", json!(["r.*"])),
            ("tested", receiver, json!(["t.*"])),
        ] {
            self.add(name, "/v1/webhooks", json!({"url": url, "events": events, "headers": {"X-Key": "k"}}))
                .await;
        }
        for name in ["paused_webhook", "resumed_webhook"] {
            let pause = format!("/v1/webhooks/{}", self.id(name));
            self.world.patch(&pause, json!({"status": "paused"})).await.expect(200);
        }
        // What it missed is skipped until somebody recovers it.
        self.world.post("/v1/events", json!({"type": "r.missed", "data": 1})).await.expect(202);
        let resume = format!("/v1/webhooks/{}", self.id("resumed_webhook"));
        self.world.patch(&resume, json!({"status": "active"})).await.expect(200);
    }

    async fn add_a_degraded_webhook(&mut self) {
        for _ in 0..6 {
            self.world.post("/v1/events", json!({"type": "d.failed", "data": 1})).await.expect(202);
            self.world.settle(Outcome::of_status(500, None)).await;
            self.world.clock.advance(Duration::from_secs(61));
        }
        let shown =
            self.world.get(&format!("/v1/webhooks/{}", self.id("degraded_webhook"))).await.expect(200);
        assert_eq!(shown["status"], "degraded");
    }

    async fn add_events(&mut self) {
        for (event, delivery, outcome) in [
            ("event", "event_delivered", Some(Outcome::of_status(200, None))),
            ("event_that_failed", "event_pending", Some(Outcome::of_status(503, None))),
            ("event_on_the_wire", "event_sending", None),
        ] {
            let published = self.add(event, "/v1/events", json!({"type": "a.b", "data": {"n": 1}})).await;
            if let Some(outcome) = outcome {
                self.world.settle(outcome).await;
            }
            let query = format!("event={}&webhook={}", text(&published, "id"), self.id("webhook"));
            self.add_delivery(delivery, query).await;
        }
        let query = format!("event={}&webhook={}", self.id("event"), self.id("paused_webhook"));
        self.add_delivery("event_skipped", query).await;
    }

    async fn add_templates(&mut self) {
        let body = json!({"name": "Draft", "subject": "Hi {{ name }}", "text": "Hello {{ name }}"});
        self.add("draft", "/v1/templates", body).await;
        for (name, slug) in [("published", "greeting"), ("rewritten", "farewell")] {
            let body = json!({"name": name, "slug": slug, "subject": "Hi {{ name }}", "publish": true,
                "html": "<p>{{ name }}</p>"});
            self.add(name, "/v1/templates", body).await;
        }
        let content = json!({"subject": "Bye", "text": "Bye {{ name }}"});
        self.world.post("/v1/templates/farewell/content", content).await.expect(200);
        self.ids.insert("greeting", "greeting".into());
    }

    async fn add_emails(&mut self) {
        let email = json!({"from": "a@x.example", "to": "b@y.example", "subject": "s", "text": "one"});
        let parcels = std::mem::take(&mut *self.world.leased.0.lock().unwrap());
        let mut sent = email.clone();
        sent["attachments"] = json!([{"filename": "a.txt", "content": "YQ==", "content_type": "text/plain"}]);
        self.add("sent", "/v1/emails", sent).await;
        self.world.settle(Outcome::Delivered { status: None }).await;
        let tester = self.tokens["tester"].clone();
        self.world.call(&tester, "POST", "/v1/emails", email.clone()).await.expect(202);
        self.world.settle(Outcome::Delivered { status: None }).await;
        self.add("email_on_the_wire", "/v1/emails", email).await;
        self.world.leased.0.lock().unwrap().extend(parcels);
        self.add("suppression", "/v1/suppressions", json!({"email": "Jane@y.example"})).await;
        // The first delivery that is on the wire.
        let request =
            self.world.receive(&json!({"token": self.token_of("strict").await}), "on the wire").await;
        self.add_delivery("sending", format!("request={request}")).await;
    }

    /// The token of a source.
    pub(super) async fn token_of(&self, source: &str) -> String {
        text(&self.world.get(&format!("/v1/sources/{}", self.id(source))).await.expect(200), "token")
    }

    /// Domains with keys that are none: making real ones takes long, and nothing is signed here.
    async fn add_domains(&mut self) {
        let state = &self.world.state;
        let workspace = text(&self.world.get("/v1/workspace").await.expect(200), "id");
        self.ids.insert("workspace", workspace.clone());
        for (name, host) in [("domain", "good.example"), ("unset_domain", "bad.example")] {
            let domain = Domain {
                name: host.to_owned(),
                selector: "rst1".to_owned(),
                private_key: state.vault.seal(crate::vault::Purpose::DomainKey, "key", &*state.clock),
                public_key: "MIIB".to_owned(),
                verified_at: None,
                checked_at: None,
                error: None,
            };
            let (tail, now) = (Tail::from_bits(state.clock.draw()), state.clock.now());
            let made =
                state.store.make(Some(workspace.parse().unwrap()), None, domain, tail, now).await.unwrap();
            let Written::Done(made) = made else { panic!("{host}") };
            self.ids.insert(name, made.id.to_string());
        }
        let dkim = "v=DKIM1; k=rsa; p=MIIB";
        self.world.zone.set("rst1._domainkey.good.example", Ok(&[dkim]));
        self.world.zone.set("good.example", Ok(&["v=spf1 a mx ~all"]));
    }

    /// Jobs that nobody has carried out yet, and a balance, so that charges show.
    async fn add_what_goes_on(&mut self) {
        let path =
            format!("/v1/sources/{}/destinations/{}/retry", self.id("strict"), self.id("strict_destination"));
        self.world.post(&path, json!({"since": START})).await.expect(202);
        let path = format!("/v1/webhooks/{}/replay", self.id("degraded_webhook"));
        self.world.post(&path, Value::Null).await.expect(202);
        let path = format!("/v1/workspaces/{}/credits", self.id("workspace"));
        self.world.post(&path, json!({"delta": 100})).await.expect(200);
    }

    async fn add_another_workspace(&mut self) {
        let other = self.add("other_workspace", "/v1/workspaces", json!({"name": "other"})).await;
        let token = text(&other["key"], "token");
        let call = async |path: &str, body: Value| self.world.call(&token, "POST", path, body).await.json();
        let source = call("/v1/sources", json!({"name": "orders"})).await;
        let path = format!("/v1/sources/{}/destinations", text(&source, "id"));
        call(&path, json!({"kind": "http", "url": "https://o.example"})).await;
        call("/v1/webhooks", json!({"url": "https://o.example", "events": ["*"]})).await;
        self.world.receive(&source, "theirs").await;
        call("/v1/events", json!({"type": "a.b", "data": 1})).await;
        self.tokens.insert("other", token);
    }
}

/// Lets webhooks be tested that are on this machine.
fn open_to_loopback(world: &mut World) {
    let rules = Rules { private_targets: PrivateTargets::All, http_targets: true };
    let channel = ChannelConfig { rules: rules.clone(), extra_ca_file: None };
    let state = &mut world.state;
    let prober = Prober::new(&channel, Arc::clone(&state.vault), Arc::clone(&state.clock)).unwrap();
    (state.prober, state.rules) = (Arc::new(prober), Arc::new(rules));
    world.router = router(state.clone());
}

/// A receiver that answers 200, how many requests it got, and its URL.
fn receiver() -> (Arc<AtomicUsize>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let received = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), Vec::new());
            let mut buffer = [0; 4096];
            // The body of a test ends so.
            while !request.ends_with(b"\"data\":{}}") {
                match stream.read(&mut buffer) {
                    Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
                    Ok(0) | Err(_) => break,
                }
            }
            counted.fetch_add(1, Ordering::SeqCst);
            // Who asked may have gone.
            _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (received, url)
}
