//! The table of all settings.

use std::path::PathBuf;

use super::Setting;
use crate::vault::{Secret, master};

/// Largest `intake_body_bytes`: a body is one value in the database and one block in memory.
const INTAKE_BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

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
        help: "Days that an event is kept after its last delivery ended, 1 to 365. Sources have their own.",
        default: "30",
        set: |config, text| match text.parse() {
            Ok(days @ 1..=365) => keep(&mut config.retention_days, days),
            _ => Err("must be 1 to 365 days".into()),
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
