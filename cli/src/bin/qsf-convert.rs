//! `qsf-convert`: a source model in, one checksummed QSF file out.

use std::process::ExitCode;

fn main() -> ExitCode {
    qsf_cli::convert::main()
}
