//! Asking before something that cannot be taken back.

use std::io::{BufRead, IsTerminal, Write};

use crate::exit;
use crate::output::{self, Ended, hinted};

/// Whether to ask.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Yes {
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// What becomes of it.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Go,
    Ask,
    Refuse,
}

impl Yes {
    /// Returns when it may be done.
    ///
    /// # Errors
    /// The answer is no, or there is nobody to ask.
    pub(crate) fn confirm(self, question: &str) -> anyhow::Result<()> {
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        match decide(self.yes, terminal) {
            Decision::Go => Ok(()),
            Decision::Refuse => Err(hinted(
                format!("not done: there is nobody to ask whether to {question}"),
                "--yes does it without asking",
                exit::USAGE,
            )),
            Decision::Ask => {
                // Standard error is a terminal.
                let _ = write!(std::io::stderr(), "{question}? [y/N] ");
                let mut answer = String::new();
                std::io::stdin().lock().read_line(&mut answer)?;
                if is_yes(&answer) {
                    return Ok(());
                }
                output::talk("nothing was done");
                Err(Ended { code: exit::RUNTIME }.into())
            }
        }
    }
}

fn decide(yes: bool, terminal: bool) -> Decision {
    match (yes, terminal) {
        (true, _) => Decision::Go,
        (false, true) => Decision::Ask,
        (false, false) => Decision::Refuse,
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_only_yes_goes() {
        let table = [
            (true, true, Decision::Go),
            (true, false, Decision::Go),
            (false, true, Decision::Ask),
            (false, false, Decision::Refuse),
        ];
        for (yes, terminal, expected) in table {
            assert_eq!(decide(yes, terminal), expected);
        }
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        for answer in ["y\n", "Y", "yes\n", " YES \n"] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n", "no", "yess", "j"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }
}
