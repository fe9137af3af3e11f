//! What well-known senders send, written by us in their shape. `{{now}}` and `{{id}}` are filled in at each sending.

const JSON: &str = "application/json";
const JSON_UTF8: &str = "application/json; charset=utf-8";
const FORM: &str = "application/x-www-form-urlencoded";

/// One thing that one sender sends.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) provider: &'static str,
    pub(super) event: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: &'static str,
}

const fn sample(
    provider: &'static str,
    event: &'static str,
    content_type: &'static str,
    body: &'static str,
) -> Sample {
    Sample { provider, event, content_type, body }
}

pub(super) const SAMPLES: &[Sample] = &[
    sample("github", "ping", JSON, include_str!("samples/github_ping.json")),
    sample("github", "push", JSON, include_str!("samples/github_push.json")),
    sample("github", "pull_request", JSON, include_str!("samples/github_pull_request.json")),
    sample("github", "issues", JSON, include_str!("samples/github_issues.json")),
    sample(
        "stripe",
        "payment_intent.succeeded",
        JSON_UTF8,
        include_str!("samples/stripe_payment_intent.succeeded.json"),
    ),
    sample("stripe", "invoice.paid", JSON_UTF8, include_str!("samples/stripe_invoice.paid.json")),
    sample("stripe", "customer.created", JSON_UTF8, include_str!("samples/stripe_customer.created.json")),
    sample("stripe", "charge.refunded", JSON_UTF8, include_str!("samples/stripe_charge.refunded.json")),
    sample("slack", "url_verification", JSON, include_str!("samples/slack_url_verification.json")),
    sample("slack", "event_callback", JSON, include_str!("samples/slack_event_callback.json")),
    sample("slack", "slash_command", FORM, include_str!("samples/slack_slash_command.txt")),
];
