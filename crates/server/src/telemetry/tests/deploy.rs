//! What `docs/deploy` says of metrics: it asks for what is on the page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::{Family, families, full_page};

fn read(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deploy");
    std::fs::read_to_string(directory.join(name))
        .unwrap_or_else(|error| panic!("docs/deploy/{name}: {error}"))
}

/// All texts under `expr` and `query` in a dashboard.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if ["expr", "query", "definition"].contains(&name.as_str()) => {
                        found.push(text.clone());
                    }
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => expressions(value, found),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The words of a text that may be names of ours.
fn names(text: &str) -> BTreeSet<&str> {
    let is_in_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    text.split(|it| !is_in_name(it)).filter(|it| it.starts_with("restante_")).collect()
}

/// What is wanted of labels to be equal to: `name="value"`.
fn matchers(text: &str) -> Vec<&str> {
    let labels = ["reason", "result", "error_kind", "channel", "direction", "state"];
    let mut found = Vec::new();
    for label in labels {
        for (start, _) in text.match_indices(&format!("{label}=\"")) {
            let value = start + label.len() + 2;
            let end = text[value..].find('"').unwrap_or_else(|| panic!("no end: {}", &text[start..]));
            found.push(&text[start..=value + end]);
        }
    }
    found
}

#[test]
fn alerts_and_the_dashboard_ask_for_what_there_is() {
    let page = full_page();
    let mut there = BTreeSet::new();
    for Family { name, kind, .. } in families(&page) {
        if kind == "histogram" {
            there.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")));
        } else {
            there.insert(name);
        }
    }
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let mut asked = Vec::new();
    expressions(&dashboard, &mut asked);
    let asked = asked.join("\n");
    for (file, text) in [("grafana.json", asked), ("alerts.yml", read("alerts.yml"))] {
        assert!(names(&text).len() > 10, "{file} asks for next to nothing");
        for name in names(&text) {
            assert!(there.contains(name), "{file} asks for {name}, which no page has");
        }
        assert!(!matchers(&text).is_empty());
        for matcher in matchers(&text) {
            assert!(page.contains(matcher), "{file} asks for {matcher}, which no series has");
        }
    }
}

#[test]
fn the_dashboard_is_a_dashboard_of_no_particular_prometheus() {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|it| it >= 39));
    assert_eq!(dashboard["id"], Value::Null);
    let mut identities = BTreeMap::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(
            identities.insert(panel["id"].as_u64().unwrap(), title).is_none(),
            "{title}: its id is taken"
        );
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].is_string(), "{title} does not say what it shows");
        let targets = panel["targets"].as_array().unwrap();
        for source in targets.iter().chain([panel]) {
            assert_eq!(source["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|it| it["name"] == "datasource" && it["type"] == "datasource"));
}

/// The table of `docs/deploy/README.md`.
fn reference() -> String {
    let mut table = String::from("| metric | kind | labels | what |\n|---|---|---|---|\n");
    for Family { name, kind, help, labels } in families(&full_page()) {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        table += &format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(" "));
    }
    table
}

#[test]
fn the_table_of_metrics_is_current() {
    let table = reference();
    let page = read("README.md");
    assert!(
        page.contains(&table),
        "put this table into docs/deploy/README.md, section \"Watching it\":\n{table}"
    );
}
