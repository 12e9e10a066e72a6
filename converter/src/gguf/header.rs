//! Everything before the values of tensors: keys, and where each tensor is. Its length follows from names and keys alone, so that
//! values can be written before their types are certain.

use qsf_runtime::ggml::GgmlType;

use super::value::{Pairs, write_text};

/// Where the values of a tensor begin, by default.
pub(crate) const ALIGNMENT: u64 = 32;

const MAGIC: &[u8; 4] = b"GGUF";
const VERSION: u32 = 3;

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    /// Fastest first.
    pub dims: Vec<u64>,
    pub ty: GgmlType,
    /// Bytes of its values.
    pub bytes: u64,
}

/// The header of a file with these keys and tensors, whose values follow one another, up to where the first begins.
pub(crate) fn header(pairs: &Pairs, entries: &[Entry]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((entries.len() as u64).to_le_bytes());
    out.extend((pairs.len() as u64).to_le_bytes());
    for (key, value) in pairs {
        write_text(&mut out, key);
        out.extend(value.type_id().to_le_bytes());
        value.write(&mut out);
    }
    let mut offset = 0u64;
    for entry in entries {
        write_text(&mut out, &entry.name);
        out.extend((entry.dims.len() as u32).to_le_bytes());
        entry.dims.iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(entry.ty.id().to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset = offset.saturating_add(padded(entry.bytes));
    }
    out.resize(padded(out.len() as u64) as usize, 0);
    out
}

/// Up to the next place where values may begin.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}
