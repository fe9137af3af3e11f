//! Which setting wins: flag, environment, project file, profile in use, default.
//!
//! A profile that is named somewhere ranks right behind what is said there: `--profile` wins over the environment.

use std::fmt;

use serde::Deserialize;

use super::{PROJECT_TABLE, Profiles};

/// Where a server is when nothing says otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:8420";

/// What one place says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    pub(crate) url: Option<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) workspace: Option<String>,
    pub(crate) profile: Option<String>,
}

/// Where a setting is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment,
    Project,
    Profile(String),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("the command line"),
            Self::Environment => f.write_str("the environment"),
            Self::Project => f.write_str("restante.toml"),
            Self::Profile(name) => write!(f, "the profile {name}"),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// A setting that won, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// The settings that won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) url: Value,
    pub(crate) api_key: Option<Value>,
    pub(crate) workspace: Option<Value>,
    /// Whose name was given, and where.
    pub(crate) profile: Option<Value>,
}

/// Settings that do not fit together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("there is no profile {name:?}, which {origin} names")]
    NoProfile { name: String, origin: Origin },
    /// Whoever wrote the working directory's file would be sent somebody's key.
    #[error(
        "restante.toml names the server {url}, and the key is the profile {profile}'s, which is for another"
    )]
    KeyOfAnother { url: String, profile: String },
}

/// Puts the layers on top of each other.
///
/// # Errors
/// [`Fault`].
pub(crate) fn settle(
    flags: &Layer,
    environment: &Layer,
    project: &Layer,
    profiles: &Profiles,
) -> Result<Settled, Fault> {
    let in_use = Layer { profile: profiles.profile.clone(), ..Layer::default() };
    let places = [
        (Origin::Flag, flags),
        (Origin::Environment, environment),
        (Origin::Project, project),
        (Origin::Profile(profiles.profile.clone().unwrap_or_default()), &in_use),
    ];
    let naming = places.iter().find(|(_, layer)| layer.profile.is_some());
    let profile = naming
        .and_then(|(origin, layer)| Some(Value { text: layer.profile.clone()?, origin: origin.clone() }));
    let mut ranked: Vec<(Origin, Layer)> = Vec::new();
    for (origin, layer) in &places {
        ranked.push((origin.clone(), Layer { profile: None, ..(*layer).clone() }));
        let Some(named) = profile.as_ref().filter(|named| named.origin == *origin) else { continue };
        let Some(found) = profiles.profiles.get(&named.text) else {
            return Err(Fault::NoProfile { name: named.text.clone(), origin: origin.clone() });
        };
        ranked.push((Origin::Profile(named.text.clone()), found.layer()));
    }
    let first = |of: fn(&Layer) -> &Option<String>| {
        let found = ranked.iter().find_map(|(origin, layer)| Some((of(layer).clone()?, origin.clone())));
        found.map(|(text, origin)| Value { text, origin })
    };
    let url = first(|layer| &layer.url);
    let url = url.unwrap_or_else(|| Value { text: URL_DEFAULT.to_owned(), origin: Origin::Default });
    let api_key = first(|layer| &layer.api_key);
    check_key(&url, api_key.as_ref(), profiles)?;
    Ok(Settled { url, api_key, workspace: first(|layer| &layer.workspace), profile })
}

/// A profile's key goes to the profile's server, or to one that its owner names; not to one that a file of the working
/// directory names, which may be somebody else's.
fn check_key(url: &Value, key: Option<&Value>, profiles: &Profiles) -> Result<(), Fault> {
    let (Origin::Project, Some(Value { origin: Origin::Profile(name), .. })) = (&url.origin, key) else {
        return Ok(());
    };
    let own = profiles.profiles.get(name).and_then(|profile| profile.url.as_deref()).unwrap_or(URL_DEFAULT);
    if own.trim_end_matches('/') == url.text.trim_end_matches('/') {
        return Ok(());
    }
    Err(Fault::KeyOfAnother { url: url.text.clone(), profile: name.clone() })
}

