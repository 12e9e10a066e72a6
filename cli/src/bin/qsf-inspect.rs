//! `qsf-inspect`: what is in a QSF file and is it whole, how two models differ, and a page about files.

use std::process::ExitCode;

fn main() -> ExitCode {
    qsf_cli::inspect::main()
}
