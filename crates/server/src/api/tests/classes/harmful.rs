//! The calls that a client does not repeat, with the harm that a second one does.

use super::*;

/// What comes of the second call.
enum Harm {
    /// It succeeds, and what the first made is there once more in this list.
    OneMore(&'static str),
    /// It succeeds, and this number of this read is another: after one call, and after two.
    Counts(&'static str, &'static str, i64, i64),
    /// It succeeds, and gives another value for this field than the first, which is void or the newest no more.
    Another(&'static str),
    /// It succeeds, and the receiver has got two requests.
    Received,
    /// It is told that it failed, although the first succeeded.
    Refused(u16, &'static str),
    /// None that can be seen: the class is stricter than the call needs, for this reason.
    None(&'static str),
}

const BALANCE: (&str, &str) = ("/v1/workspace/credits", "/balance");

fn creates() -> Vec<(Row, Harm)> {
    let destination = json!({"kind": "http", "url": "https://new.example"});
    let webhook = json!({"url": "https://new.example/hook", "events": ["a.b"]});
    let key = json!({"name": "new", "scopes": ["sources:read"]});
    let (named, host) = (json!({"name": "new"}), json!({"name": "new.example"}));
    vec![
        (
            row("destinations.create", "two receive each request", &["source"], destination),
            Harm::OneMore("/v1/sources/{source}/destinations"),
        ),
        (row("webhooks.create", "two receive each event", &[], webhook), Harm::OneMore("/v1/webhooks")),
        (row("keys.create", "the token of one is lost", &[], key), Harm::OneMore("/v1/keys")),
        (
            row("workspaces.create", "the key of one is lost", &[], named.clone()),
            Harm::OneMore("/v1/workspaces"),
        ),
        (row("templates.duplicate", "two copies", &["draft"], Value::Null), Harm::OneMore("/v1/templates")),
        (
            row("sources.create", "its name is taken by itself", &[], named.clone()),
            Harm::Refused(409, "name_taken"),
        ),
        (
            row("templates.create", "its slug is taken by itself", &[], named),
            Harm::Refused(409, "name_taken"),
        ),
        (row("domains.create", "its name is taken by itself", &[], host), Harm::Refused(409, "name_taken")),
    ]
}

fn deletes() -> Vec<(Row, Harm)> {
    [
        ("sources.delete", &["source"] as &'static [_], "source_not_found"),
        ("destinations.delete", &["source", "destination"], "destination_not_found"),
        ("requests.delete", &["request"], "request_not_found"),
        ("webhooks.delete", &["webhook"], "webhook_not_found"),
        ("templates.delete", &["published"], "template_not_found"),
        ("templates.delete", &["greeting"], "template_not_found"),
        ("keys.delete", &["key"], "key_not_found"),
        ("domains.delete", &["domain"], "domain_not_found"),
        ("suppressions.delete", &["suppression"], "suppression_not_found"),
    ]
    .map(|(name, ids, code)| (row(name, "it is gone", ids, Value::Null), Harm::Refused(404, code)))
    .into()
}

fn rotates_and_repeats() -> Vec<(Row, Harm)> {
    let replays = || Harm::OneMore("/v1/webhooks/{webhook}/replays");
    let replay_delivery = row(
        "webhooks.replay_delivery",
        "a second attempt of what arrived",
        &["webhook", "event_delivered"],
        Value::Null,
    );
    vec![
        (
            row("sources.rotate_token", "the first URL is void", &["source"], Value::Null),
            Harm::Another("token"),
        ),
        (row("keys.rotate", "the first token is void", &["key"], Value::Null), Harm::Another("token")),
        (
            row("webhooks.rotate_secret", "the first secret signs for a day yet", &["webhook"], Value::Null),
            Harm::Another("secret"),
        ),
        (row("webhooks.test", "a second delivery", &["tested"], Value::Null), Harm::Received),
        (replay_delivery, replays()),
        (row("webhooks.replay", "two of the day's twenty", &["webhook"], Value::Null), replays()),
        (
            row("webhooks.recover", "two recoveries of the same", &["resumed_webhook"], Value::Null),
            Harm::OneMore("/v1/webhooks/{resumed_webhook}/replays"),
        ),
    ]
}

fn charges_and_changes() -> Vec<(Row, Harm)> {
    let balance = |one, two| Harm::Counts(BALANCE.0, BALANCE.1, one, two);
    let retries = "/v1/sources/{strict}/destinations/{strict_destination}/retries";
    let bulk = &["strict", "strict_destination"];
    let content = json!({"subject": "New", "text": "new"});
    let grant = json!({"delta": 10, "note": "welcome"});
    vec![
        (
            row("deliveries.retry", "two deliveries", &["failed"], Value::Null),
            Harm::OneMore("/v1/deliveries"),
        ),
        (row("deliveries.retry", "for two credits", &["failed"], Value::Null), balance(99, 98)),
        (
            row("destinations.retry", "all of them twice", bulk, json!({"since": START})),
            Harm::OneMore(retries),
        ),
        (row("requests.replay", "two requests", &["request"], Value::Null), Harm::OneMore("/v1/requests")),
        (row("requests.replay", "for two credits", &["request"], Value::Null), balance(99, 98)),
        (row("workspaces.grant_credits", "granted twice", &["workspace"], grant), balance(110, 120)),
        (
            row(
                "templates.update",
                "the slug in its path is another's",
                &["greeting"],
                json!({"slug": "hello"}),
            ),
            Harm::Refused(404, "template_not_found"),
        ),
        (
            row("templates.set_content", "the same draft", &["published"], content),
            Harm::None("the table of classes does not name it, and what it does not name is made once"),
        ),
    ]
}

/// The rows, without what they are there for.
pub(super) fn rows() -> Vec<Row> {
    table().into_iter().map(|(row, _)| row).collect()
}

fn table() -> Vec<(Row, Harm)> {
    [creates(), deletes(), rotates_and_repeats(), charges_and_changes()].into_iter().flatten().collect()
}

#[test]
fn every_call_that_is_made_once_has_a_row() {
    let table = table();
    let rows: Vec<&Row> = table.iter().map(|(row, _)| row).collect();
    check_rows(&rows, "classes/harmful.rs", |it| !RETRIED.contains(&it.class.as_str()));
}

#[tokio::test]
async fn a_call_that_is_made_once_does_harm_when_it_is_made_twice() {
    let check = async |(row, harm): (Row, Harm)| {
        let missing = missing(&row, &harm).await?;
        Some(format!("{}, {}: {missing}", row.name, row.about))
    };
    let faults = at_once(table().into_iter().map(check)).await;
    assert!(faults.is_empty(), "made twice, these do not what their rows say:\n{}", faults.join("\n"));
}

/// What the row promises and did not come.
async fn missing(row: &Row, harm: &Harm) -> Option<String> {
    if let Harm::None(reason) = harm {
        let twice = Twice::make(row).await;
        let found = twice.differences();
        let harmless = twice.second.status.is_success() && found.is_empty();
        return (!harmless)
            .then(|| format!("it does harm, although {reason}: {} {found:?}", twice.second.status));
    }
    let scene = Scene::new().await;
    let first = row.call(&scene).await;
    assert!(first.status.is_success(), "{}, {}: the first: {first:?}", row.name, row.about);
    scene.world.clock.advance(Duration::from_secs(1));
    let one = number(&scene, harm).await;
    let second = row.call(&scene).await;
    let two = number(&scene, harm).await;
    let fine = match harm {
        Harm::Refused(status, code) => second.status == *status && second.json()["error"]["code"] == *code,
        Harm::OneMore(_) => second.status.is_success() && two == one + 1,
        Harm::Received => second.status.is_success() && (one, two) == (1, 2),
        Harm::Counts(_, _, first, second_) => second.status.is_success() && (one, two) == (*first, *second_),
        Harm::Another(field) => second.status.is_success() && first.json()[field] != second.json()[field],
        Harm::None(_) => true,
    };
    (!fine).then(|| format!("{one}, then {two}; the second answer: {} {:?}", second.status, second.body))
}

/// The number that the harm is told by, where it is told by one.
async fn number(scene: &Scene, harm: &Harm) -> i64 {
    match harm {
        Harm::OneMore(list) => {
            let named = list.split(['{', '}']).enumerate();
            let path: String = named.map(|(at, it)| if at % 2 == 0 { it } else { scene.id(it) }).collect();
            let page = scene.world.get(&format!("{path}?include_total=true")).await.expect(200);
            page["total"].as_i64().unwrap()
        }
        Harm::Counts(path, field, ..) => {
            scene.world.get(path).await.expect(200).pointer(field).unwrap().as_i64().unwrap()
        }
        Harm::Received => i64::try_from(scene.received()).unwrap(),
        Harm::Another(_) | Harm::Refused(..) | Harm::None(_) => 0,
    }
}

#[tokio::test]
async fn a_second_rotation_voids_what_the_first_answered() {
    let Scene { world, .. } = &Scene::new().await;
    let source = world.source("s").await;
    let rotate = format!("/v1/sources/{}/rotate-token", text(&source, "id"));
    let first = world.post(&rotate, Value::Null).await.expect(200);
    world.receive(&first, "x").await;
    let second = world.post(&rotate, Value::Null).await.expect(200);
    world.receive(&second, "x").await;
    // Intake answers 404 for the token of no source.
    let store: &dyn Store = &*world.store;
    let found = store.find::<restante_core::endpoint::Source>(&text(&first, "token")).await.unwrap();
    assert_eq!(found, None);

    let key = world.post("/v1/keys", json!({"name": "n", "scopes": ["sources:read"]})).await.expect(201);
    let rotate = format!("/v1/keys/{}/rotate", text(&key, "id"));
    let first = text(&world.post(&rotate, Value::Null).await.expect(200), "token");
    world.call(&first, "GET", "/v1/sources", Value::Null).await.expect(200);
    world.post(&rotate, Value::Null).await.expect(200);
    world.call(&first, "GET", "/v1/sources", Value::Null).await.refused(401, "invalid_api_key");
}

#[tokio::test]
async fn a_delivery_that_is_replayed_twice_is_sent_twice_more() {
    let scene = Scene::new().await;
    let (world, delivery) = (&scene.world, scene.id("event_delivered"));
    let replay = format!("/v1/webhooks/{}/deliveries/{delivery}/replay", scene.id("webhook"));
    world.settle(Outcome::of_status(200, None)).await;
    for number in [2, 3] {
        world.post(&replay, Value::Null).await.expect(202);
        world.store.claim(world.clock.now(), 100).await.unwrap();
        world.settle(Outcome::of_status(200, None)).await;
        let attempts = world.get(&format!("/v1/deliveries/{delivery}/attempts")).await.expect(200);
        assert_eq!(column(&attempts, "number").len(), number);
    }
}
