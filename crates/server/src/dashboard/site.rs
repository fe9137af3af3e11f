//! Which browsers' requests are our own pages': by the name they were sent to, and by the page that sent them.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, header};
use url::Url;

use crate::api::error::ApiError;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names under which pages are shown.
#[derive(Debug)]
pub(super) struct Site {
    /// In lower case.
    names: Vec<String>,
    /// The origin under which the world reaches the server, as browsers write it.
    origin: String,
}

impl Site {
    pub(super) fn new(public_url: &str, names: &[String]) -> Self {
        let url = Url::parse(public_url).ok();
        let own = url.as_ref().and_then(|url| Some(url.host_str()?.to_ascii_lowercase()));
        let names = names.iter().map(|name| name.to_ascii_lowercase());
        Self {
            names: own.into_iter().chain(names).collect(),
            origin: url.map(|url| url.origin().ascii_serialization()).unwrap_or_default(),
        }
    }

    /// # Errors
    /// 403: the request was sent to a name that is none of ours.
    ///
    /// An address is always ours: only a name can be made to point elsewhere after its page was loaded.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = text(headers, &header::HOST);
        let name = name_of(host).to_ascii_lowercase();
        if is_address(&name) || self.knows(&name) {
            return Ok(());
        }
        let message = format!(
            "the dashboard is not shown under the name {name:?}; RESTANTE_PUBLIC_URL and RESTANTE_DASHBOARD_HOSTS say under which it is"
        );
        Err(ApiError::forbidden("unknown_host", message))
    }

    /// # Errors
    /// 403: the request comes from the page of another site, or was sent to a name that is none of ours.
    ///
    /// Browsers say where a request comes from in `Origin`, except for plain reads, and in `Sec-Fetch-Site`.
    pub(super) fn check_sender(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        self.check_host(headers)?;
        let foreign =
            || ApiError::forbidden("foreign_origin", "sessions serve the pages of this server only");
        if !matches!(text(headers, &FETCH_SITE), "" | "same-origin" | "none") {
            return Err(foreign());
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let (_, authority) = origin.split_once("://").ok_or_else(foreign)?;
        // A proxy in front may have put its own name for us into Host.
        let same = authority.eq_ignore_ascii_case(text(headers, &header::HOST))
            || origin.eq_ignore_ascii_case(&self.origin)
            || self.knows(&name_of(authority).to_ascii_lowercase());
        if same { Ok(()) } else { Err(foreign()) }
    }

    fn knows(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name) || name == "localhost" || name.ends_with(".localhost")
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The host of `host:port`, without the port. IPv6 addresses keep their brackets.
fn name_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    }
}

fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn site() -> Site {
        Site::new("https://Hooks.example", &["ops.internal".to_owned()])
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn pages_are_shown_under_our_names_and_addresses_only() {
        let table = [
            ("hooks.example", true),
            ("HOOKS.example:8420", true),
            ("ops.internal", true),
            ("localhost:8420", true),
            ("app.localhost", true),
            ("127.0.0.1:8420", true),
            ("192.168.1.5", true),
            ("[::1]:8420", true),
            ("evil.example", false),
            ("hooks.example.evil.example", false),
            ("127.0.0.1.nip.io", false),
            ("localhost.evil.example", false),
            ("", false),
        ];
        for (host, shown) in table {
            assert_eq!(site().check_host(&headers(&[("host", host)])).is_ok(), shown, "{host}");
        }
    }

    #[test]
    fn sessions_serve_our_own_pages_only() {
        let table: [(&[(&str, &str)], bool); 12] = [
            (&[], true),
            (&[("origin", "https://hooks.example")], true),
            (&[("origin", "https://hooks.example"), ("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("origin", "null")], false),
            (&[("origin", "")], false),
            (&[("origin", "https://evil.example")], false),
            (&[("origin", "https://hooks.example:444")], true),
            (&[("origin", "https://hooks.example.evil.example")], false),
            (&[("origin", "https://hooks.example"), ("sec-fetch-site", "cross-site")], false),
        ];
        for (lines, fine) in table {
            let mut all = vec![("host", "hooks.example")];
            all.extend(lines);
            assert_eq!(site().check_sender(&headers(&all)).is_ok(), fine, "{lines:?}");
        }
        // A proxy in front that calls us by the name it knows.
        let behind = [("host", "127.0.0.1:8420"), ("origin", "https://hooks.example")];
        assert!(site().check_sender(&headers(&behind)).is_ok());
        // A page of another server on the same machine.
        let beside = [("host", "127.0.0.1:8420"), ("origin", "http://127.0.0.1:3000")];
        assert!(site().check_sender(&headers(&beside)).is_err());
    }
}
