//! The real binary: killed, restarted, lied to.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "a test says what it measured")]

mod backup;
mod canary;
mod clients;
mod commands;
mod dashboard;
mod described;
mod dice;
mod faults;
mod hostile;
mod kill;
mod listen;
mod mail;
mod migrate;
mod nodes;
mod outage;
mod patience;
mod power;
mod process;
mod receiver;
mod sink;
mod soak;
mod stop;
mod strace;
mod traces;
mod tunnel;
mod usage;
mod zoo;
