//! The calls that each page makes before it can be seen: `crates/server/assets/pages`.

use super::Found;

/// One look at a page.
pub(super) struct Visit {
    pub(super) page: String,
    /// Paths with their queries, in the order of the page.
    pub(super) calls: Vec<String>,
}

/// What a filter asks for that nothing has: the longest search there is.
const NOWHERE: &str = "nothing-has-this";

pub(super) fn all(found: &Found) -> Vec<Visit> {
    let mut visits = vec![overview(found)];
    visits.extend(requests(found));
    visits.extend(deliveries(found));
    visits.extend(outbound(found));
    visits.extend(mail(found));
    for (page, calls) in [
        ("sources", vec!["/v1/sources?limit=50"]),
        ("notices", vec!["/v1/notices"]),
        ("credits", vec!["/v1/workspace/credits", "/v1/server"]),
        ("domains", vec!["/v1/domains"]),
        ("templates", vec!["/v1/templates"]),
        ("suppressions", vec!["/v1/suppressions"]),
        ("keys", vec!["/v1/keys", "/v1/server"]),
        ("settings", vec!["/v1/workspace", "/v1/server"]),
    ] {
        visits.push(visit(page, calls.into_iter().map(str::to_owned)));
    }
    visits.push(visit(
        "source",
        [
            format!("/v1/sources/{}", found.source),
            format!("/v1/sources/{}/destinations?limit=100", found.source),
            "/v1/stats/endpoints?hours=24".into(),
        ],
    ));
    visits
}

/// A page with what its frame reads.
fn visit(page: &str, calls: impl IntoIterator<Item = String>) -> Visit {
    let frame = ["/v1/workspace", "/v1/workspaces?limit=100"].map(str::to_owned);
    Visit { page: page.to_owned(), calls: frame.into_iter().chain(calls).collect() }
}

fn sources() -> String {
    "/v1/sources?limit=100".into()
}

fn webhooks() -> String {
    "/v1/webhooks?limit=100".into()
}

/// The destinations of each source.
fn destinations(found: &Found) -> impl Iterator<Item = String> {
    found.sources.iter().map(|id| format!("/v1/sources/{id}/destinations?limit=100"))
}

fn overview(found: &Found) -> Visit {
    let calls = [
        "/v1/stats?hours=1".to_owned(),
        "/v1/stats/endpoints?hours=24".to_owned(),
        webhooks(),
        "/v1/deliveries?state=failed&since=2020-01-01T00:00:00Z&limit=5".to_owned(),
        "/v1/requests?limit=1".to_owned(),
        sources(),
    ];
    visit("overview", calls.into_iter().chain(destinations(found)))
}

fn requests(found: &Found) -> Vec<Visit> {
    let Found { source, quiet, request, failed_request, early, .. } = found;
    let mut filters = vec![
        String::new(),
        format!("source={source}"),
        format!("source={quiet}"),
        format!("source={source}&state=failed"),
        format!("until={early}"),
        format!("until={early}&state=failed"),
        "method=PUT".into(),
        "path=/orders/17".into(),
        "text=%22order%22:17".into(),
        "method=DELETE".into(),
        format!("path={NOWHERE}"),
        format!("text={NOWHERE}"),
    ];
    filters.extend(["pending", "delivered", "failed", "cancelled", "none"].map(|it| format!("state={it}")));
    let mut visits: Vec<Visit> = filters
        .iter()
        .map(|filter| visit(&named("requests", filter, found), [sources(), listed("/v1/requests", filter)]))
        .collect();
    for (page, id) in [("request", request), ("request that failed", failed_request)] {
        let calls = [format!("/v1/requests/{id}"), format!("/v1/requests/{id}/body"), sources()];
        visits.push(visit(
            page,
            calls.into_iter().chain([format!("/v1/sources/{source}/destinations?limit=100")]),
        ));
    }
    visits
}

