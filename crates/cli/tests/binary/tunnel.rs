//! A server, `restante listen` and a local service: three processes, of which the first two are killed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::process::{Home, KEY, Process, on_both_stores};
use crate::sink::Sink;

/// For what is under way to come to its end.
const PATIENCE: Duration = Duration::from_secs(60);
const KILLS: u64 = 12;

on_both_stores!(
    what_is_due_waits_for_a_client_and_its_local_service_with_the_attempts_that_were_made,
    nothing_is_lost_when_client_and_server_are_killed_at_random_moments,
    thousands_of_requests_flow_through_one_client,
    two_clients_share_a_source,
);

/// `restante listen`; killed when it is dropped.
pub(crate) struct Listen(Child);

impl Listen {
    /// To the source `laptop`.
    pub(crate) fn start(server: SocketAddr, local: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
        command.args(["listen", local, "--source", "laptop", "--json"]);
        command.env("RESTANTE_URL", format!("http://{server}")).env("RESTANTE_API_KEY", KEY);
        let (stdout, stderr) = (Stdio::null(), Stdio::null());
        Self(command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap())
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A source with a `cli` destination whose retries come soon. Gives the source's path in the API, and where it receives.
async fn source(server: &Process) -> (String, String) {
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "laptop"})).await;
    let path = format!("/v1/sources/{}", source["id"].as_str().unwrap());
    let schedule = json!({"kind": "custom", "waits_seconds": [0.1, 0.2, 0.2, 0.3, 0.5, 0.5, 1, 1, 1]});
    let destination = json!({"kind": "cli", "url": "http://localhost", "schedule": schedule,
        "idempotency_header": true, "timeout_seconds": 2});
    server.call(Method::POST, &format!("{path}/destinations"), destination).await;
    (path, format!("/in/{}", source["token"].as_str().unwrap()))
}

/// Sends a webhook; gives its id if it was acknowledged.
async fn post(server: &Process, intake: &str, body: &str) -> Option<String> {
    let (status, answer) = server.send(Method::POST, intake, Bytes::from(body.to_owned())).await?;
    let answer: Value = serde_json::from_slice(&answer).ok()?;
    answer["id"].as_str().filter(|_| status == StatusCode::OK).map(str::to_owned)
}

