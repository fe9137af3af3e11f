//! The pages' files, compiled in, and the policies they are shown under.
//!
//! All lie below one path that names their content, so that browsers keep them for good and never mix two versions.

use std::sync::LazyLock;

use axum::extract::RawPathParams;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::api::error::ApiError;

/// Path below `assets/` and content of every file, in the order of their paths.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The policy of pages: their own scripts, styles and calls, nothing inline, nothing of others. Whatever a stored message
/// holds, it does not execute.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The policy of the frame that shows other people's HTML: it is of no origin, its one script puts what it is given into
/// a frame within that may run none, and nothing is fetched, sent or followed.
const FRAME_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";
/// What stands in `index.html` for the path of all files, and for the tags that fetch scripts ahead.
const ASSETS_MARK: &str = "{{assets}}";
const PRELOAD_MARK: &str = "{{preload}}";

const NOSNIFF: (HeaderName, HeaderValue) =
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));

/// Names the content of all files.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for (path, content) in FILES {
        digest.update(path.len().to_be_bytes());
        digest.update(path);
        digest.update(content.len().to_be_bytes());
        digest.update(content);
    }
    HEXLOWER.encode(&digest.finalize()[..8])
});

static PAGE: LazyLock<String> = LazyLock::new(|| document("index.html"));
static FRAME: LazyLock<String> = LazyLock::new(|| document("frame.html"));

fn file(path: &str) -> Option<&'static [u8]> {
    FILES.binary_search_by_key(&path, |(path, _)| path).ok().map(|index| FILES[index].1)
}

/// A document with its marks replaced.
fn document(name: &str) -> String {
    let assets = format!("/assets/{}", *VERSION);
    let scripts = FILES.iter().filter(|(path, _)| path.ends_with(".js") && *path != "frame.js");
    let preload: String =
        scripts.map(|(path, _)| format!("<link rel=\"modulepreload\" href=\"{assets}/{path}\">\n")).collect();
    let text = String::from_utf8_lossy(file(name).unwrap_or_default());
    text.replace(PRELOAD_MARK, preload.trim_end()).replace(ASSETS_MARK, &assets)
}

/// Every page: the same document, whose script looks at the path.
pub(super) async fn page(headers: HeaderMap) -> Response {
    let tag = format!("\"{}\"", *VERSION);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let own = [
        NOSNIFF,
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        (header::ETAG, HeaderValue::try_from(tag).expect("hexadecimal digits in quotes")),
    ];
    if known { (StatusCode::NOT_MODIFIED, own).into_response() } else { (own, PAGE.as_str()).into_response() }
}

/// The frame for HTML that is not ours.
pub(super) async fn frame() -> Response {
    let own = [
        NOSNIFF,
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(FRAME_POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (own, FRAME.as_str()).into_response()
}

/// A file of this version.
pub(super) async fn asset(params: RawPathParams) -> Result<Response, ApiError> {
    let mut params = params.iter().map(|(_, value)| value);
    let (version, path) = (params.next().unwrap_or_default(), params.next().unwrap_or_default());
    // A file of another version under this path would be kept for good.
    let content = file(path).filter(|_| version == *VERSION);
    let content = content.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "asset_not_found",
            "this version of the pages has no such file: reload",
        )
    })?;
    let own = [
        NOSNIFF,
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type(path))),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    Ok((own, content).into_response())
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("html") => "text/html; charset=utf-8",
        Some(_) | None => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files together.
    const BYTES_MAX: usize = 250_000;

    #[test]
    fn the_files_stay_small() {
        let bytes: usize = FILES.iter().map(|(_, content)| content.len()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes} bytes; at most {BYTES_MAX}");
    }

    #[test]
    fn documents_name_what_is_there_and_hold_no_script() {
        for (name, text) in [("index.html", &*PAGE), ("frame.html", &*FRAME)] {
            assert!(!text.is_empty() && !text.contains("{{"), "{name}: {text}");
            let prefix = format!("\"/assets/{}/", *VERSION);
            for rest in text.split(&prefix).skip(1) {
                let (path, _) = rest.split_once('"').unwrap();
                assert!(file(path).is_some(), "{name} names {path}");
            }
            assert!(text.split("<script").skip(1).all(|it| it.contains("src=") && it.contains("></script>")));
        }
    }

    #[test]
    fn files_of_another_kind_are_not_interpreted() {
        assert_eq!(content_type("a/b.js"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("a/b"), "application/octet-stream");
    }
}
