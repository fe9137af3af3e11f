//! Talking to people: data on standard output, everything else on standard error.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Writes a line of data.
///
/// # Errors
/// Whoever reads standard output is gone.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Writes a line for people, in place of the one before where that is unfinished business.
pub(crate) fn progress(text: &str, finished: bool) {
    let mut talk = std::io::stderr().lock();
    // Standard error gone: there is nobody left to tell.
    let _ = match (talk.is_terminal(), finished) {
        (true, false) => write!(talk, "\r\x1b[K{text}"),
        (true, true) => writeln!(talk, "\r\x1b[K{text}"),
        (false, false) => Ok(()),
        (false, true) => writeln!(talk, "{text}"),
    };
}

/// Says what went wrong, and what to do about it if an error in the chain is a [`Hint`].
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    let mut talk = std::io::stderr().lock();
    let chain: Vec<String> = error
        .chain()
        .filter(|cause| cause.downcast_ref::<Hint>().is_none())
        .map(ToString::to_string)
        .collect();
    // Standard error gone: there is nobody left to tell.
    let _ = writeln!(talk, "error: {}", chain.join(": "));
    if let Some(hint) = error.chain().find_map(|cause| cause.downcast_ref::<Hint>()) {
        let _ = writeln!(talk, "hint: {}", hint.text);
    }
    let code = error.chain().find_map(|cause| cause.downcast_ref::<Hint>()).map_or(1, |hint| hint.code);
    ExitCode::from(code)
}

/// The last link of an error's chain: what to do, and the exit code.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) text: String,
    pub(crate) code: u8,
}

/// An error with a hint.
pub(crate) fn hinted(what: impl std::fmt::Display, hint: &str, code: u8) -> anyhow::Error {
    anyhow::Error::new(Hint { text: hint.to_owned(), code }).context(what.to_string())
}

impl std::fmt::Display for Hint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Hint {}

/// Whether standard output may carry colour: a terminal, and nobody said no.
pub(crate) fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
