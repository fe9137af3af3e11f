//! Requests to wherever one likes, as any sender of webhooks makes them: no key, no retries, no redirects.

use std::time::Duration;

use anyhow::Context;
use reqwest::header::{HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, Url};
use restante_server::channel::http::client_config;
use restante_server::clock::{Clock, SystemClock};
use serde_json::Value;

use crate::connection::certificate_file;
use crate::exit;
use crate::output::{self, hinted};
use crate::show::Show;
use crate::table::harmless;
use crate::times::took;

/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Of an answer that is no JSON so much is shown.
const SHOWN_CHARS: usize = 300;

/// A request to be made.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) url: String,
    /// Their names as they are; a later one of the same name is sent too.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// What it was answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) took_ms: u64,
}

impl Outgoing {
    /// Makes the request.
    ///
    /// # Errors
    /// It cannot be made, or no answer came.
    pub(crate) fn send(self) -> anyhow::Result<Answer> {
        let request = self.request()?;
        let tls = client_config(certificate_file().as_deref())
            .map_err(|fault| hinted(fault, "RESTANTE_EXTRA_CA_FILE must name a PEM file", exit::USAGE))?;
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .timeout(TIMEOUT);
        if request.url().scheme() == "http" {
            http = http.no_proxy();
        }
        let http = http.build().context("cannot set up a client")?;
        let clock = SystemClock::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shown = request.url().to_string();
        let answered = runtime.block_on(async {
            let response = http.execute(request).await?;
            Ok::<_, reqwest::Error>((response.status().as_u16(), response.bytes().await?))
        });
        let (status, body) = answered.map_err(|error| {
            let error = error.without_url();
            let mut cause: &dyn std::error::Error = &error;
            while let Some(inner) = cause.source() {
                cause = inner;
            }
            let hint = "is the server running, and is the URL right? restante doctor tells";
            hinted(format!("no answer from {shown}: {cause}"), hint, exit::NETWORK)
        })?;
        let took_ms = u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned(), took_ms })
    }

    fn request(self) -> anyhow::Result<reqwest::Request> {
        let method = Method::from_bytes(self.method.as_bytes());
        let method = method.map_err(|_| hinted("this is no method", "--method POST", exit::USAGE))?;
        let url = Url::parse(&self.url).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        let url = url.ok_or_else(|| {
            hinted(format!("{:?} is no URL", self.url), "it looks like https://example.com/hook", exit::USAGE)
        })?;
        let mut request = reqwest::Request::new(method, url);
        let own = HeaderValue::from_static(concat!("Restante/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, own);
        let mut given: Vec<HeaderName> = Vec::new();
        for (name, value) in self.headers {
            let parsed = HeaderName::try_from(&name).ok().zip(HeaderValue::try_from(&value).ok());
            let Some((name, value)) = parsed else {
                return Err(hinted(format!("{name:?} is no header"), "-H 'Name: value'", exit::USAGE));
            };
            // A header given once takes the place of ours; given again it is sent again.
            match given.contains(&name) {
                true => _ = request.headers_mut().append(&name, value),
                false => _ = request.headers_mut().insert(&name, value),
            }
            given.push(name);
        }
        *request.body_mut() = Some(self.body.into());
        Ok(request)
    }
}

impl Answer {
    /// Shows it: the answer's JSON for programs, the id for scripts, a line for people. A refusal is an error.
    ///
    /// # Errors
    /// It was refused, or whoever reads is gone.
    pub(crate) fn show(&self, show: &Show) -> anyhow::Result<()> {
        let id = serde_json::from_str::<Value>(&self.body).ok();
        let id = id.as_ref().and_then(|json| json.get("id")).and_then(Value::as_str);
        if !(200..300).contains(&self.status) {
            return Err(self.refused());
        }
        match (show.flags.json, show.flags.quiet, id) {
            (true, _, Some(_)) => output::line(self.body.trim_end()),
            (true, _, None) => show.json(&serde_json::json!({"status": self.status, "body": self.body})),
            (false, true, id) => id.map_or(Ok(()), output::line),
            (false, false, Some(id)) => {
                output::line(&format!("{} {} after {}", self.status, harmless(id), took(self.took_ms)))?;
                if id.starts_with("req_") {
                    show.say(&format!("restante requests get {} shows what becomes of it", harmless(id)));
                }
                Ok(())
            }
            (false, false, None) => {
                let body: String = harmless(self.body.trim()).chars().take(SHOWN_CHARS).collect();
                output::line(format!("{} after {}  {body}", self.status, took(self.took_ms)).trim_end())
            }
        }
    }

    fn refused(&self) -> anyhow::Error {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let told = body.pointer("/error/message").and_then(Value::as_str).unwrap_or(self.body.trim());
        let told: String = harmless(told).chars().take(SHOWN_CHARS).collect();
        let (hint, code) = match self.status {
            401 | 403 => ("does the receiver know the secret that signs? --secret sets it", exit::AUTH),
            402 => ("restante credits shows what they were used for", exit::RUNTIME),
            404 => ("restante sources list shows the URLs there are", exit::NOT_FOUND),
            409 => ("restante sources list shows the URLs there are", exit::CONFLICT),
            413 => ("RESTANTE_INTAKE_BODY_BYTES is the most that a server takes", exit::USAGE),
            _ => ("the receiver's log says more", exit::RUNTIME),
        };
        match told.is_empty() {
            true => hinted(format!("refused with {}", self.status), hint, code),
            false => hinted(format!("refused with {}: {told}", self.status), hint, code),
        }
    }
}
