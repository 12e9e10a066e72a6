//! Makes `qsf.h` of the functions of libqsf. Without an argument it compares, with `--write` it writes.

use std::path::Path;
use std::process::ExitCode;

use cbindgen::{Builder, Config};

fn main() -> ExitCode {
    match run(std::env::args().any(|argument| argument == "--write")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            let mend = "cargo run --manifest-path capi/header/Cargo.toml -- --write";
            eprintln!("error: capi/include/qsf.h is not that of capi/src; this writes it: {mend}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the header is, or has become, that of the source.
fn run(write: bool) -> Result<bool, Box<dyn std::error::Error>> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let config = Config::from_file(crate_folder.join("cbindgen.toml"))?;
    let mut made = Vec::new();
    let builder = ["status", "options", "text", "model", "session", "files"]
        .iter()
        .fold(Builder::new().with_config(config), |builder, module| {
            builder.with_src(crate_folder.join("src").join(module).with_extension("rs"))
        });
    builder.generate()?.write(&mut made);
    let path = crate_folder.join("include/qsf.h");
    if write {
        std::fs::write(&path, &made)?;
    }
    Ok(std::fs::read(&path)? == made)
}
