//! The page of metrics.

mod deploy;

use std::collections::BTreeSet;

use restante_core::outcome::Failure;

use super::*;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// With all there can be on a page.
pub(crate) fn moment() -> Moment {
    Moment {
        vitals: Some(Vitals { leased: 7, content_bytes: 4096, oldest_due: Some(START), wal_bytes: 65_536 }),
        connections: Connections { in_use: 3, idle: 2, waiting: 1, max: Some(16) },
        disk: Some(Disk {
            free_bytes: 9_000_000_000,
            free_bytes_min: 268_435_456,
            reserve_bytes: 33_554_432,
        }),
        in_flight: 5,
        unsettled: 4,
        clients: 1,
        callers: 12,
        now: START + Duration::from_millis(1500),
        uptime: Duration::from_secs(90),
    }
}

fn full_page() -> String {
    Metrics::default().render(&Commits::default(), &moment())
}

#[track_caller]
fn has(page: &str, line: &str) {
    assert!(page.lines().any(|it| it == line), "no line {line} in\n{page}");
}

/// One metric of a page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    name: String,
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// A series: its name, its labels.
fn series(line: &str) -> (&str, Vec<(&str, &str)>) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "not a number: {line}");
    let Some((name, rest)) = series.split_once('{') else { return (series, Vec::new()) };
    let labels = rest.strip_suffix('}').unwrap_or_else(|| panic!("no end of labels: {line}"));
    let labels = labels.split(',').map(|label| {
        let (name, value) = label.split_once('=').unwrap_or_else(|| panic!("no label: {line}"));
        let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        (name, value.unwrap_or_else(|| panic!("no quotes: {line}")))
    });
    (name, labels.collect())
}

/// Reads a page as strictly as its readers might.
fn families(page: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut lines = page.lines();
    assert!(page.ends_with('\n'));
    while let Some(line) = lines.next() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            let (name, help) = head.split_once(' ').unwrap();
            let kind =
                lines.next().and_then(|it| it.strip_prefix(&format!("# TYPE {name} ")).map(str::to_owned));
            let kind = kind.unwrap_or_else(|| panic!("{name} has no TYPE"));
            assert!(families.iter().all(|it| it.name != name), "{name} comes twice");
            families.push(Family { name: name.into(), kind, help: help.into(), ..Family::default() });
            continue;
        }
        let (name, labels) = series(line);
        assert!(seen.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "twice: {line}");
        let family = families.last_mut().unwrap_or_else(|| panic!("no HELP before {line}"));
        let suffixes: &[&str] =
            if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(
            suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(family.name.as_str())),
            "{name} is below the head of {}",
            family.name
        );
        family.labels.extend(labels.iter().map(|(name, _)| (*name).to_owned()).filter(|it| it != "le"));
    }
    families
}

#[test]
fn each_metric_has_help_a_type_and_a_valid_name() {
    let is_word = |text: &str| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|it| it.is_ascii_lowercase())
            && bytes.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
    };
    let families = families(&full_page());
    assert!(families.len() > 25);
    for Family { name, kind, help, labels } in &families {
        assert!(is_word(name) && name.starts_with("restante_"), "{name}");
        assert!(help.ends_with('.') && !help.contains('\\'), "{name}: {help}");
        assert!(labels.iter().all(|label| is_word(label)), "{name}: {labels:?}");
        assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{name} is a {kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
    }
}

#[test]
fn a_page_has_few_series_whatever_happens() {
    let series = full_page().lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 250, "{series} series");
}

#[test]
fn buckets_rise_to_the_count() {
    let metrics = Metrics::default();
    for millis in [1, 2, 30, 800, 60_000] {
        metrics.accepted(Duration::from_millis(millis));
    }
    let page = metrics.render(&Commits::default(), &moment());
    for line in [
        "restante_accept_seconds_bucket{le=\"0.001\"} 1",
        "restante_accept_seconds_bucket{le=\"0.0025\"} 2",
        "restante_accept_seconds_bucket{le=\"0.05\"} 3",
        "restante_accept_seconds_bucket{le=\"1\"} 4",
        "restante_accept_seconds_bucket{le=\"30\"} 4",
        "restante_accept_seconds_bucket{le=\"+Inf\"} 5",
        "restante_accept_seconds_sum 60.833",
        "restante_accept_seconds_count 5",
        "restante_requests_accepted_total 5",
    ] {
        has(&page, line);
    }
}

