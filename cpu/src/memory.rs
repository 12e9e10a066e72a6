//! Memory whose size a file or a user decides: refused rather than aborted on.

/// Memory for a named purpose could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for the {what}: {bytes} bytes")]
pub struct OutOfMemory {
    /// The purpose.
    pub what: String,
    /// How much was asked for.
    pub bytes: u64,
}

/// `len` zeros for `what`. Pages are touched when they are used, not here.
///
/// # Errors
/// When so much cannot be had.
pub fn zeros(len: usize, what: &str) -> Result<Vec<f32>, OutOfMemory> {
    let refused = || OutOfMemory { what: what.to_owned(), bytes: (len as u64).saturating_mul(4) };
    // Asking first: `vec!` takes untouched pages from the system, but aborts where there are none.
    Vec::<f32>::new().try_reserve_exact(len).map_err(|_| refused())?;
    Ok(vec![0.0; len])
}
