use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fmt, fs};

use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use super::budget::Budget;
use super::pools::{Maker, Pools};
use super::time::{Machine, Time};
use super::{Client, Options, Shared};
use crate::retry::MAX_RETRIES;

/// Where a server is when nothing says otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:8420";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupFault {
    /// There is none, or it is empty.
    #[error("there is no API key: set RESTANTE_API_KEY, or give one to the client")]
    NoKey,
    /// It can be in no header.
    #[error("an API key is printable ASCII without spaces, such as rst_live_…")]
    Key,
    /// It is no http or https URL, or has a user, a query or a fragment. It is not shown: what is given in its place by
    /// mistake may be a secret.
    #[error("what was given is not the URL of a server, such as https://restante.example: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// Whoever listens on the way would read the key.
    #[error("{url:?} would carry the API key in the clear: use https, or a server on this machine")]
    PlainHttp {
        /// As it was given.
        url: String,
    },
    /// It is empty, or can be in no header.
    #[error("this cannot be the id of a workspace")]
    Workspace,
    /// It cannot be read, or there is no certificate in it.
    #[error("{} is no file of PEM certificates", .path.display())]
    CertificateFile {
        /// As it was given.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The TLS library refuses.
    #[error("TLS cannot be set up")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A client that is being set up.
#[must_use = "`build` makes the client"]
pub struct ClientBuilder {
    url: String,
    key: String,
    workspace: Option<String>,
    options: Options,
    certificate_file: Option<PathBuf>,
    time: Option<Box<dyn Time>>,
}

/// Shows neither the key nor what stands in the URL's place.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// For the server at `url`, with an API key.
    pub fn new(url: &str, api_key: &str) -> Self {
        let options = Options { timeout: TIMEOUT, deadline: None, max_retries: MAX_RETRIES };
        Self {
            url: url.to_owned(),
            key: api_key.to_owned(),
            workspace: None,
            options,
            certificate_file: None,
            time: None,
        }
    }

    /// As the environment says: `RESTANTE_URL` (else `http://127.0.0.1:8420`), `RESTANTE_API_KEY`, and
    /// `RESTANTE_EXTRA_CA_FILE` as [`Self::certificate_file`].
    ///
    /// # Errors
    /// [`SetupFault::NoKey`]; [`SetupFault::Url`] and [`SetupFault::Key`] for what is not UTF-8.
    pub fn from_env() -> Result<Self, SetupFault> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let key = set("RESTANTE_API_KEY").ok_or(SetupFault::NoKey)?;
        let key = key.into_string().map_err(|_| SetupFault::Key)?;
        let url = set("RESTANTE_URL").unwrap_or_else(|| URL_DEFAULT.into());
        let not_text = |_| SetupFault::Url { reason: "RESTANTE_URL is not UTF-8".to_owned() };
        let builder = Self::new(&url.into_string().map_err(not_text)?, &key);
        Ok(match set("RESTANTE_EXTRA_CA_FILE") {
            Some(path) => builder.certificate_file(PathBuf::from(path)),
            None => builder,
        })
    }

    /// The time one try may take; each has it anew. Default 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// The time a whole call may take, waits and all. Default: no limit.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// Most tries after the first, for failures that may pass. Default 2; 0: none.
    pub fn max_retries(mut self, max_retries: u32) -> Self {
        self.options.max_retries = max_retries;
        self
    }

    /// The workspace to act in. Only keys with the scope `admin` may choose; others act in their own.
    pub fn workspace(mut self, id: &str) -> Self {
        self.workspace = Some(id.to_owned());
        self
    }

    /// A file of PEM certificates to trust besides the public ones: for a server with a certificate of one's own.
    pub fn certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificate_file = Some(path.into());
        self
    }

    /// Runs by another clock.
    #[cfg(test)]
    pub(super) fn time(mut self, time: impl Time + 'static) -> Self {
        self.time = Some(Box::new(time));
        self
    }

    /// The client. It connects when the first call is made.
    ///
    /// # Errors
    /// [`SetupFault`]: something given cannot be used.
    pub fn build(self) -> Result<Client, SetupFault> {
        let (base, plain) = base(&self.url)?;
        let key = self.key;
        if key.is_empty() {
            return Err(SetupFault::NoKey);
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SetupFault::Key);
        }
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| SetupFault::Key)?;
        authorization.set_sensitive(true);
        let maker = Maker { tls: tls(self.certificate_file)?, plain };
        let pools = Pools::new(maker).map_err(|error| SetupFault::Tls(error.into()))?;
        let time = self.time.unwrap_or_else(|| Box::new(Machine::new()));
        let shared =
            Shared { pools, base, authorization, options: self.options, budget: Budget::full(), time };
        let client = Client { shared: Arc::new(shared), workspace: None };
        match self.workspace {
            Some(id) => client.in_workspace(&id),
            None => Ok(client),
        }
    }

    /// The client for threads. It connects when the first call is made.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_blocking(self) -> Result<crate::blocking::Client, SetupFault> {
        self.build().map(|client| client.blocking())
    }
}

