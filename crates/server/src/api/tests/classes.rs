//! What may be sent twice, sent twice; and what must not be, with the harm it does.
//!
//! A client that lost an answer goes by the class of the call (`x-retry-class`). Here each call is made twice in a scene
//! of its own: same bytes, one second later.

mod harmful;
mod retried;
mod scene;
mod shapes;
mod snapshot;

use std::sync::LazyLock;
use std::time::Duration;

use futures_util::StreamExt;

use super::*;
use crate::api::openapi;
use scene::Scene;
use snapshot::{Snapshot, compare, differences, is_read, snapshot, strip};

/// Classes of calls that a client repeats.
const RETRIED: [&str; 6] = ["read", "keyed", "set", "upsert", "no_op_when_done", "evaluate"];

/// An operation of the description.
struct Operation {
    name: String,
    class: String,
    method: String,
    path: String,
    parameters: Value,
}

impl Operation {
    fn takes(&self, parameter: &str) -> bool {
        column(&json!({"data": self.parameters}), "name").contains(&json!(parameter))
    }
}

/// All of them, read once.
static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push(Operation {
                name: text(operation, "operationId"),
                class: text(operation, "x-retry-class"),
                method: method.to_uppercase(),
                path: path.clone(),
                parameters: operation.get("parameters").cloned().unwrap_or_else(|| json!([])),
            });
        }
    }
    operations
});

/// A call in a state that is of interest.
struct Row {
    name: &'static str,
    /// The state, or what becomes of it.
    about: &'static str,
    /// What stands for the ids in the path.
    ids: &'static [&'static str],
    body: Value,
    /// Whose key makes the call.
    by: &'static str,
    meanwhile: Meanwhile,
}

/// What happens before the call is repeated, besides that a second passes.
enum Meanwhile {
    Nothing,
    /// What is on the wire ends so.
    Ends(Outcome),
    /// What is due until then leaves and arrives.
    Leaves(Duration),
}

fn row(name: &'static str, about: &'static str, ids: &'static [&'static str], body: Value) -> Row {
    Row { name, about, ids, body, by: "admin", meanwhile: Meanwhile::Nothing }
}

impl Row {
    fn by(self, by: &'static str) -> Self {
        Self { by, ..self }
    }

    fn when(self, meanwhile: Meanwhile) -> Self {
        Self { meanwhile, ..self }
    }

    /// Where it goes: its path with the ids of the scene.
    fn path(&self, scene: &Scene, operation: &Operation) -> String {
        let mut ids = self.ids.iter();
        let filled = operation.path.split('/').map(|segment| {
            if !segment.starts_with('{') {
                return segment;
            }
            scene.id(ids.next().unwrap_or_else(|| panic!("{}: an id for {segment}", self.name)))
        });
        let path = filled.collect::<Vec<_>>().join("/");
        assert_eq!(ids.next(), None, "{}: an id too many", self.name);
        path
    }

    async fn call(&self, scene: &Scene) -> Answer {
        let operation = of(self);
        let mut request = Request::builder()
            .method(operation.method.as_str())
            .uri(self.path(scene, operation))
            .header("authorization", format!("Bearer {}", scene.tokens[self.by]));
        if operation.class == "keyed" {
            request = request.header("idempotency-key", "oe-0b5c6ed2-6f4a-4f3c-9d5e-0d4c8f9b1a2c");
        }
        let body = if self.body.is_null() { String::new() } else { self.body.to_string() };
        scene.world.send(request.body(Body::from(body)).unwrap()).await
    }
}

impl Meanwhile {
    async fn happen(&self, world: &World) {
        match self {
            Self::Nothing => {}
            Self::Ends(outcome) => world.settle(outcome.clone()).await,
            Self::Leaves(until) => {
                world.clock.advance(*until);
                while world.store.claim(world.clock.now(), 100).await.unwrap().count > 0 {}
                world.settle(Outcome::Delivered { status: None }).await;
            }
        }
        world.clock.advance(Duration::from_secs(1));
    }
}

/// A call that was made twice.
struct Twice {
    first: Answer,
    second: Answer,
    after_one: Snapshot,
    after_two: Snapshot,
}

impl Twice {
    async fn make(row: &Row) -> Self {
        let scene = Scene::new().await;
        let first = row.call(&scene).await;
        assert!(first.status.is_success(), "{}, {}: the first: {first:?}", row.name, row.about);
        row.meanwhile.happen(&scene.world).await;
        let (after_one, _) = snapshot(&scene).await;
        let second = row.call(&scene).await;
        let (after_two, _) = snapshot(&scene).await;
        Self { first, second, after_one, after_two }
    }

    fn differences(&self) -> Vec<String> {
        differences(&self.after_one, &self.after_two)
    }
}

/// What these find, several of them at a time: they mostly wait for their disks.
async fn at_once(checks: impl Iterator<Item = impl Future<Output = Option<String>>>) -> Vec<String> {
    let found: Vec<_> = futures_util::stream::iter(checks).buffered(8).collect().await;
    found.into_iter().flatten().collect()
}

/// An answer's body less what says when the call ran.
fn stripped(answer: &Answer) -> Value {
    let mut body = if answer.body.is_empty() { Value::Null } else { answer.json() };
    strip(&mut body);
    body
}

/// The operation of a row.
fn of(row: &Row) -> &'static Operation {
    let found = OPERATIONS.iter().find(|operation| operation.name == row.name);
    found.unwrap_or_else(|| panic!("there is a row for {}, and no such operation", row.name))
}

/// Each operation that `wanted` says has a row, and each row is of such an operation.
fn check_rows(rows: &[&Row], table: &str, wanted: impl Fn(&Operation) -> bool) {
    for row in rows {
        let operation = of(row);
        assert!(
            wanted(operation),
            "{} is of the class {}: its row is in the wrong table",
            row.name,
            operation.class
        );
    }
    for operation in OPERATIONS.iter().filter(|operation| wanted(operation)) {
        let Operation { name, class, method, path, .. } = operation;
        assert!(
            rows.iter().any(|row| row.name == name),
            "{name} ({method} {path}) says it is of the class {class}: add a row for each state it can meet to {table}"
        );
    }
}

#[test]
#[should_panic(expected = "add a row for each state it can meet to classes/retried.rs")]
fn a_call_without_a_row_is_found() {
    let (wanted, known) = (["keys.revoke", "keys.rotate"], row("keys.rotate", "", &[], Value::Null));
    check_rows(&[&known], "classes/retried.rs", |it| wanted.contains(&it.name.as_str()));
}

#[test]
#[should_panic(expected = "there is a row for keys.borrow, and no such operation")]
fn a_row_without_a_call_is_found() {
    check_rows(&[&row("keys.borrow", "", &[], Value::Null)], "classes/retried.rs", |_| false);
}

#[tokio::test]
async fn reading_changes_nothing_and_everything_is_there_to_be_read() {
    let scene = Scene::new().await;
    scene.world.clock.advance(Duration::from_secs(1));
    let (first, telling) = snapshot(&scene).await;
    let (second, _) = snapshot(&scene).await;
    assert_eq!(differences(&first, &second), Vec::<String>::new());
    let reads = OPERATIONS.iter().filter(|it| is_read(it)).map(|operation| operation.name.as_str());
    let missed: Vec<_> = reads.filter(|name| !telling.contains(name)).collect();
    assert_eq!(missed, Vec::<&str>::new(), "the scene has nothing that these read: add it to scene.rs");
    for aside in snapshot::ASIDE {
        assert!(OPERATIONS.iter().any(|it| it.name == aside), "{aside} is no operation");
    }
}
