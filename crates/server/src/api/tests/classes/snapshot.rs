//! All that can be seen of the scene, and how two sights of it differ.

use std::collections::BTreeSet;

use super::scene::Scene;
use super::*;

/// Reads that tell of the node, or without end.
pub(super) const ASIDE: [&str; 5] =
    ["stream.follow", "system.openapi", "system.health", "system.ready", "system.metrics"];

/// What says when a call ran, by the object it is in: the rest of the answers, and of what can be seen, must be the same
/// whenever that was.
const WHEN_IT_RAN: [(&str, &str, &str); 3] = [
    ("api_key", "/last_used_at", "every call moves it, of the key that it is made with"),
    ("domain", "/sending/checked_at", "when the DNS was asked last is what checking again is for"),
    ("domain", "/updated_at", "moves with checked_at, which is a part of the record"),
];

/// Stands for what a key may not read.
const FORBIDDEN: &str = "forbidden";

/// What the reads of each key answer by their paths, and what left or is about to.
pub(super) type Snapshot = BTreeMap<String, Value>;

/// The scene as its keys see it, and the names of the reads that had something to tell.
pub(super) async fn snapshot(scene: &Scene) -> (Snapshot, BTreeSet<&'static str>) {
    let (mut seen, mut telling) = (Snapshot::new(), BTreeSet::new());
    // The administrator comes last: the list of keys says when the others were used.
    for who in ["other", "tester", "admin"] {
        let mut walk = Walk { scene, who, seen: &mut seen };
        for operation in OPERATIONS.iter().filter(|it| is_read(it)) {
            if walk.read(operation).await > 0 {
                telling.insert(operation.name.as_str());
            }
        }
    }
    let leased = scene.world.leased.0.lock().unwrap();
    let leased: BTreeSet<_> = leased.iter().map(|it| format!("{:?}", it.lease)).collect();
    seen.insert("what is on the wire".into(), json!(leased));
    seen.insert("what the receiver got".into(), json!(scene.received()));
    (seen, telling)
}

pub(super) fn is_read(operation: &Operation) -> bool {
    operation.class == "read" && !ASIDE.contains(&operation.name.as_str())
}

struct Walk<'a> {
    scene: &'a Scene,
    who: &'static str,
    seen: &'a mut Snapshot,
}

impl Walk<'_> {
    /// Makes a read for all ids that the lists above it tell; how many of these told something.
    async fn read(&mut self, operation: &Operation) -> usize {
        let mut paths = vec![String::new()];
        for segment in operation.path.split('/').skip(1) {
            let mut longer = Vec::new();
            for path in paths {
                if segment.starts_with('{') {
                    let ids = self.ids(&path).await;
                    longer.extend(ids.iter().map(|id| format!("{path}/{id}")));
                } else {
                    longer.push(format!("{path}/{segment}"));
                }
            }
            paths = longer;
        }
        let limited = operation.takes("limit");
        let mut told = 0;
        for path in &paths {
            let body = self.get(path, limited).await;
            told += usize::from(body["data"] != json!([]) && body != FORBIDDEN);
        }
        told
    }

    /// The ids of a list. A key that may not read it sees none.
    async fn ids(&mut self, path: &str) -> Vec<String> {
        if let Some(email) = path.strip_suffix("/attachments") {
            let content = self.get(&format!("{email}/content"), false).await;
            let attached = content["attachments"].as_array().into_iter().flatten();
            return attached.map(|it| it["index"].to_string()).collect();
        }
        // What is found is found by its id: those of one list do.
        let path = if path == "/v1/find" { "/v1/requests" } else { path };
        let page = self.get(path, true).await;
        let items = page["data"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| text(item, "id")).collect()
    }

    async fn get(&mut self, path: &str, limited: bool) -> Value {
        let query = if limited { "?limit=100" } else { "" };
        let place = format!("{} {path}{query}", self.who);
        if let Some(seen) = self.seen.get(&place) {
            return seen.clone();
        }
        let key = &self.scene.tokens[self.who];
        let answer = self.scene.world.call(key, "GET", &format!("{path}{query}"), Value::Null).await;
        let readable = answer.status == 200 || answer.status == 403 && self.who != "admin";
        assert!(readable, "{place}: {answer:?}");
        let mut body = serde_json::from_slice(&answer.body)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&answer.body)));
        if answer.status == 403 {
            // Its error has an id of its own.
            body = json!(FORBIDDEN);
        }
        let whole = !body.to_string().contains("\"has_more\":true") && body["next_cursor"].is_null();
        assert!(whole, "the scene has become larger than a page: {place}");
        strip(&mut body);
        self.note_mime(path).await;
        self.seen.insert(place, body.clone());
        body
    }

    /// Of an email also the bytes that leave.
    async fn note_mime(&mut self, path: &str) {
        let Some(id) = path.strip_prefix("/v1/emails/").and_then(|id| id.parse().ok()) else { return };
        let world = &self.scene.world;
        let workspace = self.scene.id("workspace").parse().unwrap();
        let mime = world.store.email_mime(workspace, id, world.clock.now()).await.unwrap().unwrap();
        let mime = String::from_utf8_lossy(&mime).into_owned();
        self.seen.insert(format!("the bytes of {path}"), json!(mime));
    }
}

/// Takes out what says when a call ran.
pub(super) fn strip(value: &mut Value) {
    for (object, field, _) in WHEN_IT_RAN {
        if value["object"] == object
            && let Some(field) = value.pointer_mut(field)
        {
            *field = json!("when it ran");
        }
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(strip),
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// How two sights differ, a line for each place.
pub(super) fn differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let places: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut lines = Vec::new();
    for place in places {
        match (before.get(place), after.get(place)) {
            (Some(before), Some(after)) => compare(place, before, after, &mut lines),
            (Some(_), None) => lines.push(format!("{place} is gone")),
            (None, _) => lines.push(format!("{place} is new")),
        }
    }
    lines
}

/// Adds the innermost values that differ.
pub(super) fn compare(place: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                compare(&format!("{place} .{name}"), &before[name], &after[name], lines);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{place} [{index}]"), old, new, lines);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            lines.push(format!("{place}: {} items, then {}", old.len(), new.len()));
        }
        _ if before == after => {}
        _ => lines.push(format!("{place}: {before}, then {after}")),
    }
}
