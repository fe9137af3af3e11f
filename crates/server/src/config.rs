//! Settings: one table says what there is, where it comes from and what it means.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use restante_core::limits;

use crate::channel::guard::PrivateTargets;
use crate::ingress::TrustedProxies;

/// All settings of a server.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub public_url: Option<String>,
    pub admin_key: Option<String>,
    pub owner_email: Option<String>,
    pub log: String,
    pub allow_private_targets: PrivateTargets,
    pub allow_http_targets: bool,
    pub extra_ca_file: Option<PathBuf>,
    pub trusted_proxies: TrustedProxies,
    pub intake_body_bytes: usize,
    pub disk_free_bytes: u64,
    pub threads: usize,
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

/// Largest `intake_body_bytes`: a body is one value in the database and one block in memory.
const INTAKE_BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

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

/// Every setting, in the order of the reference page.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        help: "Address and port to listen on. Port 0 takes a free one.",
        default: "127.0.0.1:8420",
        set: |config, text| {
            parse(text, "an address and port such as 127.0.0.1:8420").map(|it| config.listen = it)
        },
    },
    Setting {
        name: "data",
        help: "The data directory, made when missing. One process at a time may use it.",
        default: "./restante-data",
        set: |config, text| keep(&mut config.data, PathBuf::from(text)),
    },
    Setting {
        name: "public_url",
        help: "The address under which the world reaches this server; the start of every source's URL.",
        default: "http:// and the listening address",
        set: |config, text| {
            let url = text.trim_end_matches('/');
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                return Err("must begin with http:// or https://".into());
            }
            keep(&mut config.public_url, Some(url.to_owned()))
        },
    },
    Setting {
        name: "admin_key",
        help: "The first admin key, `rst_live_` and at least 24 characters, instead of an invented one.",
        default: "invented and printed at the first start",
        set: |config, text| {
            if !text.starts_with("rst_live_") || text.len() < "rst_live_".len() + 24 {
                return Err("must be rst_live_ and at least 24 characters".into());
            }
            keep(&mut config.admin_key, Some(text.to_owned()))
        },
    },
    Setting {
        name: "owner_email",
        help: "The mail address of the first workspace's owner.",
        default: "none",
        set: |config, text| keep(&mut config.owner_email, Some(text.to_owned())),
    },
    Setting {
        name: "log",
        help: "What is logged: a level (error, warn, info, debug, trace), or target=level pairs with commas between.",
        default: "info",
        set: |config, text| keep(&mut config.log, text.to_owned()),
    },
    Setting {
        name: "allow_private_targets",
        help: "Networks outside the public internet that may be sent to: CIDR blocks with commas between, or `all`.",
        default: "none",
        set: |config, text| {
            text.parse()
                .map(|it| config.allow_private_targets = it)
                .map_err(|fault: crate::channel::guard::NotATargetList| fault.to_string())
        },
    },
    Setting {
        name: "allow_http_targets",
        help: "Whether plain http URLs may be sent to: true or false.",
        default: "false",
        set: |config, text| parse(text, "true or false").map(|it| config.allow_http_targets = it),
    },
    Setting {
        name: "extra_ca_file",
        help: "A PEM file of certificates trusted beside the public roots when sending.",
        default: "none",
        set: |config, text| keep(&mut config.extra_ca_file, Some(PathBuf::from(text))),
    },
    Setting {
        name: "trusted_proxies",
        help: "Networks of proxies whose X-Forwarded-For is believed, with commas between.",
        default: "none",
        set: |config, text| {
            text.parse()
                .map(|it| config.trusted_proxies = it)
                .map_err(|fault: crate::ingress::NotANetwork| fault.to_string())
        },
    },
    Setting {
        name: "intake_body_bytes",
        help: "Largest body a source takes, in bytes, up to 256 MiB.",
        default: "5242880",
        set: |config, text| match text.parse() {
            Ok(bytes @ 1..=INTAKE_BODY_BYTES_MAX) => keep(&mut config.intake_body_bytes, bytes),
            _ => Err(format!("must be 1 to {INTAKE_BODY_BYTES_MAX} bytes")),
        },
    },
    Setting {
        name: "disk_free_bytes",
        help: "The server is not ready when the data directory's disk has less than this free, in bytes.",
        default: "268435456",
        set: |config, text| parse(text, "a number of bytes").map(|it| config.disk_free_bytes = it),
    },
    Setting {
        name: "threads",
        help: "Runtime threads for doors and deliveries, 1 to 256.",
        default: "one for each core",
        set: |config, text| match text.parse() {
            Ok(threads @ 1..=256) => keep(&mut config.threads, threads),
            _ => Err("must be 1 to 256".into()),
        },
    },
];

fn keep<T>(place: &mut T, value: T) -> Result<(), String> {
    *place = value;
    Ok(())
}

fn parse<T: std::str::FromStr>(text: &str, wanted: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {wanted}"))
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8420)),
            data: PathBuf::from("./restante-data"),
            public_url: None,
            admin_key: None,
            owner_email: None,
            log: "info".into(),
            allow_private_targets: PrivateTargets::None,
            allow_http_targets: false,
            extra_ca_file: None,
            trusted_proxies: TrustedProxies::default(),
            intake_body_bytes: limits::INTAKE_BODY_BYTES_MAX,
            disk_free_bytes: 256 * 1024 * 1024,
            threads: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        }
    }
}

impl Config {
    /// Puts the layers on top of each other: file, environment, flags.
    ///
    /// `environment` may hold other variables; those that begin with `RESTANTE_` must be settings.
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
        for (name, value) in environment {
            if let Some(name) = name.strip_prefix("RESTANTE_") {
                config.set(&name.to_lowercase(), &value, Origin::Environment)?;
            }
        }
        for (name, value) in flags {
            config.set(name, &value, Origin::Flag)?;
        }
        Ok(config)
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

fn read_file(text: &str) -> Result<BTreeMap<String, String>, Fault> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| Fault::File(error.to_string()))?;
    let plain = |value: toml::Value| match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(switch) => Some(switch.to_string()),
        toml::Value::Array(values) => {
            let parts: Option<Vec<String>> =
                values.into_iter().map(|it| it.as_str().map(str::to_owned)).collect();
            parts.map(|parts| parts.join(","))
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
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
            ("ALLOW_PRIVATE_TARGETS", "10.0.0.0/99"),
            ("ALLOW_HTTP_TARGETS", "perhaps"),
            ("TRUSTED_PROXIES", "x"),
            ("INTAKE_BODY_BYTES", "-1"),
            ("THREADS", "0"),
        ] {
            let fault = Config::layered(None, [pair(&format!("RESTANTE_{name}"), value)], []).unwrap_err();
            assert!(fault.to_string().contains(&name.to_lowercase()), "{fault}");
        }
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
