//! The standard variables of OpenTelemetry that are minded.

use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

use super::sampler::Sampler;
use crate::vault::Secret;

/// The variables, what holds without them, and what they mean.
pub(crate) const VARIABLES: [(&str, &str, &str); 11] = [
    (
        ENDPOINT,
        "none: no traces",
        "The collector's base URL, such as `http://127.0.0.1:4318`; spans go to `/v1/traces` below it. It may be any address.",
    ),
    (TRACES_ENDPOINT, "none", "The whole URL that spans go to; wins over the base URL."),
    (
        HEADERS,
        "none",
        "Headers of each export, `name=value` with commas between, values percent-encoded. Kept out of every output.",
    ),
    (TRACES_HEADERS, "none", "Wins over `OTEL_EXPORTER_OTLP_HEADERS`."),
    (PROTOCOL, "`http/protobuf`", "`http/protobuf` is the one there is; another is an error."),
    (TRACES_PROTOCOL, "`http/protobuf`", "Wins over `OTEL_EXPORTER_OTLP_PROTOCOL`."),
    (SERVICE_NAME, "`restante`", "The name under which this server's spans are shown."),
    (
        RESOURCE_ATTRIBUTES,
        "none",
        "What else is said of this server, `name=value` with commas between, values percent-encoded.",
    ),
    (
        SAMPLER,
        "`parentbased_always_on`",
        "Which traces are kept: `always_on`, `always_off`, `traceidratio`, or one of them behind `parentbased_`.",
    ),
    (SAMPLER_ARG, "1", "The share that `traceidratio` keeps, 0 to 1."),
    (DISABLED, "`false`", "`true`: no traces, whatever else is set."),
];

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// How traces are told, and to whom.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// An absolute http or https URL. It may hold a token.
    pub(super) url: Secret,
    /// Marked as sensitive.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// `service.name` and what else is said of the server.
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
}

/// A variable that cannot be used.
pub(crate) struct Unusable {
    pub(crate) variable: &'static str,
    /// Without the value, which may be a secret.
    pub(crate) reason: String,
}

fn unusable(variable: &'static str, reason: impl Into<String>) -> Unusable {
    Unusable { variable, reason: reason.into() }
}

impl TraceSettings {
    /// Reads the variables; `None`: no traces are wanted, and the other variables are not looked at, for they may be
    /// meant for programs beside this one. A variable that is empty counts as not set.
    ///
    /// # Errors
    /// `Unusable` names the first one that cannot be used.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Unusable> {
        let get =
            |name: &'static str| variable(name).map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
        if get(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let Some(url) = endpoint(&get)? else { return Ok(None) };
        for name in [TRACES_PROTOCOL, PROTOCOL] {
            match get(name).as_deref() {
                None => {}
                Some("http/protobuf") => break,
                Some(_) => {
                    return Err(unusable(
                        name,
                        "traces are sent by `http/protobuf` only; collectors take that on port 4318",
                    ));
                }
            }
        }
        let from = if get(TRACES_HEADERS).is_some() { TRACES_HEADERS } else { HEADERS };
        Ok(Some(Self {
            url: Secret::new(url),
            headers: headers(from, get(from))?,
            resource: resource(get(SERVICE_NAME), get(RESOURCE_ATTRIBUTES))?,
            sampler: sampler(get(SAMPLER), get(SAMPLER_ARG))?,
        }))
    }
}

