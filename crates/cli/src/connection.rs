//! Which server is called, with which key: settings from everywhere, and the client they make.

mod settle;
mod user;

use std::path::PathBuf;
use std::time::Duration;

use restante_sdk::ClientBuilder;
use restante_sdk::blocking::Client;
use restante_sdk::client::SetupFault;

use crate::exit;
use crate::nearest::nearest;
use crate::output::hinted;

pub(crate) use settle::{Layer, Origin, Settled, Value};
pub(crate) use user::{Profile, Profiles};

use settle::Fault;

/// Settings of a client, in the environment. Those of a server have other names.
pub(crate) const VARIABLES: [&str; 4] =
    ["RESTANTE_URL", "RESTANTE_API_KEY", "RESTANTE_WORKSPACE", "RESTANTE_PROFILE"];
/// The settings file of the working directory; a client reads its table `client`.
const PROJECT_FILE: &str = "restante.toml";
/// That table.
pub(crate) const PROJECT_TABLE: &str = "client";

/// Which server and key to use.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Flags {
    /// The server's URL [env: RESTANTE_URL] [default: http://127.0.0.1:8420]
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection")]
    pub(crate) server: Option<String>,
    /// The API key; in the environment or a profile it is seen by fewer [env: RESTANTE_API_KEY]
    #[arg(long, global = true, value_name = "KEY", help_heading = "Connection")]
    pub(crate) api_key: Option<String>,
    /// The workspace to act in, for keys with the scope admin [env: RESTANTE_WORKSPACE]
    #[arg(long, global = true, value_name = "ID", help_heading = "Connection")]
    pub(crate) workspace: Option<String>,
    /// The profile to use; `restante profiles` keeps them [env: RESTANTE_PROFILE]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Connection")]
    pub(crate) profile: Option<String>,
}

impl Flags {
    /// What is set, wherever it is.
    ///
    /// # Errors
    /// A file that cannot be read, a profile that does not exist, a key that must not go where the project says.
    pub(crate) fn settled(&self) -> anyhow::Result<Settled> {
        let flags = Layer {
            url: self.server.clone(),
            api_key: self.api_key.clone(),
            workspace: self.workspace.clone(),
            profile: self.profile.clone(),
        };
        let (environment, project, profiles) = (environment(), project()?, Profiles::read()?);
        settle::settle(&flags, &environment, &project, &profiles).map_err(|fault| {
            let hint = match &fault {
                Fault::NoProfile { name, .. } => {
                    let known = profiles.profiles.keys().map(String::as_str);
                    match nearest(name, known) {
                        Some(nearest) => format!("did you mean {nearest}?"),
                        None => "restante profiles list shows those there are".to_owned(),
                    }
                }
                Fault::KeyOfAnother { .. } => {
                    "name a key for it in RESTANTE_API_KEY or --api-key, or a profile for \
                    it in restante.toml, below [client]: profile = \"NAME\""
                        .to_owned()
                }
            };
            hinted(fault, &hint, exit::USAGE)
        })
    }
}

impl Settled {
    /// The client that these settings make.
    ///
    /// # Errors
    /// There is no key, or something cannot be used.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.build(None)
    }

    /// One that asks once and does not wait long.
    ///
    /// # Errors
    /// As [`Self::client`].
    pub(crate) fn impatient_client(&self, timeout: Duration) -> anyhow::Result<Client> {
        self.build(Some(timeout))
    }

    /// The same client, for tasks.
    ///
    /// # Errors
    /// As [`Self::client`].
    pub(crate) fn client_for_tasks(&self) -> anyhow::Result<restante_sdk::Client> {
        self.builder().build().map_err(|fault| self.refused(&fault))
    }

    fn build(&self, timeout: Option<Duration>) -> anyhow::Result<Client> {
        let mut builder = self.builder();
        if let Some(timeout) = timeout {
            builder = builder.timeout(timeout).max_retries(0);
        }
        builder.build_blocking().map_err(|fault| self.refused(&fault))
    }

    fn builder(&self) -> ClientBuilder {
        let key = self.api_key.as_ref().map(|key| key.text.as_str()).unwrap_or_default();
        let mut builder = ClientBuilder::new(&self.url.text, key);
        if let Some(workspace) = &self.workspace {
            builder = builder.workspace(&workspace.text);
        }
        if let Some(path) = certificate_file() {
            builder = builder.certificate_file(path);
        }
        builder
    }

    fn refused(&self, fault: &SetupFault) -> anyhow::Error {
        let from = &self.url.origin;
        #[expect(clippy::wildcard_enum_match_arm, reason = "of most faults there is nothing more to say")]
        match fault {
            SetupFault::NoKey => hinted(
                "there is no API key",
                "set RESTANTE_API_KEY, or keep one: restante profiles set NAME --api-key -; a server prints its first \
                 key when it first starts",
                exit::AUTH,
            ),
            SetupFault::Url { .. } | SetupFault::PlainHttp { .. } => hinted(
                fault,
                &format!("the URL is from {from}; --server or RESTANTE_URL sets another"),
                exit::USAGE,
            ),
            SetupFault::CertificateFile { .. } => {
                hinted(fault, "RESTANTE_EXTRA_CA_FILE must name a PEM file", exit::USAGE)
            }
            _ => hinted(fault, "restante doctor shows which settings are used", exit::USAGE),
        }
    }
}

/// Roots to trust besides the public ones.
pub(crate) fn certificate_file() -> Option<PathBuf> {
    std::env::var_os("RESTANTE_EXTRA_CA_FILE").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn environment() -> Layer {
    let [url, api_key, workspace, profile] =
        VARIABLES.map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    Layer { url, api_key, workspace, profile }
}

/// What the working directory's settings file says for clients.
fn project() -> anyhow::Result<Layer> {
    let text = match std::fs::read_to_string(PROJECT_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Layer::default()),
        Err(error) => {
            let what = format!("cannot read {PROJECT_FILE}: {error}");
            return Err(hinted(what, "it must be readable, or not be there", exit::USAGE));
        }
    };
    settle::project(&text).map_err(|fault| {
        let hint = "clients read the table [client], with url, api_key, workspace and profile";
        hinted(format!("{PROJECT_FILE}, {fault}"), hint, exit::USAGE)
    })
}
