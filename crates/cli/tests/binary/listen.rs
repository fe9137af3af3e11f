//! `restante listen`: the real binary between a server that does what a test says and a local service.

mod lines;
mod process;
mod terminal;
#[path = "../../src/listen/testbed.rs"]
mod testbed;
