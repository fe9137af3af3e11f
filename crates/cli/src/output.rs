//! Talking to people: data on standard output, everything else on standard error.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use crate::exit;
use crate::failure::{self, Told};

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

/// Whether standard error is a terminal.
pub(crate) fn is_talk_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Writes bytes of data as they are.
///
/// # Errors
/// Whoever reads standard output is gone.
pub(crate) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Writes a line that is no data.
pub(crate) fn talk(text: &str) {
    // Standard error gone: there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether whoever reads has had enough, as in `restante requests list | head`.
pub(crate) fn is_read_no_more(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    // A connection that breaks is another matter.
    let is_call = error.chain().any(|cause| cause.downcast_ref::<restante_sdk::Error>().is_some());
    !is_call && causes.any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Says what went wrong, and what to do about it if an error in the chain is a [`Hint`] or a call's failure.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    if let Some(Ended { code }) = error.downcast_ref::<Ended>() {
        return ExitCode::from(*code);
    }
    if let Some(call) = error.chain().find_map(|cause| cause.downcast_ref::<restante_sdk::Error>()) {
        let Told { line, hint, code } = failure::told(call);
        talk(&format!("error: {line}\nhint: {hint}"));
        return ExitCode::from(code);
    }
    let chain: Vec<String> = error
        .chain()
        .filter(|cause| cause.downcast_ref::<Hint>().is_none())
        .map(ToString::to_string)
        .collect();
    talk(&format!("error: {}", chain.join(": ")));
    let hint = error.chain().find_map(|cause| cause.downcast_ref::<Hint>());
    if let Some(hint) = hint {
        talk(&format!("hint: {}", hint.text));
    }
    ExitCode::from(hint.map_or(exit::RUNTIME, |hint| hint.code))
}

/// An end about which all is said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: u8,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ended with {}", self.code)
    }
}

impl std::error::Error for Ended {}

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
