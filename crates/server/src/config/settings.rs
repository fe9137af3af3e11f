//! The table of all settings.

use std::path::PathBuf;

use restante_core::retry::{CUSTOM_WAITS_MAX, Schedule};

use super::{Setting, SmtpMode, Uncertain};
use crate::vault::{Secret, master};

/// Largest `intake_body_bytes`: a body is one value in the database and one block in memory.
const INTAKE_BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What the rate of a limit may be, in a second: from one in 100 s to more than a node takes.
const RATE: std::ops::RangeInclusive<f64> = 0.01..=100_000.0;

/// Largest burst of a limit.
const BURST_MAX: u32 = 1_000_000;

/// Longest span a setting takes, in seconds: ten years, for who means never.
const SECONDS_MAX: u64 = 10 * 365 * 24 * 3600;

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
        name: "database_url",
        help: "A PostgreSQL that holds everything instead of the data directory, shared by any number of nodes: `postgres://user:password@host:port/database`. Several hosts stand with commas between; the one that takes writes is used. `?sslmode=require` insists on TLS.",
        default: "none: the embedded database in the data directory",
        set: |config, text| {
            if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
                return Err("must begin with postgres://".into());
            }
            keep(&mut config.database_url, Some(Secret::new(text)))
        },
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
        name: "secret_key",
        help: "What secrets are encrypted with in the database: at least 16 visible ASCII characters, best those that `openssl rand -hex 32` prints. Without it the secrets are lost. With `database_url` it must be set, to the same on every node.",
        default: "the content of `secret.key` in the data directory, made at the first start",
        set: |config, text| {
            master(text).map_err(|fault| fault.to_string())?;
            keep(&mut config.secret_key, Some(Secret::new(text)))
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
        help: "What is logged: a level (error, warn, info, debug, trace), or target=level pairs with commas between. Only this program's own lines: those of libraries may hold what passes through them.",
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
        name: "dashboard_hosts",
        help: "Host names, besides that of `public_url`, addresses and localhost, under which the dashboard may be opened, with commas between.",
        default: "none",
        set: |config, text| {
            let names: Vec<_> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            let is_name =
                |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            if !names.iter().all(is_name) {
                return Err("must be host names such as hooks.example, without ports".into());
            }
            keep(&mut config.dashboard_hosts, names.into_iter().map(str::to_owned).collect())
        },
    },
    Setting {
        name: "degraded_after_failures",
        help: "A webhook is degraded after so many failed automatic attempts without a success, 1 or more, if they also last as long as `degraded_after_seconds` says.",
        default: "5",
        set: |config, text| match text.parse() {
            Ok(failures @ 1..) => keep(&mut config.degraded_after_failures, failures),
            _ => Err(format!("must be 1 to {}", u32::MAX)),
        },
    },
    Setting {
        name: "degraded_after_seconds",
        help: "How long a webhook must fail before it is degraded, in seconds, from the first failed attempt on. 0 counts failures alone.",
        default: "300",
        set: |config, text| match text.parse() {
            Ok(seconds @ 0..=SECONDS_MAX) => keep(&mut config.degraded_after_seconds, seconds),
            _ => Err(format!("must be 0 to {SECONDS_MAX} seconds")),
        },
    },
    Setting {
        name: "paused_after_seconds",
        help: "How long a webhook must fail before a degraded one is paused at its next failed attempt, in seconds, from the first failed attempt on: 1 up to ten years.",
        default: "432000",
        set: |config, text| match text.parse() {
            Ok(seconds @ 1..=SECONDS_MAX) => keep(&mut config.paused_after_seconds, seconds),
            _ => Err(format!("must be 1 to {SECONDS_MAX} seconds")),
        },
    },
    Setting {
        name: "retention_days",
        help: "Days that an event or an email is kept after its last delivery ended, 1 to 365. Sources have their own.",
        default: "30",
        set: |config, text| match text.parse() {
            Ok(days @ 1..=365) => keep(&mut config.retention_days, days),
            _ => Err("must be 1 to 365 days".into()),
        },
    },
    Setting {
        name: "smtp_url",
        help: "The mail server that takes all mail: `smtp://user:password@host:587` (STARTTLS, required with a password unless the host is this machine) or `smtps://user:password@host:465`.",
        default: "none",
        set: |config, text| {
            text.parse()
                .map(|it| config.smtp_url = Some(it))
                .map_err(|fault: crate::channel::smtp::RelayFault| fault.to_string())
        },
    },
    Setting {
        name: "smtp",
        help: "How mail leaves without `smtp_url`: `direct`, to the recipients' own mail servers, or `capture`: it is kept and shown, and goes nowhere.",
        default: "capture",
        set: |config, text| match text {
            "direct" => keep(&mut config.smtp, SmtpMode::Direct),
            "capture" => keep(&mut config.smtp, SmtpMode::Capture),
            _ => Err("must be direct or capture".into()),
        },
    },
    Setting {
        name: "smtp_hello",
        help: "The name this server gives to mail servers: its own, fully qualified.",
        default: "what the machine calls itself",
        set: |config, text| {
            let fit = |byte: u8| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte);
            if text.is_empty() || text.len() > 255 || !text.bytes().all(fit) {
                return Err("must be a host's name, or an address in brackets".into());
            }
            keep(&mut config.smtp_hello, Some(text.to_owned()))
        },
    },
    Setting {
        name: "smtp_uncertain",
        help: "What becomes of mail whose end was sent and not answered, so that it may have arrived: `keep` sends it no more, `resend` sends it again, and the recipient may get two.",
        default: "keep",
        set: |config, text| match text {
            "keep" => keep(&mut config.smtp_uncertain, Uncertain::Keep),
            "resend" => keep(&mut config.smtp_uncertain, Uncertain::Resend),
            _ => Err("must be keep or resend".into()),
        },
    },
    Setting {
        name: "mail_waits_seconds",
        help: "Waits between the attempts of an email, in seconds with commas between, at most 19, each up to seven days.",
        default: "60, 300, 900, 3600, 10800, 21600, 43200, 86400, each ±20 %",
        set: |config, text| {
            let waits: Result<Vec<f64>, _> = text.split(',').map(|it| it.trim().parse::<f64>()).collect();
            let waits = waits.map_err(|_| "must be numbers with commas between".to_owned())?;
            let schedule = Schedule::Custom { waits_seconds: waits.clone(), jitter: 0.0 };
            schedule.check(CUSTOM_WAITS_MAX).map_err(|fault| fault.to_string())?;
            keep(&mut config.mail_waits_seconds, Some(waits))
        },
    },
    Setting {
        name: "mail_in_flight",
        help: "Emails on their way to one domain at the same time, over all nodes, for each workspace: 1 to 1000.",
        default: "20",
        set: |config, text| match text.parse() {
            Ok(most @ 1..=1000) => keep(&mut config.mail_in_flight, most),
            _ => Err("must be 1 to 1000".into()),
        },
    },
    Setting {
        name: "require_verified_domains",
        help: "Whether mail is taken only from domains that are verified: true or false.",
        default: "false",
        set: |config, text| parse(text, "true or false").map(|it| config.require_verified_domains = it),
    },
    Setting {
        name: "notice_from",
        help: "The address that notices to the owners of a workspace come from. Without it they are not mailed.",
        default: "none",
        set: |config, text| {
            restante_core::email::Address::parse(text).map_err(|fault| fault.to_string())?;
            keep(&mut config.notice_from, Some(text.to_owned()))
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
        name: "rate_limit_key_per_second",
        help: "How often one API key may call in a second, 0.01 to 100000, counted by each node for itself. What comes more often is answered with 429 and changes nothing. A session of the dashboard counts as its key.",
        default: "none: there is no limit",
        set: |config, text| rate(text).map(|it| config.rate_limit_key_per_second = Some(it)),
    },
    Setting {
        name: "rate_limit_key_burst",
        help: "How many calls one API key may make at once after a pause, 1 to 1000000. Without `rate_limit_key_per_second` there is no limit.",
        default: "what `rate_limit_key_per_second` allows in a second",
        set: |config, text| burst(text).map(|it| config.rate_limit_key_burst = Some(it)),
    },
    Setting {
        name: "rate_limit_source_per_second",
        help: "How many requests one source takes in a second, 0.01 to 100000, counted by each node for itself. What comes more often is answered with 429 and not kept. Logins of command-line clients with the source's token may be as many, and are counted apart.",
        default: "none: there is no limit",
        set: |config, text| rate(text).map(|it| config.rate_limit_source_per_second = Some(it)),
    },
    Setting {
        name: "rate_limit_source_burst",
        help: "How many requests one source takes at once after a pause, 1 to 1000000. Without `rate_limit_source_per_second` there is no limit.",
        default: "what `rate_limit_source_per_second` allows in a second",
        set: |config, text| burst(text).map(|it| config.rate_limit_source_burst = Some(it)),
    },
    Setting {
        name: "disk_free_bytes",
        help: "With less free on the data directory's disk, in bytes, nothing new is accepted and the server is not ready; what was accepted goes on.",
        default: "268435456",
        set: |config, text| parse(text, "a number of bytes").map(|it| config.disk_free_bytes = it),
    },
    Setting {
        name: "disk_reserve_bytes",
        help: "Size of the file `reserve` in the data directory, in bytes. It is given up when the disk is full, so that what was accepted can end, and made again when there is room. 0: none.",
        default: "33554432",
        set: |config, text| parse(text, "a number of bytes").map(|it| config.disk_reserve_bytes = it),
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

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| RATE.contains(rate));
    rate.ok_or_else(|| format!("must be {} to {}", RATE.start(), RATE.end()))
}

fn burst(text: &str) -> Result<u32, String> {
    let burst = text.parse().ok().filter(|burst| (1..=BURST_MAX).contains(burst));
    burst.ok_or_else(|| format!("must be 1 to {BURST_MAX}"))
}

fn parse<T: std::str::FromStr>(text: &str, wanted: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {wanted}"))
}
