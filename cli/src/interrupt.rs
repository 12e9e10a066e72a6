//! Ctrl-C.

use anyhow::Context;
use qsf_format::Failure;
use qsf_runtime::progress::Cancel;

/// A flag that Ctrl-C and SIGTERM set. A second one ends the process at once.
///
/// # Errors
/// When the handler cannot be installed.
pub fn cancel_on_interrupt() -> anyhow::Result<Cancel> {
    let cancel = Cancel::default();
    let flag = cancel.clone();
    ctrlc::set_handler(move || {
        if flag.is_requested() {
            std::process::exit(Failure::Interrupted.exit_code().into());
        }
        flag.request();
    })
    .context("cannot handle Ctrl-C")?;
    Ok(cancel)
}