fn deliveries(found: &Found) -> Vec<Visit> {
    let Found { source, destination, webhook, request, event, email, delivery, early, .. } = found;
    let mut filters = vec![
        String::new(),
        format!("source={source}"),
        format!("destination={destination}"),
        format!("destination={destination}&state=failed"),
        format!("webhook={webhook}"),
        format!("webhook={webhook}&state=skipped"),
        format!("request={request}"),
        format!("event={event}"),
        format!("email={email}"),
        format!("until={early}"),
    ];
    filters.extend(
        ["pending", "sending", "delivered", "failed", "cancelled", "skipped"].map(|it| format!("state={it}")),
    );
    let mut visits: Vec<Visit> = filters
        .iter()
        .map(|filter| {
            let calls = [sources(), webhooks()].into_iter().chain(destinations(found));
            visit(&named("deliveries", filter, found), calls.chain([listed("/v1/deliveries", filter)]))
        })
        .collect();
    visits.push(visit(
        "delivery",
        [format!("/v1/deliveries/{delivery}"), format!("/v1/requests/{request}"), sources()],
    ));
    visits
}

fn outbound(found: &Found) -> Vec<Visit> {
    let Found { webhook, busy_webhook, event, early, .. } = found;
    let mut visits = Vec::new();
    for filter in
        [String::new(), "type=bench.t7".into(), "type=nothing.has.this".into(), format!("until={early}")]
    {
        visits.push(visit(&named("events", &filter, found), [listed("/v1/events", &filter)]));
    }
    visits.push(visit("event", [format!("/v1/events/{event}"), webhooks()]));
    let stats = || "/v1/stats/endpoints?hours=24".to_owned();
    visits.push(visit("webhooks", ["/v1/webhooks".to_owned(), stats()]));
    for (name, id) in [("webhook", webhook), ("busy webhook", busy_webhook)] {
        let path = format!("/v1/webhooks/{id}");
        let head = || [path.clone(), "/v1/notices?limit=100".to_owned(), stats()];
        visits.push(visit(name, head().into_iter().chain([format!("/v1/stats?hours=24&webhook={id}")])));
        for status in ["", "?status=failed", "?status=delivered", "?status=pending"] {
            let calls = head().into_iter().chain([format!("{path}/attempts{status}")]);
            visits.push(visit(&format!("{name}, attempts {status}"), calls));
        }
        for state in ["", "?state=pending", "?state=failed", "?state=skipped"] {
            let calls = head().into_iter().chain([format!("{path}/deliveries{state}")]);
            visits.push(visit(&format!("{name}, deliveries {state}"), calls));
        }
        visits
            .push(visit(&format!("{name}, replays"), head().into_iter().chain([format!("{path}/replays")])));
    }
    visits
}

fn mail(found: &Found) -> Vec<Visit> {
    let Found { email, .. } = found;
    let mut visits = Vec::new();
    for filter in ["", "status=sent", "status=failed", "status=scheduled", "from=nobody@nowhere.example"] {
        let calls = ["/v1/server".to_owned(), format!("/v1/emails?{filter}")];
        visits.push(visit(&named("emails", filter, found), calls));
    }
    visits.push(visit(
        "email",
        [
            format!("/v1/emails/{email}"),
            "/v1/server".into(),
            format!("/v1/deliveries?email={email}&limit=100"),
            format!("/v1/emails/{email}/content"),
            format!("/v1/emails/{email}/events?limit=50"),
        ],
    ));
    visits
}

fn listed(path: &str, filter: &str) -> String {
    format!("{path}?{filter}{}limit=50", if filter.is_empty() { "" } else { "&" })
}

/// A page and its filter, with what an id stands for instead of the id.
fn named(page: &str, filter: &str, found: &Found) -> String {
    let mut name = if filter.is_empty() { page.to_owned() } else { format!("{page} ?{filter}") };
    for (id, instead) in [
        (&found.source, "…"),
        (&found.quiet, "one that nothing came to"),
        (&found.destination, "…"),
        (&found.webhook, "…"),
        (&found.request, "…"),
        (&found.event, "…"),
        (&found.email, "…"),
        (&found.early, "a week ago"),
    ] {
        name = name.replace(id.as_str(), instead);
    }
    name
}
