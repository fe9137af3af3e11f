//! What is given on the command line, in a file or on standard input.

use std::io::Read;

use restante_sdk::wire::Json;

use crate::exit;
use crate::output::hinted;

/// The bytes of `@file`, of `-` (standard input), or of the text itself.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn bytes(given: &str) -> anyhow::Result<Vec<u8>> {
    let read = match (given, given.strip_prefix('@')) {
        ("-", _) => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        }
        (_, Some(path)) => std::fs::read(path),
        (_, None) => Ok(given.as_bytes().to_owned()),
    };
    read.map_err(|error| {
        let hint = "@FILE reads a file, - standard input; anything else is taken as it stands";
        hinted(format!("cannot read {given}: {error}"), hint, exit::USAGE)
    })
}

/// As [`bytes`], a text.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub(crate) fn text(given: &str) -> anyhow::Result<String> {
    String::from_utf8(bytes(given)?)
        .map_err(|_| hinted(format!("{given} is not UTF-8"), "it must be a text", exit::USAGE))
}

/// As [`bytes`], JSON, kept as it is written.
///
/// # Errors
/// It cannot be read, or is not JSON.
pub(crate) fn json(flag: &str, given: &str) -> anyhow::Result<Json> {
    Json::parse(text(given)?).map_err(|fault| {
        let hint = format!("it looks like {flag} '{{\"id\":1}}', {flag} @file.json or {flag} -");
        hinted(format!("{flag} is not JSON: {fault}"), &hint, exit::USAGE)
    })
}

/// Reads `Name: value`.
///
/// # Errors
/// What it should look like.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header looks like 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Reads `name=value`.
///
/// # Errors
/// What it should look like.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it looks like name=value")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_a_text_or_a_file() {
        assert_eq!(bytes("{\"a\":1}").unwrap(), b"{\"a\":1}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"\xff\x00").unwrap();
        let given = format!("@{}", file.path().display());
        assert_eq!(bytes(&given).unwrap(), b"\xff\x00");
        assert!(text(&given).is_err());
        assert!(bytes("@/nowhere/at/all").is_err());
    }

    #[test]
    fn json_keeps_its_digits() {
        assert_eq!(json("--data", "{\"a\":1.10}").unwrap().as_str(), "{\"a\":1.10}");
        let fault = json("--data", "{").unwrap_err();
        assert!(format!("{fault:#}").starts_with("--data is not JSON: "), "{fault:#}");
    }

    #[test]
    fn headers_have_a_colon() {
        assert_eq!(header("X-Url: http://a").unwrap(), ("X-Url".to_owned(), "http://a".to_owned()));
        assert!(header("X-Url").is_err());
    }
}
