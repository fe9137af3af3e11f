//! Settings: one table says what there is, where it comes from and what it means.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use restante_core::endpoint::MailTerms;
use restante_core::retry::Schedule;
use restante_core::{health, limits};
use restante_store::{Disk, Policy};

use crate::channel::guard::PrivateTargets;
use crate::channel::smtp::{Relay, Route, SmtpConfig};
use crate::ingress::TrustedProxies;
use crate::rate_limit::{Rate, RateLimits};
use crate::trace::{TraceSettings, Unusable, VARIABLES};
use crate::vault::Secret;

mod settings;

pub use settings::SETTINGS;

/// All settings of a server.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub database_url: Option<Secret>,
    pub public_url: Option<String>,
    pub admin_key: Option<String>,
    pub secret_key: Option<Secret>,
    pub owner_email: Option<String>,
    pub log: String,
    pub allow_private_targets: PrivateTargets,
    pub allow_http_targets: bool,
    pub extra_ca_file: Option<PathBuf>,
    pub trusted_proxies: TrustedProxies,
    pub dashboard_hosts: Vec<String>,
    pub degraded_after_failures: u32,
    pub degraded_after_seconds: u64,
    pub paused_after_seconds: u64,
    pub retention_days: u32,
    pub smtp_url: Option<Relay>,
    pub smtp: SmtpMode,
    pub smtp_hello: Option<String>,
    pub smtp_uncertain: Uncertain,
    pub mail_waits_seconds: Option<Vec<f64>>,
    pub mail_in_flight: u32,
    pub require_verified_domains: bool,
    pub notice_from: Option<String>,
    pub intake_body_bytes: usize,
    pub rate_limit_key_per_second: Option<f64>,
    pub rate_limit_key_burst: Option<u32>,
    pub rate_limit_source_per_second: Option<f64>,
    pub rate_limit_source_burst: Option<u32>,
    pub disk_free_bytes: u64,
    pub disk_reserve_bytes: u64,
    pub threads: usize,
    /// Not a setting of ours: OpenTelemetry's variables.
    pub traces: Option<TraceSettings>,
}

/// How mail leaves when there is no relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SmtpMode {
    /// It does not: it is kept and shown.
    #[default]
    Capture,
    /// To the recipients' own mail servers.
    Direct,
}

/// What is done about mail that may have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uncertain {
    /// It is not sent again.
    #[default]
    Keep,
    /// It is, and the recipient may get two.
    Resend,
}

/// One setting: its name in `restante.toml`, which in upper case behind `RESTANTE_` is its name in the environment.
pub struct Setting {
    pub name: &'static str,
    /// Meaning and unit.
    pub help: &'static str,
    /// The default, for people.
    pub default: &'static str,
    set: fn(&mut Config, &str) -> Result<(), String>,
}

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("unknown setting `{name}` in {origin}{}", .hint.as_ref().map(|hint| format!(" (did you mean `{hint}`?)")).unwrap_or_default())]
    Unknown { name: String, origin: Origin, hint: Option<String> },
    #[error("setting `{name}` from {origin}: {reason}")]
    Value { name: String, origin: Origin, reason: String },
    #[error("{0}")]
    File(String),
}

/// Where a value comes from; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    File,
    Environment,
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File => "restante.toml",
            Self::Environment => "the environment",
            Self::Flag => "the command line",
        })
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8420)),
            data: PathBuf::from("./restante-data"),
            database_url: None,
            public_url: None,
            admin_key: None,
            secret_key: None,
            owner_email: None,
            log: "info".into(),
            allow_private_targets: PrivateTargets::None,
            allow_http_targets: false,
            extra_ca_file: None,
            trusted_proxies: TrustedProxies::default(),
            dashboard_hosts: Vec::new(),
            degraded_after_failures: 5,
            degraded_after_seconds: 300,
            paused_after_seconds: 432_000,
            retention_days: 30,
            smtp_url: None,
            smtp: SmtpMode::Capture,
            smtp_hello: None,
            smtp_uncertain: Uncertain::Keep,
            mail_waits_seconds: None,
            mail_in_flight: limits::MAIL_IN_FLIGHT_DEFAULT,
            require_verified_domains: false,
            notice_from: None,
            intake_body_bytes: limits::INTAKE_BODY_BYTES_MAX,
            rate_limit_key_per_second: None,
            rate_limit_key_burst: None,
            rate_limit_source_per_second: None,
            rate_limit_source_burst: None,
            disk_free_bytes: 256 * 1024 * 1024,
            disk_reserve_bytes: 32 * 1024 * 1024,
            threads: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
            traces: None,
        }
    }
}

