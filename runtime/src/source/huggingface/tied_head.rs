//! Whether a head that is there, although the configuration says that it is the embedding, really is a copy of it.
//!
//! Some tools save the copy, and some fine-tunings leave a head that was trained apart under a configuration that still
//! says "tied". transformers 5 compares the two and ties only what is equal; so does this.

use crate::source::mapping::TensorStore;
use crate::tensor::TensorBytes;

/// Bytes that are compared before their pages are given back.
const STEP: usize = 16 << 20;

/// Whether both tensors are there and have the same type, shape and bytes. What cannot be compared is no copy.
pub(super) fn is_copy(store: &dyn TensorStore, head: &str, embedding: &str) -> bool {
    if store.describe(head) != store.describe(embedding) {
        return false;
    }
    match (store.raw(head), store.raw(embedding)) {
        (Ok(head), Ok(embedding)) => same_bytes(&head, &embedding),
        _ => false,
    }
}

fn same_bytes(a: &TensorBytes, b: &TensorBytes) -> bool {
    if let (TensorBytes::Mapped(map, range), TensorBytes::Mapped(other, other_range)) = (a, b)
        && map.as_ptr() == other.as_ptr()
        && range == other_range
    {
        return true;
    }
    let len = a.as_slice().len();
    len == b.as_slice().len()
        && (0..len).step_by(STEP).all(|first| {
            let part = first..len.min(first + STEP);
            let same = a.as_slice()[part.clone()] == b.as_slice()[part.clone()];
            for bytes in [a, b] {
                if let TensorBytes::Mapped(map, range) = bytes {
                    map.release(range.start + part.start..range.start + part.end);
                }
            }
            same
        })
}
