//! Memory whose size a file or a user decides: refused rather than aborted on.

use crate::error::{Result, RuntimeError};

/// Asks the system whether it would give so much memory, and takes none.
///
/// # Errors
/// [`RuntimeError::OutOfMemory`] when it would not.
pub fn ask(bytes: u64, what: impl Fn() -> String) -> Result<()> {
    let refused = || RuntimeError::OutOfMemory { what: what(), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| refused())
}

/// `len` zeros for `what`. Pages are touched when they are used, not here.
///
/// # Errors
/// [`RuntimeError::OutOfMemory`] when so much cannot be had.
pub fn zeros(len: usize, what: &str) -> Result<Vec<f32>> {
    let refused =
        || RuntimeError::OutOfMemory { what: what.to_owned(), bytes: (len as u64).saturating_mul(4) };
    // Asking first: `vec!` takes untouched pages from the system, but aborts where there are none.
    Vec::<f32>::new().try_reserve_exact(len).map_err(|_| refused())?;
    Ok(vec![0.0; len])
}