impl Config {
    /// Puts the layers on top of each other: file, environment, flags.
    ///
    /// `environment` may hold other variables; those that begin with `RESTANTE_` must be settings, and of those that
    /// begin with `OTEL_` the ones about traces are minded.
    ///
    /// # Errors
    /// The first unknown name or unusable value, with its origin.
    pub fn layered(
        file: Option<&str>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Self, Fault> {
        let mut config = Self::default();
        for (name, value) in file.map(read_file).transpose()?.unwrap_or_default() {
            config.set(&name, &value, Origin::File)?;
        }
        let mut others = BTreeMap::new();
        for (name, value) in environment {
            if let Some(name) = name.strip_prefix("RESTANTE_") {
                config.set(&name.to_lowercase(), &value, Origin::Environment)?;
            } else if name.starts_with("OTEL_") {
                others.insert(name, value);
            }
        }
        let unusable = |Unusable { variable, reason }| Fault::Value {
            name: variable.to_owned(),
            origin: Origin::Environment,
            reason,
        };
        config.traces = TraceSettings::read(|name| others.get(name).cloned()).map_err(unusable)?;
        for (name, value) in flags {
            config.set(name, &value, Origin::Flag)?;
        }
        Ok(config)
    }

    /// When webhooks count as degraded, and when they are paused.
    pub fn health_limits(&self) -> health::Limits {
        health::Limits {
            degraded_failures: self.degraded_after_failures,
            degraded_after: Duration::from_secs(self.degraded_after_seconds),
            paused_after: Duration::from_secs(self.paused_after_seconds),
        }
    }

    /// What the store needs to know. Asked once at the start: what it says of mail stays for as long as the process.
    pub fn policy(&self) -> Policy {
        let event_retention = Duration::from_secs(u64::from(self.retention_days) * 24 * 3600);
        let schedule = match &self.mail_waits_seconds {
            Some(waits) => Schedule::Custom { waits_seconds: waits.clone(), jitter: 0.0 },
            None => Schedule::Mail,
        };
        let mail = MailTerms { schedule, max_in_flight: self.mail_in_flight, ..MailTerms::default() };
        let resend_uncertain = self.smtp_uncertain == Uncertain::Resend;
        Policy {
            health: self.health_limits(),
            event_retention,
            mail: Box::leak(Box::new(mail)),
            resend_uncertain,
            disk: Disk { free_bytes_min: self.disk_free_bytes, reserve_bytes: self.disk_reserve_bytes },
        }
    }

    /// The wire's name of the way mail leaves.
    pub fn transport(&self) -> &'static str {
        match (&self.smtp_url, self.smtp) {
            (Some(_), _) => "relay",
            (None, SmtpMode::Direct) => "direct",
            (None, SmtpMode::Capture) => "capture",
        }
    }

    /// How mail leaves; `None`: it does not.
    pub fn mail_route(&self) -> Option<SmtpConfig> {
        let route = match (&self.smtp_url, self.smtp) {
            (Some(relay), _) => Route::Relay(relay.clone()),
            (None, SmtpMode::Direct) => Route::Direct,
            (None, SmtpMode::Capture) => return None,
        };
        Some(SmtpConfig { route, hello: self.smtp_hello.clone().unwrap_or_else(host_name) })
    }

    /// How often a key may call and a source be sent to.
    pub(crate) fn rate_limits(&self) -> RateLimits {
        let rate = |per_second: Option<f64>, burst| per_second.map(|it| Rate::new(it, burst));
        RateLimits::new(
            rate(self.rate_limit_key_per_second, self.rate_limit_key_burst),
            rate(self.rate_limit_source_per_second, self.rate_limit_source_burst),
        )
    }

    /// What `--dev` does: any target may be sent to, in plain http too.
    pub fn loosen_for_development(&mut self) {
        self.allow_private_targets = PrivateTargets::All;
        self.allow_http_targets = true;
    }

    fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), Fault> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            return Err(Fault::Unknown { name: name.to_owned(), origin, hint: nearest(name) });
        };
        (setting.set)(self, value).map_err(|reason| Fault::Value { name: name.to_owned(), origin, reason })
    }
}

/// What the machine calls itself, if that is a name that mail servers take.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    if !name.is_empty() && name.bytes().all(fit) { name } else { "localhost".to_owned() }
}

