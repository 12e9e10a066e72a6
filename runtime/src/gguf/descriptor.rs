//! The tensors of a GGUF file: names, shapes, types and the bytes that each takes.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use gguf_rs_lib::format::{GGUF_MAX_DIMENSIONS, GGUF_MAX_TENSOR_NAME_LENGTH, TensorInfo};
use qsf_format::printable::{message, quote};

use super::cursor::Cursor;
use super::metadata::Metadata;
use crate::content::cut_short;
use crate::error::{Result, RuntimeError};
use crate::ggml::GgmlType;

/// Most tensors of a file. The models with most, of hundreds of experts stored one by one, have about 60 000.
const MAX_TENSORS: u64 = 1 << 17;
/// Length and one byte of a name, number of dimensions, one of them, type, offset.
const LEAST_TENSOR_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;
/// Where tensor data starts, and each tensor in it, when the file does not say.
const DEFAULT_ALIGNMENT: u32 = 32;
const MAX_ALIGNMENT: u32 = 1 << 20;

/// A tensor as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufTensor {
    /// The name.
    pub name: String,
    /// Dimensions, fastest first as stored: values per row, rows, ... None is 0.
    pub shape: Vec<usize>,
    /// Number of the type.
    pub type_id: u32,
    /// Which file of the model.
    pub shard: usize,
    /// Bytes in the file, inside of its map; none when the type is unknown, for then nobody can tell how many.
    pub range: Range<usize>,
}

impl GgufTensor {
    /// The type, where it is a known one.
    pub fn known_type(&self) -> Option<GgmlType> {
        GgmlType::from_id(self.type_id)
    }
}

/// The number of tensors, where the cursor stands.
pub(super) fn read_count(cursor: &mut Cursor<'_>) -> Result<u64> {
    cursor.count("the number of tensors", LEAST_TENSOR_BYTES, MAX_TENSORS)
}

/// Reads `count` tensors of shard `shard`, a file of `file_len` bytes.
pub(super) fn read(
    path: &Path,
    cursor: &mut Cursor<'_>,
    metadata: &Metadata,
    count: u64,
    shard: usize,
    file_len: usize,
) -> Result<Vec<GgufTensor>> {
    let mut found = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..count {
        let info = read_one(cursor)?;
        if !names.insert(info.name.clone()) {
            let place = format!("tensor {}", quote(&info.name));
            return Err(RuntimeError::bad_input(path, place, "one tensor of this name", "a second one"));
        }
        found.push(info);
    }
    let alignment = alignment(metadata)?;
    let region = Region { path, alignment, file_len, data: align(cursor.position(), alignment) };
    // Of a file that is cut short, the last tensor says how long it was.
    let mut tensors = Vec::with_capacity(found.len());
    let last = (0..found.len()).max_by_key(|&i| found[i].offset);
    if let Some(last) = last {
        region.place(found[last].clone(), shard)?;
    }
    for info in found {
        tensors.push(region.place(info, shard)?);
    }
    refuse_overlap(path, &tensors)?;
    Ok(tensors)
}

fn read_one(cursor: &mut Cursor<'_>) -> Result<TensorInfo> {
    let name = cursor.name("the name of a tensor", GGUF_MAX_TENSOR_NAME_LENGTH as u64)?;
    let what = format!("tensor {}", quote(name));
    let dimensions = cursor.u32(&what)?;
    if !(1..=GGUF_MAX_DIMENSIONS as u32).contains(&dimensions) {
        let expected = format!("1 to {GGUF_MAX_DIMENSIONS} dimensions");
        return Err(cursor.wrong(&what, expected, dimensions));
    }
    let shape = (0..dimensions).map(|_| cursor.u64(&what)).collect::<Result<Vec<u64>>>()?;
    if shape.contains(&0) {
        return Err(cursor.wrong(&what, "dimensions of at least 1", format!("{shape:?}")));
    }
    let type_id = cursor.u32(&what)?;
    let offset = cursor.u64(&what)?;
    let info = TensorInfo::new(name.to_owned(), shape, type_id, offset);
    // The library refuses unknown types. A file may have some in tensors that nothing uses.
    if GgmlType::from_id(type_id).is_some() {
        info.validate().map_err(|e| cursor.wrong(&what, "a shape that its type can have", message(e)))?;
    }
    Ok(info)
}

/// Power of two, by the specification a multiple of 8; some writers use smaller ones.
fn alignment(metadata: &Metadata) -> Result<usize> {
    const KEY: &str = "general.alignment";
    let alignment = metadata.u32(KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        return Err(metadata.wrong(KEY, format!("a power of two up to {MAX_ALIGNMENT}"), alignment));
    }
    Ok(alignment as usize)
}

/// In range: `at` is a place in a file that is in memory, and alignments are small.
fn align(at: usize, alignment: usize) -> usize {
    at.next_multiple_of(alignment)
}

/// Where tensors may be.
struct Region<'a> {
    path: &'a Path,
    alignment: usize,
    file_len: usize,
    data: usize,
}

impl Region<'_> {
    fn place(&self, info: TensorInfo, shard: usize) -> Result<GgufTensor> {
        let place = || format!("tensor {}", quote(&info.name));
        let offset = usize::try_from(info.offset).ok();
        if offset.is_none_or(|offset| !offset.is_multiple_of(self.alignment)) {
            let expected = format!("an offset that is a multiple of {}", self.alignment);
            return Err(RuntimeError::bad_input(self.path, place(), expected, info.offset));
        }
        let elements = info.checked_element_count();
        let bytes = match GgmlType::from_id(info.tensor_type) {
            // Whole blocks: rows are.
            Some(ty) => elements
                .and_then(|elements| (elements / ty.block_len() as u64).checked_mul(ty.block_bytes() as u64)),
            None => elements.map(|_| 0),
        };
        let start = offset.and_then(|offset| self.data.checked_add(offset));
        let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(usize::try_from(bytes).ok()?));
        let shape: Option<Vec<usize>> = info.dimensions.iter().map(|&n| usize::try_from(n).ok()).collect();
        match (start, end, shape) {
            (Some(start), Some(end), Some(shape)) if end <= self.file_len => {
                let (name, type_id) = (info.name, info.tensor_type);
                Ok(GgufTensor { name, shape, type_id, shard, range: start..end })
            }
            _ => {
                let end = end.map_or_else(|| "far more".to_owned(), |end| end.to_string());
                let expected = format!("a file of at least {end} bytes");
                Err(RuntimeError::bad_input(self.path, place(), expected, cut_short(self.file_len as u64)))
            }
        }
    }
}

fn refuse_overlap(path: &Path, tensors: &[GgufTensor]) -> Result<()> {
    let mut by_place: Vec<&GgufTensor> = tensors.iter().collect();
    by_place.sort_by_key(|tensor| (tensor.range.start, tensor.range.end));
    match by_place.windows(2).find(|pair| pair[0].range.end > pair[1].range.start) {
        None => Ok(()),
        Some(pair) => {
            let expected = format!("bytes behind those of {}", quote(&pair[0].name));
            let found = format!("bytes {:?} and {:?}", pair[1].range, pair[0].range);
            Err(RuntimeError::bad_input(path, format!("tensor {}", quote(&pair[1].name)), expected, found))
        }
    }
}
