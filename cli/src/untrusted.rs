//! `--untrusted`: a flag of all programs, for files of strangers.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, ArgMatches};
use qsf_format::{distrust, is_untrusted};
use qsf_runtime::RuntimeError;

const FLAG: &str = "untrusted";

/// The flag.
pub fn untrusted_flag() -> Arg {
    Arg::new(FLAG)
        .long(FLAG)
        .action(ArgAction::SetTrue)
        .global(true)
        .help_heading("Safety")
        .help("Halve the limits on what files may cost, and refuse chat templates, downloads and files that expand far")
}

/// Does what the flag says, from here on and for the whole process.
pub fn obey(matches: &ArgMatches) {
    // A subcommand has the flag of its program.
    let given = |matches: &ArgMatches| matches.get_flag(FLAG);
    if given(matches) || matches.subcommand().is_some_and(|(_, matches)| given(matches)) {
        distrust();
    }
}

/// The word that tells another process of this program what this one was told.
pub fn word_for_others() -> Option<OsString> {
    is_untrusted().then(|| OsStr::new("--untrusted").to_owned())
}

/// Refuses what `--untrusted` does not allow.
///
/// # Errors
/// [`RuntimeError::Request`] with `what`, where the flag was given.
pub fn refuse_if_untrusted(what: &str) -> Result<(), RuntimeError> {
    if is_untrusted() {
        return Err(RuntimeError::Request(format!("{what}: not with --untrusted")));
    }
    Ok(())
}