/// The table for clients in a project's file. The rest is for a server, which reads it itself.
///
/// # Errors
/// Line and fault, without what stands there: it may be a key.
pub(crate) fn project(text: &str) -> Result<Layer, String> {
    let mut table = super::user::parse::<toml::Table>(text)?;
    match table.remove(PROJECT_TABLE) {
        None => Ok(Layer::default()),
        Some(client) => client
            .try_into()
            .map_err(|error: toml::de::Error| format!("[{PROJECT_TABLE}]: {}", error.message())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    fn layer(url: &str, api_key: &str, profile: &str) -> Layer {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Layer { url: some(url), api_key: some(api_key), workspace: None, profile: some(profile) }
    }

    fn profiles(in_use: Option<&str>) -> Profiles {
        let profile = |name: &str| {
            let profile = Profile {
                url: Some(format!("https://{name}.example")),
                api_key: Some(format!("key-of-{name}")),
                workspace: None,
            };
            (name.to_owned(), profile)
        };
        Profiles { profile: in_use.map(str::to_owned), profiles: [profile("a"), profile("b")].into() }
    }

    fn shown(value: Option<&Value>) -> String {
        value.map_or_else(|| "-".to_owned(), |value| format!("{} ({})", value.text, value.origin))
    }

    #[test]
    fn the_nearest_place_wins() {
        let none = Layer::default();
        let flag = layer("https://flag", "key-of-flag", "");
        let environment = layer("https://env", "key-of-env", "");
        let project = layer("https://project", "key-of-project", "");
        let table = [
            (
                (&flag, &environment, &project, Some("a")),
                "https://flag (the command line)",
                "key-of-flag (the command line)",
            ),
            (
                (&none, &environment, &project, Some("a")),
                "https://env (the environment)",
                "key-of-env (the environment)",
            ),
            (
                (&none, &none, &project, Some("a")),
                "https://project (restante.toml)",
                "key-of-project (restante.toml)",
            ),
            (
                (&none, &none, &none, Some("a")),
                "https://a.example (the profile a)",
                "key-of-a (the profile a)",
            ),
            ((&none, &none, &none, None), "http://127.0.0.1:8420 (the default)", "-"),
            // A profile ranks behind the place that names it.
            (
                (&layer("", "", "b"), &environment, &project, Some("a")),
                "https://b.example (the profile b)",
                "key-of-b (the profile b)",
            ),
            (
                (&layer("https://flag", "", "b"), &environment, &project, Some("a")),
                "https://flag (the command line)",
                "key-of-b (the profile b)",
            ),
            (
                (&none, &layer("", "key-of-env", "b"), &project, None),
                "https://b.example (the profile b)",
                "key-of-env (the environment)",
            ),
            (
                (&none, &none, &layer("", "", "b"), Some("a")),
                "https://b.example (the profile b)",
                "key-of-b (the profile b)",
            ),
        ];
        for ((flags, environment, project, in_use), url, key) in table {
            let settled = settle(flags, environment, project, &profiles(in_use)).unwrap();
            assert_eq!(
                (shown(Some(&settled.url)).as_str(), shown(settled.api_key.as_ref()).as_str()),
                (url, key)
            );
        }
    }

    #[test]
    fn a_projects_file_cannot_send_a_profiles_key_to_another_server() {
        let none = Layer::default();
        let stranger = layer("https://stranger.example", "", "");
        let refused = settle(&none, &none, &stranger, &profiles(Some("a")));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "restante.toml names the server https://stranger.example, and the key is the profile a's, which is for another"
        );
        let own = layer("https://a.example/", "", "");
        assert!(settle(&none, &none, &own, &profiles(Some("a"))).is_ok());
        // Who says it himself may.
        assert!(settle(&stranger, &none, &none, &profiles(Some("a"))).is_ok());
        assert!(settle(&none, &none, &layer("https://stranger.example", "", "a"), &profiles(None)).is_err());
    }

    #[test]
    fn a_profile_that_is_not_there_is_told_with_the_place_that_names_it() {
        let none = Layer::default();
        let fault = settle(&none, &layer("", "", "c"), &none, &profiles(Some("a"))).unwrap_err();
        assert_eq!(fault.to_string(), "there is no profile \"c\", which the environment names");
    }

    #[test]
    fn a_projects_file_has_a_table_for_clients() {
        assert_eq!(project("listen = \"127.0.0.1:1\"\n").unwrap(), Layer::default());
        let text = "log = \"warn\"\n[client]\nurl = \"https://a\"\nprofile = \"b\"\n";
        assert_eq!(project(text).unwrap(), layer("https://a", "", "b"));
        for (text, expected) in [
            ("[client]\ntoken = \"canary\"", "[client]: unknown field `token`"),
            ("\napi_key = \"canary", "line 2: "),
        ] {
            let fault = project(text).unwrap_err();
            assert!(fault.contains(expected) && !fault.contains("canary"), "{fault}");
        }
    }
}