fn endpoint(get: &impl Fn(&'static str) -> Option<String>) -> Result<Option<String>, Unusable> {
    let (variable, text) = match (get(TRACES_ENDPOINT), get(ENDPOINT)) {
        (Some(text), _) => (TRACES_ENDPOINT, text),
        (None, Some(text)) => (ENDPOINT, text),
        (None, None) => return Ok(None),
    };
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let mut url = url.ok_or_else(|| unusable(variable, "must be an absolute http or https URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable(variable, "must not name a user; set a header in OTEL_EXPORTER_OTLP_HEADERS"));
    }
    if variable == ENDPOINT {
        let base = url.path().trim_end_matches('/');
        let path = format!("{base}/v1/traces");
        url.set_path(&path);
    }
    url.set_fragment(None);
    Ok(Some(url.into()))
}

/// Splits `name=value,name=value`; values are percent-decoded.
fn pairs(variable: &'static str, text: &str) -> Result<Vec<(String, String)>, Unusable> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        (!name.trim().is_empty()).then(|| (name.trim().to_owned(), value.into_owned()))
    };
    let pairs = text.split(',').filter(|it| !it.trim().is_empty()).map(pair);
    let pairs: Option<Vec<_>> = pairs.collect();
    pairs.ok_or_else(|| unusable(variable, "must be name=value with commas between"))
}

fn headers(variable: &'static str, text: Option<String>) -> Result<Vec<(HeaderName, HeaderValue)>, Unusable> {
    let read = |(name, value): (String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    };
    let pairs = pairs(variable, text.as_deref().unwrap_or_default())?;
    let headers: Option<Vec<_>> = pairs.into_iter().map(read).collect();
    headers.ok_or_else(|| unusable(variable, "holds what is no header"))
}

fn resource(name: Option<String>, attributes: Option<String>) -> Result<Vec<(String, String)>, Unusable> {
    let mut resource = pairs(RESOURCE_ATTRIBUTES, attributes.as_deref().unwrap_or_default())?;
    if let Some(name) = name {
        resource.retain(|(known, _)| known != "service.name");
        resource.push(("service.name".to_owned(), name));
    }
    for (name, value) in [("service.name", "restante"), ("service.version", env!("CARGO_PKG_VERSION"))] {
        if resource.iter().all(|(known, _)| known != name) {
            resource.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(resource)
}

fn sampler(name: Option<String>, share: Option<String>) -> Result<Sampler, Unusable> {
    let name = name.as_deref().unwrap_or("parentbased_always_on");
    let (parent_based, root) = match name.strip_prefix("parentbased_") {
        Some(root) => (true, root),
        None => (false, name),
    };
    let ratio = match root {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => {
            let share = share.as_deref().unwrap_or("1").parse().ok();
            let fits = share.filter(|share| (0.0..=1.0).contains(share));
            fits.ok_or_else(|| unusable(SAMPLER_ARG, "must be a number from 0 to 1"))?
        }
        _ => {
            let known = "always_on, always_off, traceidratio, or one of them behind parentbased_";
            return Err(unusable(SAMPLER, format!("must be {known}")));
        }
    };
    Ok(Sampler { parent_based, ratio })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<TraceSettings>, Unusable> {
        let get = |name: &str| set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
        TraceSettings::read(get)
    }

    fn settings(set: &[(&str, &str)]) -> TraceSettings {
        match read(set) {
            Ok(settings) => settings.unwrap(),
            Err(fault) => panic!("{}: {}", fault.variable, fault.reason),
        }
    }

    #[test]
    fn without_an_endpoint_there_are_no_traces_and_nothing_else_is_looked_at() {
        for set in [
            &[][..],
            &[(ENDPOINT, " ")],
            &[(PROTOCOL, "grpc")],
            &[(DISABLED, "TRUE"), (ENDPOINT, "http://collector:4318"), (PROTOCOL, "grpc")],
        ] {
            assert!(matches!(read(set), Ok(None)), "{set:?}");
        }
    }

    #[test]
    fn the_base_url_is_added_to_and_the_whole_one_is_not() {
        for (variable, set, expected) in [
            (ENDPOINT, "http://collector:4318", "http://collector:4318/v1/traces"),
            (ENDPOINT, "https://c.example/otlp/", "https://c.example/otlp/v1/traces"),
            (TRACES_ENDPOINT, "http://collector:4318", "http://collector:4318/"),
            (TRACES_ENDPOINT, "https://c.example/x?token=y", "https://c.example/x?token=y"),
        ] {
            assert_eq!(settings(&[(variable, set)]).url.expose(), expected);
        }
    }

    #[test]
    fn headers_and_attributes_are_pairs_and_the_service_has_a_name() {
        let read = settings(&[
            (ENDPOINT, "http://c"),
            (HEADERS, "authorization=Bearer%20abc, x-team = a"),
            (RESOURCE_ATTRIBUTES, "service.name=other,deployment.environment.name=a%2Cb"),
            (SERVICE_NAME, "mine"),
        ]);
        let headers: Vec<_> =
            read.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(headers, [("authorization", "Bearer abc"), ("x-team", "a")]);
        assert!(!format!("{read:?}").contains("abc"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read.resource,
            [
                pair("deployment.environment.name", "a,b"),
                pair("service.name", "mine"),
                pair("service.version", env!("CARGO_PKG_VERSION")),
            ]
        );
        let plain = settings(&[(ENDPOINT, "http://c")]);
        assert_eq!(plain.resource[0], pair("service.name", "restante"));
    }

    #[test]
    fn samplers_have_their_standard_names() {
        for (name, share, parent_based, ratio) in [
            ("", "", true, 1.0),
            ("always_on", "", false, 1.0),
            ("always_off", "", false, 0.0),
            ("traceidratio", "0.25", false, 0.25),
            ("parentbased_always_off", "", true, 0.0),
            ("parentbased_traceidratio", "", true, 1.0),
        ] {
            let read = settings(&[(ENDPOINT, "http://c"), (SAMPLER, name), (SAMPLER_ARG, share)]);
            assert_eq!(read.sampler, Sampler { parent_based, ratio }, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named_and_not_quoted() {
        for (variable, value) in [
            (ENDPOINT, "canary"),
            (ENDPOINT, "ftp://canary"),
            (ENDPOINT, "http://user:canary@c"),
            (PROTOCOL, "grpc"),
            (TRACES_PROTOCOL, "http/json"),
            (HEADERS, "canary"),
            (TRACES_HEADERS, "x=%00canary"),
            (RESOURCE_ATTRIBUTES, "=canary"),
            (SAMPLER, "jaeger_remote"),
            (SAMPLER_ARG, "1.5"),
        ] {
            let set = [(variable, value), (ENDPOINT, "http://c"), (SAMPLER, "traceidratio")];
            let Err(fault) = read(&set) else { panic!("{variable}={value} is taken") };
            assert_eq!(fault.variable, variable);
            assert!(!fault.reason.contains("canary"), "{}", fault.reason);
        }
    }
}