#[test]
fn what_happened_is_counted_by_what_it_was() {
    let metrics = Metrics::default();
    metrics.published(3, Duration::ZERO);
    metrics.sent(2, Duration::ZERO);
    metrics.refused(Refusal::Unavailable);
    let failure = || Failure::new(FailureKind::Timeout, "slow");
    let took = Duration::from_millis(5);
    metrics.begun(Channel::Webhook, Duration::from_secs(20));
    metrics.attempted(Channel::Webhook, &Outcome::Delivered { status: Some(200) }, took);
    metrics.attempted(Channel::Destination, &Outcome::Failed(failure()), took);
    metrics.attempted(Channel::Email, &Outcome::Refused(failure()), took);
    metrics.attempted(Channel::Email, &Outcome::Uncertain(failure()), took);
    metrics.attempted(Channel::Cli, &Outcome::Lost, took);
    metrics.settled(&Settled::LeaseLost);
    metrics.clock_jumped(ClockJump::Forward(Duration::from_secs(60)));
    metrics.clock_jumped(ClockJump::Back(Duration::from_millis(2500)));
    let page = metrics.render(&Commits::default(), &moment());
    for line in [
        "restante_events_published_total 3",
        "restante_emails_accepted_total 2",
        "restante_accept_seconds_count 2",
        "restante_requests_refused_total{reason=\"unavailable\"} 1",
        "restante_requests_refused_total{reason=\"credits\"} 0",
        "restante_attempts_total{channel=\"webhook\",result=\"delivered\"} 1",
        "restante_attempts_total{channel=\"destination\",result=\"failed\",error_kind=\"timeout\"} 1",
        "restante_attempts_total{channel=\"email\",result=\"failed\",error_kind=\"timeout\"} 1",
        "restante_attempts_total{channel=\"email\",result=\"uncertain\"} 1",
        "restante_attempts_total{channel=\"cli\",result=\"lost\"} 1",
        "restante_attempts_total{channel=\"cli\",result=\"delivered\"} 0",
        "restante_attempt_seconds_count 5",
        "restante_delivery_lag_seconds_bucket{channel=\"webhook\",le=\"15\"} 0",
        "restante_delivery_lag_seconds_bucket{channel=\"webhook\",le=\"60\"} 1",
        "restante_delivery_lag_seconds_sum{channel=\"webhook\"} 20",
        "restante_leases_lost_total 1",
        "restante_clock_jumps_total{direction=\"back\"} 1",
        "restante_clock_jumps_total{direction=\"forward\"} 1",
        "restante_clock_jump_last_seconds -2.5",
        "restante_clock_back_ms_total 2500",
    ] {
        has(&page, line);
    }
}

#[test]
fn gauges_are_what_was_read() {
    let page = full_page();
    for line in [
        "restante_store_up 1",
        "restante_uptime_seconds 90",
        "restante_oldest_due_seconds 1.5",
        "restante_leases 7",
        "restante_content_bytes 4096",
        "restante_wal_bytes 65536",
        "restante_database_connections{state=\"in_use\"} 3",
        "restante_database_connections{state=\"idle\"} 2",
        "restante_database_connections_waiting 1",
        "restante_database_connections_max 16",
        "restante_disk_free_bytes 9000000000",
        "restante_disk_free_min_bytes 268435456",
        "restante_disk_reserve_bytes 33554432",
        "restante_attempts_in_flight 5",
        "restante_attempts_unsettled 4",
        "restante_clients_connected 1",
        "restante_callers_connected 12",
    ] {
        has(&page, line);
    }
}

#[test]
fn what_is_not_known_is_missing() {
    let unknown = Moment {
        vitals: None,
        disk: None,
        connections: Connections { max: None, ..moment().connections },
        ..moment()
    };
    let page = Metrics::default().render(&Commits::default(), &unknown);
    has(&page, "restante_store_up 0");
    for name in [
        "restante_oldest_due_seconds",
        "restante_leases",
        "restante_content_bytes",
        "restante_wal_bytes",
        "restante_disk_free_bytes",
        "restante_disk_free_min_bytes",
        "restante_disk_reserve_bytes",
        "restante_database_connections_max",
    ] {
        assert!(families(&page).iter().all(|it| it.name != name), "{name} is there");
        assert!(families(&full_page()).iter().any(|it| it.name == name), "{name} is never there");
    }
}

#[test]
fn what_is_due_later_is_not_late() {
    let early = Moment { now: START.after(Duration::ZERO), ..moment() };
    let vitals = Vitals { oldest_due: Some(START + Duration::from_secs(9)), ..Vitals::default() };
    let page = Metrics::default().render(&Commits::default(), &Moment { vitals: Some(vitals), ..early });
    has(&page, "restante_oldest_due_seconds 0");
}
