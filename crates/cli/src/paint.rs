//! Colour: for the eye only, words say the same.

use std::io::IsTerminal;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

/// What a text is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    /// Not over, or not as it should be.
    Busy,
    Dim,
}

impl Tone {
    /// That of a word of the API.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "delivered" | "active" | "verified" | "sent" | "done" | "published" | "live" | "ok" => Self::Good,
            "failed" | "bounced" | "rejected" | "revoked" | "fail" => Self::Bad,
            "pending" | "sending" | "degraded" | "paused" | "partial" | "queued" | "scheduled"
            | "running" | "uncertain" | "warn" => Self::Busy,
            "cancelled" | "skipped" | "none" | "ended" | "draft" | "suppressed" | "test" => Self::Dim,
            _ => Self::Plain,
        }
    }
}

/// Whether tones become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    colours: bool,
}

impl Paint {
    /// As the flag, NO_COLOR and standard output say.
    pub(crate) fn chosen(when: When) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: decide(when, no_color, std::io::stdout().is_terminal()) }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colours: false }
    }

    #[cfg(test)]
    pub(crate) fn colours() -> Self {
        Self { colours: true }
    }

    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.colours || text.is_empty() => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Busy => "33",
            Tone::Dim => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    pub(crate) fn bold(self, text: &str) -> String {
        if self.colours { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// The flag wins over NO_COLOR, which wins over the terminal.
fn decide(when: When, no_color: bool, terminal: bool) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => terminal && !no_color,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_no_color_and_that_over_the_terminal() {
        let table = [
            (When::Auto, false, true, true),
            (When::Auto, true, true, false),
            (When::Auto, false, false, false),
            (When::Always, true, false, true),
            (When::Never, false, true, false),
        ];
        for (when, no_color, terminal, expected) in table {
            assert_eq!(decide(when, no_color, terminal), expected, "{when:?} {no_color} {terminal}");
        }
    }
}
