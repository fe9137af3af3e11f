//! Runs the simulator over many seeds, or shows one.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for a terminal")]

use std::process::ExitCode;

use restante_sim::met::Met;
use restante_sim::{Run, cluster, independence, run};

const USAGE: &str =
    "usage: restante-sim [--only single|cluster] [--seeds N] [--start S] | --seed X [--trace]";

/// What was asked for.
struct Asked {
    start: u64,
    seeds: u64,
    trace: bool,
    /// One node on the embedded database.
    single: bool,
    /// Several nodes on a model of PostgreSQL.
    cluster: bool,
}

fn main() -> ExitCode {
    let Some(asked) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if asked.single
        && !holds(&asked, "one node", |seed| run(seed, None), |seed| independence::check(seed, None))
    {
        return ExitCode::FAILURE;
    }
    if asked.cluster && !holds(&asked, "a cluster", |seed| cluster::run(seed, None), |_| Vec::new()) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs all seeds in a world, and says what it met or what was violated.
fn holds(asked: &Asked, world: &str, run: impl Fn(u64) -> Run, compare: impl Fn(u64) -> Vec<String>) -> bool {
    let (mut events, mut attempts, mut met) = (0, 0, Met::new());
    for seed in asked.start..asked.start + asked.seeds {
        let run = run(seed);
        events += run.tally.events;
        attempts += run.tally.attempts;
        run.met.iter().for_each(|(what, times)| *met.entry(what).or_default() += times);
        if asked.trace {
            run.trace.lines().iter().for_each(|line| println!("{line}"));
            println!("seed {seed}: {:?}, trace {:016x}", run.tally, run.trace.hash());
        }
        if !run.violations.is_empty() {
            println!("in the world of {world}");
            tell(&run);
            return false;
        }
        let dependent = compare(seed);
        if !dependent.is_empty() {
            println!("seed {seed} fails\n{}", dependent.join("\n"));
            return false;
        }
    }
    println!("{world}: {} seeds hold: {events} events, {attempts} attempts", asked.seeds);
    met.iter().for_each(|(what, times)| println!("{times:>9} {what}"));
    true
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { start: 0, seeds: 200, trace: false, single: true, cluster: true };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => asked.seeds = arguments.next()?.parse().ok()?,
            "--start" => asked.start = arguments.next()?.parse().ok()?,
            "--seed" => (asked.start, asked.seeds) = (arguments.next()?.parse().ok()?, 1),
            "--trace" => asked.trace = true,
            "--only" => match arguments.next()?.as_str() {
                "single" => asked.cluster = false,
                "cluster" => asked.single = false,
                _ => return None,
            },
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
