//! What callers may set of a source, and what is valid.

use restante_core::endpoint::{Answer, Source, settable_value};
use restante_core::limits;
use serde::Deserialize;
use serde::de::IgnoredAny;
use utoipa::ToSchema;

use crate::api::body::Change;
use crate::api::error::ApiError;
use crate::api::fault::Faults;
use crate::api::name::apply_name;

/// Longest content type of a source's own answer, in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// Settings of a source. `name` is required in a new one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceInput {
    /// Unique in the workspace, at most 128 characters.
    #[schema(value_type = String)]
    #[serde(default)]
    name: Change<String>,
    /// What it answers; null: 200 and the request's id.
    #[schema(value_type = Option<AnswerInput>)]
    #[serde(default)]
    response: Change<AnswerInput>,
    /// Whether a client that connects is given what was pending before; true unless set.
    #[schema(value_type = Option<bool>)]
    #[serde(default)]
    deliver_pending_on_connect: Change<bool>,
    /// Days from reception until a request is gone, 1 to 365; 30 unless set.
    #[schema(value_type = Option<u32>)]
    #[serde(default)]
    pub(crate) retention_days: Change<u32>,
    /// Not supported yet.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    dedupe: Change<IgnoredAny>,
    /// Not supported yet.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    verification: Change<IgnoredAny>,
}

/// A source's own answer.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Answer)]
pub(crate) struct AnswerInput {
    /// 200 to 599.
    status: u16,
    /// At most 256 bytes.
    content_type: String,
    /// At most 64 KiB.
    body: String,
}

impl SourceInput {
    /// A new source.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn create(self, token: String, retention_days_max: u32) -> Result<Source, ApiError> {
        if !matches!(self.name, Change::Set(_)) {
            return Err(ApiError::invalid("missing_field", "name is required").on("name"));
        }
        let mut source = Source {
            name: String::new(),
            token,
            response: None,
            deliver_pending_on_connect: true,
            retention_days: limits::RETENTION_DAYS_DEFAULT.min(retention_days_max),
        };
        self.apply(&mut source, retention_days_max)?;
        Ok(source)
    }

    /// Changes a source.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn apply(self, source: &mut Source, retention_days_max: u32) -> Result<(), ApiError> {
        let later = [("dedupe", &self.dedupe), ("verification", &self.verification)];
        if let Some((param, _)) = later.into_iter().find(|(_, change)| matches!(change, Change::Set(_))) {
            return Err(
                ApiError::invalid("not_supported_yet", format!("{param} cannot be set yet")).on(param)
            );
        }
        let mut faults = Faults::default();
        if let Change::Set(answer) = &self.response {
            answer.check(&mut faults);
        }
        if let Change::Set(days) = self.retention_days {
            check_retention(days, retention_days_max, &mut faults);
        }
        apply_name(self.name, &mut source.name, &mut faults);
        source.response = match self.response {
            Change::Keep => source.response.take(),
            Change::Reset => None,
            Change::Set(AnswerInput { status, content_type, body }) => {
                Some(Answer { status, content_type, body })
            }
        };
        self.deliver_pending_on_connect.apply(&mut source.deliver_pending_on_connect, true);
        let retention_default = limits::RETENTION_DAYS_DEFAULT.min(retention_days_max);
        self.retention_days.apply(&mut source.retention_days, retention_default);
        faults.finish()
    }
}

impl AnswerInput {
    fn check(&self, faults: &mut Faults) {
        faults.unless((200..=599).contains(&self.status), "response.status", "must be 200 to 599");
        let content_type = &self.content_type;
        let fine = (1..=CONTENT_TYPE_BYTES_MAX).contains(&content_type.len()) && settable_value(content_type);
        faults.unless(fine, "response.content_type", "must be a header value of 1 to 256 visible characters");
        let fine = self.body.len() <= limits::RESPONSE_ANSWER_BYTES_MAX;
        faults.unless(fine, "response.body", "must be at most 64 KiB");
        let bodiless = matches!(self.status, 204 | 205 | 304);
        faults.unless(!bodiless || self.body.is_empty(), "response.body", "this status has no body");
    }
}

