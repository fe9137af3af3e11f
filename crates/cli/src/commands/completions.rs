//! `restante completions`: scripts that complete commands.

use clap::CommandFactory;

use crate::args::Args;
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Args::command(), "restante", &mut script);
        output::bytes(&script)
    }
}
