//! What is said of a command line that cannot be read: one line, one hint.

use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit;
use crate::nearest::by_nearness;
use crate::output::{self, hinted};

/// Says it, or shows the help that was asked for; gives how it ends.
pub(crate) fn told(fault: &clap::Error, command: &Command) -> ExitCode {
    let helps = [
        ErrorKind::DisplayHelp,
        ErrorKind::DisplayVersion,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    if helps.contains(&fault.kind()) {
        fault.exit();
    }
    let given: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    output::failure(&hinted(line(fault), &hint(fault, command, &given), exit::USAGE))
}

/// The library's own words, without its usage and tips.
fn line(fault: &clap::Error) -> String {
    let text = fault.render().to_string();
    let words = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>().join(" ");
    words.strip_prefix("error: ").unwrap_or(&words).to_owned()
}

fn hint(fault: &clap::Error, command: &Command, given: &[String]) -> String {
    let near = [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    let nearest = near.into_iter().find_map(|(wrong, known)| {
        let wrong = texts(fault, wrong).into_iter().next().unwrap_or_default();
        let known = texts(fault, known);
        by_nearness(&wrong, known.iter().map(String::as_str)).first().map(|name| (*name).to_owned())
    });
    let command = path(command, given);
    match (nearest, fault.kind()) {
        (Some(nearest), _) => format!("did you mean {nearest}?"),
        (None, ErrorKind::MissingRequiredArgument) => usage(fault).unwrap_or(command),
        (None, ErrorKind::InvalidSubcommand) => format!("{command} --help shows the commands there are"),
        (None, _) => format!("{command} --help says what it takes"),
    }
}

fn texts(fault: &clap::Error, kind: ContextKind) -> Vec<String> {
    match fault.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// `restante sources get <SOURCE>`.
fn usage(fault: &clap::Error) -> Option<String> {
    let Some(ContextValue::StyledStr(usage)) = fault.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    usage.lines().next().map(|line| line.trim().to_owned())
}

/// The command that was being read, as far as its name is right: `restante sources`.
fn path(command: &Command, given: &[String]) -> String {
    let (mut at, mut path) = (command, command.get_name().to_owned());
    for word in given {
        let Some(next) = at.find_subcommand(word) else { break };
        path.push_str(&format!(" {}", next.get_name()));
        at = next;
    }
    path
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    fn said_of(words: &[&str]) -> (String, String) {
        let command = Args::command();
        let given: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let fault = command
            .clone()
            .try_get_matches_from([&["restante"], words].concat())
            .expect_err("it cannot be read");
        (line(&fault), hint(&fault, &command, &given))
    }

    #[test]
    fn each_wrong_line_has_one_hint() {
        let missing = "the following required arguments were not provided: <SOURCE>";
        let table: &[(&[&str], &str, &str)] = &[
            (&["soruces", "list"], "unrecognized subcommand 'soruces'", "did you mean sources?"),
            (&["sources", "lsit"], "unrecognized subcommand 'lsit'", "did you mean list?"),
            (
                &["sources", "xyzzy"],
                "unrecognized subcommand 'xyzzy'",
                "restante sources --help shows the commands there are",
            ),
            (&["sources", "get"], missing, "restante sources get <SOURCE>"),
            (
                &["requests", "list", "--sorce", "x"],
                "unexpected argument '--sorce' found",
                "did you mean --source?",
            ),
            (
                &["sources", "list", "--limit", "x"],
                "invalid value 'x' for '--limit <N>': invalid digit found in string",
                "restante sources list --help says what it takes",
            ),
            (
                &["profiles", "remove", "a", "b"],
                "unexpected argument 'b' found",
                "restante profiles remove --help says what it takes",
            ),
        ];
        for (words, line, hint) in table {
            assert_eq!(said_of(words), ((*line).to_owned(), (*hint).to_owned()), "{words:?}");
        }
    }
}
