//! Rows of values, block by block.

/// Fills a row block by block; of the last one as many values as the row has.
#[inline(always)]
pub(super) fn each_block<const N: usize>(out: &mut [f32], mut decode: impl FnMut(&mut [f32; N])) {
    let (full, rest) = out.as_chunks_mut::<N>();
    for out in full {
        decode(out);
    }
    if !rest.is_empty() {
        let mut last = [0.0; N];
        decode(&mut last);
        rest.copy_from_slice(&last[..rest.len()]);
    }
}