fn check_retention(days: u32, max: u32, faults: &mut Faults) {
    if !limits::RETENTION_DAYS.contains(&days) {
        faults.add("retention_days", "must be 1 to 365");
    } else if days > max {
        let message = format!("must be at most {max}, the workspace's retention_days_max");
        faults.add("retention_days", message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::body::parse;

    fn create(body: &Value) -> Result<Source, Value> {
        let input: Result<SourceInput, _> = parse(body.to_string().as_bytes());
        let source = input.and_then(|input| input.create("t".into(), 60));
        source.map_err(|error| serde_json::to_value(error.body("r")).unwrap()["error"].clone())
    }

    fn answer(status: u16, content_type: &str, body: &str) -> Value {
        json!({"name": "n", "response": {"status": status, "content_type": content_type, "body": body}})
    }

    #[test]
    fn what_is_not_valid_is_refused_by_name() {
        let long = "x".repeat(129);
        let table = [
            (json!({}), "name"),
            (json!({"name": null}), "name"),
            (json!({"name": ""}), "name"),
            (json!({"name": " a"}), "name"),
            (json!({"name": "a\nb"}), "name"),
            (json!({"name": long}), "name"),
            (json!({"name": 3}), "name"),
            (json!({"name": "n", "retention_days": 0}), "retention_days"),
            (json!({"name": "n", "retention_days": 61}), "retention_days"),
            (json!({"name": "n", "retention_days": 366}), "retention_days"),
            (json!({"name": "n", "retention_days": 1.5}), "retention_days"),
            (json!({"name": "n", "deliver_pending_on_connect": "yes"}), "deliver_pending_on_connect"),
            (json!({"name": "n", "dedupe": {"header": "X"}}), "dedupe"),
            (json!({"name": "n", "verification": {"kind": "github"}}), "verification"),
            (json!({"name": "n", "token": "mine"}), "token"),
            (json!({"name": "n", "response": {"status": 200}}), "response.content_type"),
            (answer(199, "text/plain", ""), "response.status"),
            (answer(600, "text/plain", ""), "response.status"),
            (answer(200, "", ""), "response.content_type"),
            (answer(200, "a\r\nb", ""), "response.content_type"),
            (answer(200, &"x".repeat(257), ""), "response.content_type"),
            (answer(200, "text/plain", &"x".repeat(64 * 1024 + 1)), "response.body"),
            (answer(204, "text/plain", "x"), "response.body"),
        ];
        for (body, param) in table {
            assert_eq!(create(&body).unwrap_err()["param"], param, "{body}");
        }
    }

    #[test]
    fn what_is_valid_is_taken_and_the_rest_has_defaults() {
        let source = create(&json!({"name": "n"})).unwrap();
        assert_eq!(
            (source.retention_days, source.deliver_pending_on_connect, source.response),
            (30, true, None)
        );
        let source = create(&answer(599, &"x".repeat(256), &"x".repeat(64 * 1024))).unwrap();
        assert_eq!(source.response.unwrap().status, 599);
        assert_eq!(create(&json!({"name": "n", "retention_days": 60})).unwrap().retention_days, 60);
        assert_eq!(create(&json!({"name": "ß".repeat(128)})).unwrap().name, "ß".repeat(128));
        create(&json!({"name": "n", "dedupe": null, "verification": null})).unwrap();
    }

    #[test]
    fn all_faults_of_a_body_are_told_at_once() {
        let error = create(&json!({"name": "", "retention_days": 0})).unwrap_err();
        let params = error["details"].as_array().unwrap().iter().map(|it| it["param"].as_str().unwrap());
        assert_eq!(params.collect::<Vec<_>>(), ["retention_days", "name"]);
    }

    #[test]
    fn the_default_retention_is_never_above_the_workspaces() {
        let input: SourceInput = parse(br#"{"name": "n"}"#).unwrap();
        assert_eq!(input.create("t".into(), 7).unwrap().retention_days, 7);
    }
}
