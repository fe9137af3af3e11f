//! Measures Restante: a load generator, a receiver, and a benchmark that runs both against the real binary.

mod body;
mod clock;
mod latency;
mod limits;
mod line;
mod load;
mod pipeline;
mod sink;
#[cfg(test)]
mod smoke;

use std::io::{Write as _, stderr, stdout};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks Restante over the loopback interface.
#[derive(Parser)]
#[command(name = "restante-bench", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate load: POST JSON bodies over keep-alive connections and report acknowledgements.
    Load(load::Args),
    /// Receive: count what arrives, how late, and what arrives twice.
    Sink(sink::Args),
    /// Measure the release binary from intake to receiver and print one JSON document.
    Pipeline(Box<pipeline::Args>),
    /// Time what each page of the dashboard reads first, on a store that is full, and print one JSON document.
    Pages(Box<pipeline::pages::Args>),
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a standard error there is nobody to tell.
            let _ = writeln!(stderr(), "{}", describe(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Load(args) => print_json(&load::run(&args.plan()?)?),
        Command::Sink(args) => sink::serve(&args),
        Command::Pipeline(args) => print_json(&pipeline::run(*args)?),
        Command::Pages(args) => print_json(&pipeline::pages::run(*args)?),
    }
}

/// Prints `value` as one line of JSON on standard output.
fn print_json(value: &impl Serialize) -> Result<()> {
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// The messages of an error and its causes in one line, the hints after it.
///
/// A message may end with a line `hint: …`.
fn describe(error: &anyhow::Error) -> String {
    let (mut messages, mut hints) = (Vec::new(), String::new());
    for cause in error.chain().map(ToString::to_string) {
        let (message, hint) = cause.split_once("\nhint: ").unwrap_or((&cause, ""));
        messages.push(message.to_owned());
        if !hint.is_empty() {
            hints.push_str("\nhint: ");
            hints.push_str(hint);
        }
    }
    format!("error: {}{hints}", messages.join(": "))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use clap::CommandFactory as _;

    #[test]
    fn a_hint_follows_all_messages() {
        let error = anyhow!("connection refused").context("no answer\nhint: start it");
        assert_eq!(super::describe(&error), "error: no answer: connection refused\nhint: start it");
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
