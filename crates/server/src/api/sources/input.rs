//! What callers may set of a source, and what is valid.

use restante_core::endpoint::{Answer, Source, settable_value};
use restante_core::limits;
use serde::Deserialize;
use utoipa::ToSchema;

use super::rules::{DedupeInput, VerificationInput};
use crate::api::body::Change;
use crate::api::endpoints::Judge;
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
    /// How repeats are known, which are stored and not delivered; null: they are not.
    #[schema(value_type = Option<DedupeInput>)]
    #[serde(default)]
    dedupe: Change<DedupeInput>,
    /// How requests are signed; what is not is stored as rejected, answered 401 and not delivered. Null: they are not.
    /// Replaces all of it, with the secret.
    #[schema(value_type = Option<VerificationInput>)]
    #[serde(default)]
    verification: Change<VerificationInput>,
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
    pub(crate) fn create(
        self,
        token: String,
        retention_days_max: u32,
        judge: Judge<'_>,
    ) -> Result<Source, ApiError> {
        if !matches!(self.name, Change::Set(_)) {
            return Err(ApiError::invalid("missing_field", "name is required").on("name"));
        }
        let mut source = Source {
            name: String::new(),
            token,
            response: None,
            deliver_pending_on_connect: true,
            retention_days: limits::RETENTION_DAYS_DEFAULT.min(retention_days_max),
            dedupe: None,
            verification: None,
        };
        self.apply(&mut source, retention_days_max, judge)?;
        Ok(source)
    }

    /// Changes a source.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn apply(
        self,
        source: &mut Source,
        retention_days_max: u32,
        judge: Judge<'_>,
    ) -> Result<(), ApiError> {
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
        source.dedupe = match self.dedupe {
            Change::Keep => source.dedupe.take(),
            Change::Reset => None,
            Change::Set(dedupe) => dedupe.read(&mut faults),
        };
        source.verification = match self.verification {
            Change::Keep => source.verification.take(),
            Change::Reset => None,
            Change::Set(new) => new.read(source.verification.as_ref(), judge, &mut faults),
        };
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
    use crate::api::endpoints::bench::Bench;
    use crate::channel::guard::Rules;
    use crate::vault::Purpose;

    fn create(body: &Value) -> Result<Source, Value> {
        let input: Result<SourceInput, _> = parse(body.to_string().as_bytes());
        let bench = Bench::new(Rules::default());
        let source = input.and_then(|input| input.create("t".into(), 60, bench.judge()));
        source.map_err(|error| serde_json::to_value(error.body("r")).unwrap()["error"].clone())
    }

    fn answer(status: u16, content_type: &str, body: &str) -> Value {
        json!({"name": "n", "response": {"status": status, "content_type": content_type, "body": body}})
    }

    fn dedupe(dedupe: Value) -> Value {
        json!({"name": "n", "dedupe": dedupe})
    }

    fn verification(verification: Value) -> Value {
        json!({"name": "n", "verification": verification})
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
            (dedupe(json!({"header": "X"})), "dedupe.hours"),
            (dedupe(json!({"hours": 1})), "dedupe"),
            (dedupe(json!({"header": "X", "json_pointer": "/x", "hours": 1})), "dedupe"),
            (dedupe(json!({"header": "a b", "hours": 1})), "dedupe.header"),
            (dedupe(json!({"header": "X", "hours": 0})), "dedupe.hours"),
            (dedupe(json!({"header": "X", "hours": 8761})), "dedupe.hours"),
            (dedupe(json!({"header": "X", "hours": 1.5})), "dedupe.hours"),
            (dedupe(json!({"json_pointer": "id", "hours": 1})), "dedupe.json_pointer"),
            (dedupe(json!({"json_pointer": "/~2", "hours": 1})), "dedupe.json_pointer"),
            (
                dedupe(json!({"json_pointer": format!("/{}", "x".repeat(256)), "hours": 1})),
                "dedupe.json_pointer",
            ),
            (dedupe(json!({"header": "X", "hours": 1, "days": 1})), "dedupe.days"),
            (verification(json!({"kind": "github"})), "verification.secret"),
            (verification(json!({"kind": "paypal", "secret": "s"})), "verification.kind"),
            (verification(json!({"kind": "github", "secret": ""})), "verification.secret"),
            (verification(json!({"kind": "github", "secret": []})), "verification.secret"),
            (verification(json!({"kind": "github", "secret": 7})), "verification.secret"),
            (
                verification(json!({"kind": "github", "secret": ["s", "t", "u", "v", "w", "x"]})),
                "verification.secret",
            ),
            (verification(json!({"kind": "github", "secret": "x".repeat(513)})), "verification.secret"),
            (verification(json!({"kind": "stripe", "secret": "whsec_x\n"})), "verification.secret"),
            (
                verification(json!({"kind": "standard_webhooks", "secret": "whsec_short"})),
                "verification.secret",
            ),
            (verification(json!({"kind": "slack", "secret": "s", "header": "X"})), "verification.header"),
            (verification(json!({"kind": "hmac", "secret": "s"})), "verification.header"),
            (
                verification(json!({"kind": "hmac", "secret": "s", "header": "X", "algorithm": "md5"})),
                "verification.algorithm",
            ),
            (
                verification(json!({"kind": "hmac", "secret": "s", "header": "X", "encoding": "url"})),
                "verification.encoding",
            ),
            (
                verification(json!({"kind": "hmac", "secret": "s", "header": "X", "prefix": "\n"})),
                "verification.prefix",
            ),
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
    fn a_secret_that_is_set_again_is_no_change() {
        let bench = Bench::new(Rules::default());
        let input = |secret: Value| -> SourceInput {
            parse(verification(json!({"kind": "github", "secret": secret})).to_string().as_bytes()).unwrap()
        };
        let mut source = input(json!("first")).create("t".into(), 60, bench.judge()).unwrap();
        let before = source.verification.clone().unwrap();
        input(json!(["first", "second"])).apply(&mut source, 60, bench.judge()).unwrap();
        let after = source.verification.unwrap();
        assert_eq!((after.secrets.len(), &after.secrets[0]), (2, &before.secrets[0]));
        let open =
            |sealed| bench.vault.open(Purpose::VerificationSecret, sealed).unwrap().expose().to_owned();
        assert_eq!(after.secrets.iter().map(open).collect::<Vec<_>>(), ["first", "second"]);
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
        assert_eq!(
            input.create("t".into(), 7, Bench::new(Rules::default()).judge()).unwrap().retention_days,
            7
        );
    }
}
