//! Says what tests of this crate have to work with: `cfg(qsf_data)`, the folder with trained models, and `cfg(qsf_python)`. A test
//! that needs what is missing is reported as ignored.
//!
//! With `QSF_REQUIRE_DATA` none is: where something is missing, what needs it fails.
//!
//! Whether the folder or Python has come since the last build is not looked at, as Cargo would build the tests anew each time
//! while it is missing. Naming the folder by `QSF_SHARED` is noticed.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(qsf_data, qsf_python)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=QSF_SHARED");
    println!("cargo::rerun-if-env-changed=QSF_REQUIRE_DATA");
    let required = env::var_os("QSF_REQUIRE_DATA").is_some_and(|value| !value.is_empty());
    let folder = env::var_os("QSF_SHARED").unwrap_or_else(|| "../../shared".into());
    if required || Path::new(&folder).is_dir() {
        println!("cargo::rustc-cfg=qsf_data");
    }
    let python = if cfg!(windows) { "python" } else { "python3" };
    if required || Command::new(python).arg("--version").output().is_ok_and(|output| output.status.success())
    {
        println!("cargo::rustc-cfg=qsf_python");
    }
}
