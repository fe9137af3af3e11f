//! The profiles of a user: servers and keys by name, in a file that nobody else can read.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Layer;
use crate::exit;
use crate::output::{self, hinted};

/// Only its owner reads it.
const MODE: u32 = 0o600;

/// All profiles of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    /// The one in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// A server, and who one is there.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
}

/// Without the key.
impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Profile {
    pub(crate) fn layer(&self) -> Layer {
        let Self { url, api_key, workspace } = self.clone();
        Layer { url, api_key, workspace, profile: None }
    }
}

impl Profiles {
    /// Where they are: `$XDG_CONFIG_HOME/restante/config.toml`, else below `~/.config`. `None`: there is no home.
    pub(crate) fn path() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let directory = directory.or_else(|| set("HOME").map(|home| home.join(".config")))?;
        Some(directory.join("restante").join("config.toml"))
    }

    /// Reads them; none where there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is none of profiles.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let Some(path) = Self::path() else { return Ok(Self::default()) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                let what = format!("cannot read {}: {error}", path.display());
                return Err(hinted(what, "it must be readable for you", exit::USAGE));
            }
        };
        let shared = fs::metadata(&path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
        if shared {
            output::talk(&format!(
                "warning: others can read {}; chmod 600 keeps its keys yours",
                path.display()
            ));
        }
        parse(&text).map_err(|fault| {
            let hint = "restante profiles set writes it";
            hinted(format!("{}, {fault}", path.display()), hint, exit::USAGE)
        })
    }

    /// Writes them: all or nothing, and readable for their owner only from the beginning.
    ///
    /// # Errors
    /// There is no place for the file, or it cannot be written.
    pub(crate) fn write(&self) -> anyhow::Result<PathBuf> {
        let Some(path) = Self::path() else {
            let hint = "set HOME or XDG_CONFIG_HOME";
            return Err(hinted("there is no place for profiles", hint, exit::USAGE));
        };
        let directory = path.parent().context("a file is in a directory")?;
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let text = toml::to_string(self).context("profiles cannot be written as TOML")?;
        let fresh = path.with_extension(format!("toml.{}", std::process::id()));
        let written = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&fresh);
        let written =
            written.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.and_then(|()| fs::rename(&fresh, &path)).with_context(|| {
            // It may not have been made.
            let _ = fs::remove_file(&fresh);
            format!("cannot write {}", path.display())
        })?;
        Ok(path)
    }
}

/// Reads TOML. The fault names the line and not what stands there: it may be a key.
///
/// # Errors
/// Line and fault.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("line {}: {}", before.matches('\n').count() + 1, error.message())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_come_back_as_they_were_written_and_debug_shows_no_key() {
        let profile = Profile {
            url: Some("https://restante.example".to_owned()),
            api_key: Some("rst_live_canary".to_owned()),
            workspace: None,
        };
        let profiles =
            Profiles { profile: Some("prod".to_owned()), profiles: [("prod".to_owned(), profile)].into() };
        let text = toml::to_string(&profiles).unwrap();
        assert_eq!(
            text,
            "profile = \"prod\"\n\n[profiles.prod]\nurl = \"https://restante.example\"\napi_key = \"rst_live_canary\"\n"
        );
        assert_eq!(parse::<Profiles>(&text).unwrap(), profiles);
        assert!(!format!("{profiles:?}").contains("canary"));
    }

    #[test]
    fn a_fault_is_told_by_line_without_what_stands_there() {
        for text in
            ["\n[profiles.a]\napi_key = canary", "[profiles.a]\n\nkey = \"canary\"", "profile = [\"canary\"]"]
        {
            let fault = parse::<Profiles>(text).unwrap_err();
            assert!(fault.starts_with("line ") && !fault.contains("canary"), "{fault}");
        }
    }
}