/// Waits until a condition holds of what a path shows.
async fn until(server: &Process, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let waiting = async {
        loop {
            if let Some((StatusCode::OK, answer)) = server.send(Method::GET, path, Bytes::new()).await {
                let shown: Value = serde_json::from_slice(&answer).unwrap();
                if condition(&shown) {
                    return shown;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(shown) => shown,
        Err(_) => panic!("not in time: {:#}", server.call(Method::GET, path, Value::Null).await),
    }
}

async fn until_clients(server: &Process, source: &str, count: u64) {
    until(server, source, |shown| shown["clients_connected"] == count).await;
}

/// Waits until the only delivery of a request has ended; gives the request.
async fn until_delivered(server: &Process, request: &str) -> Value {
    until(server, &format!("/v1/requests/{request}"), |shown| shown["state"] == "delivered").await
}

/// The attempts of the only delivery of a request.
fn attempts(request: &Value) -> &Vec<Value> {
    request["deliveries"][0]["attempts"].as_array().unwrap()
}

async fn what_is_due_waits_for_a_client_and_its_local_service_with_the_attempts_that_were_made(home: Home) {
    let server = Process::start(&home).await;
    let (path, intake) = source(&server).await;
    let waiting = post(&server, &intake, "offline").await.unwrap();
    let shown = server.call(Method::GET, &format!("/v1/requests/{waiting}"), Value::Null).await;
    assert_eq!(shown["deliveries"][0]["waiting_for"], "client");
    assert_eq!(attempts(&shown).len(), 0);

    // The client is there, and its local service is not.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listen = Listen::start(server.address, &nobody.port().to_string());
    let request = format!("/v1/requests/{waiting}");
    let shown =
        until(&server, &request, |shown| attempts(shown).iter().any(|it| !it["result"].is_null())).await;
    let first = &attempts(&shown)[0];
    assert_eq!(
        (&first["number"], &first["error_kind"]),
        (&json!(1), &json!("local_unreachable")),
        "{shown:#}"
    );
    assert_eq!((&first["channel"], &first["uses_budget"]), (&json!("cli"), &json!(true)));
    listen.kill();
    until_clients(&server, &path, 0).await;
    let shown = server.call(Method::GET, &request, Value::Null).await;
    let used = attempts(&shown).len();

    let sink = Sink::start().await;
    let _listen = Listen::start(server.address, &format!("http://{}/hook", sink.address));
    let shown = until_delivered(&server, &waiting).await;
    // While it was away none was made.
    assert_eq!(attempts(&shown).len(), used + 1, "{shown:#}");
    let seen = sink.seen("/hook", shown["key"].as_str().unwrap());
    assert_eq!((seen.times, seen.bodies), (1, vec![Bytes::from("offline")]));
}

async fn nothing_is_lost_when_client_and_server_are_killed_at_random_moments(home: Home) {
    let sink = Sink::start().await;
    let mut server = Process::start(&home).await;
    let (_, intake) = source(&server).await;
    let local = format!("http://{}/flaky", sink.address);
    let mut listen = Listen::start(server.address, &local);
    let mut acknowledged = HashMap::new();
    let mut moment = u64::from(std::process::id());
    println!("seed {moment}");
    for kill in 0..KILLS {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let until = tokio::time::Instant::now() + Duration::from_millis(100 + (moment >> 33) % 400);
        while tokio::time::Instant::now() < until {
            let body = format!("{kill}:{}", acknowledged.len());
            if let Some(id) = post(&server, &intake, &body).await {
                acknowledged.insert(id, Bytes::from(body));
            }
        }
        if kill % 2 == 0 {
            listen.kill();
            listen = Listen::start(server.address, &local);
        } else {
            server.kill_and_restart().await;
        }
    }
    println!("{} acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 50, "there was hardly any load");
    for (id, body) in &acknowledged {
        let shown = until_delivered(&server, id).await;
        let made = attempts(&shown);
        let numbers: Vec<u64> = made.iter().map(|attempt| attempt["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=made.len() as u64).collect::<Vec<_>>(), "{shown:#}");
        let seen = sink.seen("/flaky", shown["key"].as_str().unwrap());
        assert!(seen.delivered, "never answered 200: {shown:#}");
        assert_eq!(&seen.bodies, std::slice::from_ref(body));
        assert!(seen.times <= made.len(), "seen {} times: {shown:#}", seen.times);
    }
}

async fn thousands_of_requests_flow_through_one_client(home: Home) {
    const REQUESTS: usize = 5_000;
    const SENDERS: usize = 16;
    let sink = Sink::start().await;
    let server = Process::start(&home).await;
    let (path, intake) = source(&server).await;
    let _listen = Listen::start(server.address, &format!("http://{}/hook", sink.address));
    until_clients(&server, &path, 1).await;
    let senders = (0..SENDERS).map(|sender| {
        let (caller, intake) = (server.caller(), intake.clone());
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for number in (sender..REQUESTS).step_by(SENDERS) {
                let body = Bytes::from(number.to_string());
                let (status, answer) = caller.ask((Method::POST, &intake), &[], body).await.unwrap();
                assert_eq!(status, StatusCode::OK);
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                ids.push((number, answer["id"].as_str().unwrap().to_owned()));
            }
            ids
        })
    });
    let mut sent = Vec::new();
    for sender in senders.collect::<Vec<_>>() {
        sent.extend(sender.await.unwrap());
    }
    assert_eq!(sent.len(), REQUESTS);
    for (number, id) in sent {
        let shown = until_delivered(&server, &id).await;
        assert_eq!(attempts(&shown).len(), 1, "{shown:#}");
        let seen = sink.seen("/hook", shown["key"].as_str().unwrap());
        assert_eq!((seen.times, seen.bodies), (1, vec![Bytes::from(number.to_string())]));
    }
}

async fn two_clients_share_a_source(home: Home) {
    let (one, other) = (Sink::start().await, Sink::start().await);
    let server = Process::start(&home).await;
    let (path, intake) = source(&server).await;
    let _both =
        [&one, &other].map(|sink| Listen::start(server.address, &format!("http://{}/hook", sink.address)));
    until_clients(&server, &path, 2).await;
    let mut ids = Vec::new();
    for number in 0..200 {
        ids.push(post(&server, &intake, &number.to_string()).await.unwrap());
    }
    let mut shares = [0, 0];
    for id in ids {
        let shown = until_delivered(&server, &id).await;
        assert_eq!(attempts(&shown).len(), 1, "{shown:#}");
        let key = shown["key"].as_str().unwrap();
        let times = [&one, &other].map(|sink| sink.seen("/hook", key).times);
        assert_eq!(times.iter().sum::<usize>(), 1, "each goes to exactly one");
        shares[times[1]] += 1;
    }
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
}