/// A server's URL as calls begin, and whether it is plain HTTP to this machine.
fn base(text: &str) -> Result<(Url, bool), SetupFault> {
    let not_one = |reason: &str| SetupFault::Url { reason: reason.to_owned() };
    let mut url = Url::parse(text).map_err(|error| not_one(&error.to_string()))?;
    let plain = url.scheme() == "http";
    if !plain && url.scheme() != "https" {
        return Err(not_one("it must begin with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(not_one("it has a user or a password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(not_one("it has a query or a fragment"));
    }
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => return Err(not_one("it has no host")),
    };
    if plain && !here {
        return Err(SetupFault::PlainHttp { url: text.to_owned() });
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok((url, plain))
}

fn tls(certificate_file: Option<PathBuf>) -> Result<ClientConfig, SetupFault> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = certificate_file {
        let refuse = |source| SetupFault::CertificateFile { path: path.clone(), source };
        let pem = fs::read(&path).map_err(|error| refuse(error.into()))?;
        let mut found = false;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| refuse(error.to_string().into()))?;
            roots.add(certificate).map_err(|error| refuse(error.into()))?;
            found = true;
        }
        if !found {
            return Err(refuse("there is no certificate in it".into()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config
        .map_err(|error| SetupFault::Tls(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_url_is_https_or_this_machine() {
        let table = [
            ("https://restante.example", Some("https://restante.example/")),
            ("https://restante.example/", Some("https://restante.example/")),
            ("HTTPS://Restante.Example:8443/mail/", Some("https://restante.example:8443/mail")),
            ("http://127.0.0.1:8420", Some("http://127.0.0.1:8420/")),
            ("http://127.9.9.9", Some("http://127.9.9.9/")),
            ("http://localhost:8420/", Some("http://localhost:8420/")),
            ("http://[::1]:8420", Some("http://[::1]:8420/")),
            ("http://restante.example", None),
            ("http://10.0.0.1", None),
            ("http://127.0.0.1.evil.example", None),
            ("http://localhost.evil.example", None),
            ("http://0.0.0.0:8420", None),
            ("http://[::ffff:127.0.0.1]", None),
            ("ftp://127.0.0.1", None),
            ("https://user@restante.example", None),
            ("https://:secret@restante.example", None),
            ("https://restante.example/?a=b", None),
            ("https://restante.example/#a", None),
            ("restante.example", None),
            ("127.0.0.1:8420", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(base(text).ok().map(|(base, _)| base.to_string()).as_deref(), expected, "{text}");
        }
        assert!(matches!(base("http://10.0.0.1"), Err(SetupFault::PlainHttp { .. })));
    }

    #[test]
    fn what_is_given_in_the_place_of_a_url_is_not_shown() {
        for text in [
            "https://user:canary@restante.example",
            "https://user:canary@restante.example:999999",
            "https://restante.example/?token=canary",
            // The arguments the wrong way round.
            "rst_live_canary",
            "rst:canary",
        ] {
            let builder = ClientBuilder::new(text, "k");
            let shown = format!("{builder:?} {:?}", base(text).unwrap_err());
            let told = builder.build().unwrap_err().to_string();
            assert!(!shown.contains("canary") && !told.contains("canary"), "{shown} {told}");
        }
    }

    #[test]
    fn a_key_is_a_header_value_and_is_never_shown() {
        let build = |key| ClientBuilder::new(URL_DEFAULT, key).build();
        assert!(matches!(build(""), Err(SetupFault::NoKey)));
        for key in ["rst live", "rst_live_\n", "rst_live_é"] {
            assert!(matches!(build(key), Err(SetupFault::Key)), "{key}");
        }
        let client = build("rst_live_canary").unwrap();
        let shown = format!("{client:?} {:?}", ClientBuilder::new(URL_DEFAULT, "rst_live_canary"));
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let missing =
            ClientBuilder::new("https://a.example", "k").certificate_file("/nowhere/ca.pem").build();
        assert_eq!(missing.unwrap_err().to_string(), "/nowhere/ca.pem is no file of PEM certificates");
    }
}
