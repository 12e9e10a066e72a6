//! `measured FILE PROGRAM ARGS...`: runs the program, and writes the peak of its resident memory in bytes to the file.
//!
//! A process of its own, because what the system counts for a child starts at the memory of the process that started it
//! (a spawned child shares it until it executes), and a test's process may hold a model.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use nix::sys::resource::{UsageWho, getrusage};

    let mut args = std::env::args_os().skip(1);
    let (Some(file), Some(program)) = (args.next(), args.next()) else {
        return Err("usage: measured FILE PROGRAM ARGS...".into());
    };
    let status = std::process::Command::new(program).args(args).status()?;
    let kilobytes = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    std::fs::write(file, (kilobytes * 1024).to_string())?;
    std::process::exit(status.code().unwrap_or(-1));
}

#[cfg(not(target_os = "linux"))]
fn main() {
    // getrusage counts in other units elsewhere, and the tests that measure are Linux's.
    std::process::exit(2);
}
