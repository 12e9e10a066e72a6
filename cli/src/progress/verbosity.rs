//! How much a program says of its work.

use clap::Args;

/// Flags of programs whose work takes long.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct VerbosityArgs {
    /// Print errors and warnings only: no progress, no notes, no table. --json still prints its document
    #[arg(long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Say more on stderr: kernels and threads, texts, and how long each stage took
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
}

impl VerbosityArgs {
    /// What the flags ask for.
    pub fn verbosity(self) -> Verbosity {
        match self {
            VerbosityArgs { quiet: true, .. } => Verbosity::Quiet,
            VerbosityArgs { verbose: true, .. } => Verbosity::Verbose,
            VerbosityArgs { .. } => Verbosity::Normal,
        }
    }
}

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Errors and warnings.
    Quiet,
    /// Progress and notes, too.
    #[default]
    Normal,
    /// All that may be of use to who looks for a mistake.
    Verbose,
}