fn read_file(text: &str) -> Result<BTreeMap<String, String>, Fault> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        // Its own display quotes the line, and a secret may stand there.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Fault::File(format!("restante.toml, line {line}: {}", error.message()))
    })?;
    let plain = |value: toml::Value| match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(switch) => Some(switch.to_string()),
        toml::Value::Array(values) => {
            let parts: Option<Vec<String>> =
                values.into_iter().map(|it| it.as_str().map(str::to_owned)).collect();
            parts.map(|parts| parts.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    };
    table
        .into_iter()
        .map(|(name, value)| match plain(value) {
            Some(value) => Ok((name, value)),
            None => Err(Fault::Value {
                name,
                origin: Origin::File,
                reason: "must be a text, a number, true, false or a list of texts".into(),
            }),
        })
        .collect()
}

/// The known name that differs least, if it is close.
fn nearest(name: &str) -> Option<String> {
    let distance = |known: &str| {
        let (a, b): (Vec<char>, Vec<char>) = (name.chars().collect(), known.chars().collect());
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut above_left = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let cost = above_left + usize::from(x != y);
                above_left = row[j + 1];
                row[j + 1] = cost.min(row[j] + 1).min(above_left + 1);
            }
        }
        row[b.len()]
    };
    SETTINGS
        .iter()
        .map(|setting| (distance(setting.name), setting.name))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, name)| name.to_owned())
}

