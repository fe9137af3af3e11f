//! The binary `restante`.

mod args;
mod backup;
mod commands;
mod confirm;
mod connection;
mod detail;
mod examples;
mod exit;
mod failure;
mod input;
mod listen;
mod log;
mod migrate;
mod nearest;
mod opened;
mod outgoing;
mod output;
mod paint;
mod restore;
mod serve;
mod show;
mod table;
mod times;
mod tour;
mod usage;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Args, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = examples::on_top(Args::command());
    let read = command.clone().try_get_matches().and_then(|matches| Args::from_arg_matches(&matches));
    let args = match read {
        Ok(args) => args,
        Err(fault) => return usage::told(&fault, &command),
    };
    let done = match args.command {
        None => serve::run(&args.serve),
        Some(Command::Serve(serve)) => serve::run(&serve),
        Some(Command::Tour) => tour::run(),
        Some(Command::Migrate(migrate)) => migrate::run(&migrate),
        Some(Command::Backup(backup)) => backup::run(&backup),
        Some(Command::Restore(restore)) => restore::run(&restore),
        Some(Command::Listen(listen)) => match listen.run() {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Some(Command::Client(command)) => match command.run() {
            Err(error) if output::is_read_no_more(&error) => Ok(()),
            done => done,
        },
        Some(Command::ConfigReference) => output::line(restante_server::config::reference().trim_end()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failure(&error),
    }
}
