//! Runs the simulator over many seeds, or shows one.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for a terminal")]

use std::process::ExitCode;

use restante_sim::independence;
use restante_sim::met::Met;
use restante_sim::{Run, run};

const USAGE: &str = "usage: restante-sim [--seeds N] [--start S] | --seed X [--trace]";

/// What was asked for.
struct Asked {
    start: u64,
    seeds: u64,
    trace: bool,
}

fn main() -> ExitCode {
    let Some(asked) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (mut events, mut attempts, mut met) = (0, 0, Met::new());
    for seed in asked.start..asked.start + asked.seeds {
        let run = run(seed, None);
        events += run.tally.events;
        attempts += run.tally.attempts;
        run.met.iter().for_each(|(what, times)| *met.entry(what).or_default() += times);
        if asked.trace {
            run.trace.lines().iter().for_each(|line| println!("{line}"));
            println!("seed {seed}: {:?}, trace {:016x}", run.tally, run.trace.hash());
        }
        if !run.violations.is_empty() {
            tell(&run);
            return ExitCode::FAILURE;
        }
        let dependent = independence::check(seed, None);
        if !dependent.is_empty() {
            println!("seed {seed} fails\n{}", dependent.join("\n"));
            return ExitCode::FAILURE;
        }
    }
    println!("{} seeds hold: {events} events, {attempts} attempts", asked.seeds);
    met.iter().for_each(|(what, times)| println!("{times:>9} {what}"));
    ExitCode::SUCCESS
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { start: 0, seeds: 200, trace: false };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => asked.seeds = arguments.next()?.parse().ok()?,
            "--start" => asked.start = arguments.next()?.parse().ok()?,
            "--seed" => (asked.start, asked.seeds) = (arguments.next()?.parse().ok()?, 1),
            "--trace" => asked.trace = true,
            _ => return None,
        }
    }
    Some(asked)
}

/// Prints what was violated, and the story of what it happened to.
fn tell(run: &Run) {
    println!("seed {} fails", run.seed);
    for violation in &run.violations {
        println!("\n{violation}");
        run.trace.about(&violation.words).iter().for_each(|line| println!("  {line}"));
    }
}