/// The reference page of all settings, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Settings\n\nA flag wins over the environment, the environment over `restante.toml` in the working directory. \
         Unknown settings are errors.\n\n| `restante.toml` | environment | default | meaning |\n|---|---|---|---|\n",
    );
    for setting in SETTINGS {
        let upper = setting.name.to_uppercase();
        page.push_str(&format!(
            "| `{}` | `RESTANTE_{upper}` | {} | {} |\n",
            setting.name, setting.default, setting.help
        ));
    }
    page.push_str(
        "\n## Traces\n\nThese are OpenTelemetry's own variables, in the environment only. Without an endpoint none is looked at; \
         one that is empty counts as not set. What is traced: [deploy](deploy/README.md#traces).\n\n\
         | environment | default | meaning |\n|---|---|---|\n",
    );
    for (name, default, help) in VARIABLES {
        page.push_str(&format!("| `{name}` | {default} | {help} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file = "listen = \"127.0.0.1:1\"\nlog = \"warn\"\nintake_body_bytes = 7\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]";
        let environment =
            [pair("RESTANTE_LISTEN", "127.0.0.1:2"), pair("RESTANTE_LOG", "debug"), pair("HOME", "/")];
        let config =
            Config::layered(Some(file), environment, [("listen", "127.0.0.1:3".to_owned())]).unwrap();
        assert_eq!(config.listen.port(), 3);
        assert_eq!((config.log.as_str(), config.intake_body_bytes), ("debug", 7));
        assert_eq!(config.trusted_proxies, "10.0.0.0/8,::1".parse().unwrap());
    }

    #[test]
    fn unknown_settings_are_errors_that_help() {
        let fault = Config::layered(None, [pair("RESTANTE_LISTN", "x")], []).unwrap_err();
        assert_eq!(fault.to_string(), "unknown setting `listn` in the environment (did you mean `listen`?)");
        assert!(Config::layered(Some("colour = 1"), [], []).is_err());
        assert!(Config::layered(Some("listen ="), [], []).is_err());
    }

    #[test]
    fn unusable_values_name_their_setting() {
        for (name, value) in [
            ("LISTEN", "nowhere"),
            ("PUBLIC_URL", "ftp://x"),
            ("ADMIN_KEY", "secret"),
            ("SECRET_KEY", ""),
            ("SECRET_KEY", "fifteen-letters"),
            ("SECRET_KEY", "no white space please"),
            ("ALLOW_PRIVATE_TARGETS", "10.0.0.0/99"),
            ("ALLOW_HTTP_TARGETS", "perhaps"),
            ("TRUSTED_PROXIES", "x"),
            ("DEGRADED_AFTER_FAILURES", "0"),
            ("DEGRADED_AFTER_SECONDS", "-1"),
            ("DEGRADED_AFTER_SECONDS", "315360001"),
            ("PAUSED_AFTER_SECONDS", "0"),
            ("PAUSED_AFTER_SECONDS", "5 days"),
            ("RETENTION_DAYS", "0"),
            ("RETENTION_DAYS", "366"),
            ("INTAKE_BODY_BYTES", "-1"),
            ("RATE_LIMIT_KEY_PER_SECOND", "0"),
            ("RATE_LIMIT_KEY_PER_SECOND", "NaN"),
            ("RATE_LIMIT_KEY_PER_SECOND", "100/s"),
            ("RATE_LIMIT_KEY_BURST", "0"),
            ("RATE_LIMIT_SOURCE_PER_SECOND", "100001"),
            ("RATE_LIMIT_SOURCE_PER_SECOND", "inf"),
            ("RATE_LIMIT_SOURCE_BURST", "1.5"),
            ("RATE_LIMIT_SOURCE_BURST", "1000001"),
            ("THREADS", "0"),
        ] {
            let fault = Config::layered(None, [pair(&format!("RESTANTE_{name}"), value)], []).unwrap_err();
            assert!(fault.to_string().contains(&name.to_lowercase()), "{fault}");
        }
    }

    #[test]
    fn the_health_of_webhooks_has_the_promised_thresholds() {
        let thresholds = |config: &Config| {
            (config.degraded_after_failures, config.degraded_after_seconds, config.paused_after_seconds)
        };
        let config = Config::default();
        assert_eq!((thresholds(&config), config.retention_days), ((5, 300, 432_000), 30));

        let file =
            "degraded_after_failures = 1\ndegraded_after_seconds = 0\npaused_after_seconds = 315360000";
        let environment = [pair("RESTANTE_RETENTION_DAYS", "365")];
        let config = Config::layered(Some(file), environment, []).unwrap();
        assert_eq!((thresholds(&config), config.retention_days), ((1, 0, 315_360_000), 365));
    }

    #[test]
    fn rates_are_limited_only_where_a_setting_says_so() {
        let rates = |config: &Config| {
            let limits = config.rate_limits();
            [limits.keys, limits.sources, limits.logins].map(|limit| limit.map(|limit| limit.rate()))
        };
        assert_eq!(rates(&Config::default()), [None, None, None]);

        let bursts = "rate_limit_key_burst = 5\nrate_limit_source_burst = 7\n";
        let config = Config::layered(Some(bursts), [], []).unwrap();
        assert_eq!(rates(&config), [None, None, None]);

        let environment = [pair("RESTANTE_RATE_LIMIT_SOURCE_PER_SECOND", "100")];
        let file = format!("{bursts}rate_limit_key_per_second = 0.5");
        let config = Config::layered(Some(&file), environment, []).unwrap();
        let [key, source] = [Rate::new(0.5, Some(5)), Rate::new(100.0, Some(7))];
        assert_eq!(rates(&config), [Some(key), Some(source), Some(source)]);

        let config = Config::layered(Some("rate_limit_key_per_second = 20"), [], []).unwrap();
        assert_eq!(rates(&config), [Some(Rate::new(20.0, Some(20))), None, None]);
    }

    #[test]
    fn a_secret_key_is_never_shown() {
        let config =
            Config::layered(None, [pair("RESTANTE_SECRET_KEY", "canary-canary-canary")], []).unwrap();
        assert_eq!(config.secret_key.as_ref().map(Secret::expose), Some("canary-canary-canary"));
        let shown = format!("{config:?} {config:#?}");
        assert!(shown.contains("secret_key: Some(Secret(..))") && !shown.contains("canary"), "{shown}");

        for line in [
            "secret_key = canary",
            "secret_key = \"canary",
            "secret_key = 'canary\"",
            "secret_key = \"canary\"",
            "secret_key = \"canary canary canary\"",
            "secret_key = [\"canary canary\"]",
            "secret_key = { canary = 1 }",
            "secret_key = \"\\canary\"",
            "secret_key \"canary-canary-canary\"",
        ] {
            let file = format!("log = \"info\"\n{line}\n");
            let fault = Config::layered(Some(&file), [], []).unwrap_err();
            assert!(!format!("{fault} {fault:?}").contains("canary"), "{line}: {fault}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_told_by_line() {
        let fault = Config::layered(Some("log = \"info\"\n\nlisten =\n"), [], []).unwrap_err();
        assert!(fault.to_string().starts_with("restante.toml, line 3: "), "{fault}");
    }

    #[test]
    fn the_reference_page_is_current() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md"));
        assert_eq!(
            page.unwrap_or_default(),
            reference(),
            "write what `restante config-reference` prints to docs/configuration.md"
        );
    }
}
