//! Rows in groups of sixteen, which vector code quantizes at once, on all threads.

use qsf_runtime::cpu::lanes::LANES;
use rayon::prelude::*;

use super::half_scale::ScaleOverflow;

/// Bytes of `values`, which are whole rows of `cols`: `row_bytes` for each. `encode` turns the values of at most 16 rows into
/// their bytes.
///
/// # Errors
/// That of the first group for which `encode` has one.
pub(super) fn encode_groups(
    values: &[f32],
    cols: usize,
    row_bytes: usize,
    encode: impl Fn(&[f32], &mut [u8]) -> Result<(), ScaleOverflow> + Sync,
) -> Result<Vec<u8>, ScaleOverflow> {
    let mut out = vec![0; values.len() / cols * row_bytes];
    out.par_chunks_mut(LANES * row_bytes)
        .zip(values.par_chunks(LANES * cols))
        .map(|(out, values)| encode(values, out))
        .collect::<Vec<_>>()
        .into_iter()
        .collect::<Result<(), _>>()?;
    Ok(out)
}
