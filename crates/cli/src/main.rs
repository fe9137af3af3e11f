//! The binary `restante`.

mod args;
mod log;
mod migrate;
mod opened;
mod output;
mod serve;
mod tour;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        None => serve::run(&args.serve),
        Some(Command::Serve(serve)) => serve::run(&serve),
        Some(Command::Tour) => tour::run(),
        Some(Command::Migrate(migrate)) => migrate::run(&migrate),
        Some(Command::ConfigReference) => output::line(restante_server::config::reference().trim_end()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failure(&error),
    }
}
