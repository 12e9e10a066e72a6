//! Which tensor is in which file, and what the files say of it. All of this is known before the first value is.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::stored::DirTensor;
use crate::dtype::HfOut;

/// A file of weights.
#[derive(Debug)]
pub(super) struct Shard {
    pub name: String,
    /// Its tensors.
    pub tensors: Range<usize>,
    /// Bytes of their values.
    pub bytes: u64,
}

/// The files for `tensors`, in their order.
pub(super) fn shards(tensors: &[DirTensor], out: HfOut) -> Vec<Shard> {
    let mut ends: Vec<(Range<usize>, u64)> = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        let bytes = bytes_of(tensor, out);
        match ends.last_mut() {
            Some((range, all)) if all.saturating_add(bytes) <= out.shard_size => {
                range.end = at + 1;
                *all += bytes;
            }
            _ => ends.push((at..at + 1, bytes)),
        }
    }
    let count = ends.len();
    let name = |i: usize| match count {
        1 => "model.safetensors".to_owned(),
        _ => format!("model-{:05}-of-{count:05}.safetensors", i + 1),
    };
    let shard = |(i, (tensors, bytes))| Shard { name: name(i), tensors, bytes };
    ends.into_iter().enumerate().map(shard).collect()
}

/// Everything before the values of a file.
pub(super) fn header(tensors: &[DirTensor], out: HfOut) -> Vec<u8> {
    let mut entries = Map::new();
    let of_mlx = out.groups.is_some_and(|groups| groups.scheme.is_mlx());
    entries.insert("__metadata__".into(), json!({ "format": if of_mlx { "mlx" } else { "pt" } }));
    let mut offset = 0;
    for part in tensors.iter().flat_map(|tensor| tensor.parts(out)) {
        let end = offset + part.bytes;
        let entry = json!({ "dtype": part.dtype, "shape": part.shape, "data_offsets": [offset, end] });
        entries.insert(part.name, entry);
        offset = end;
    }
    let mut json = Value::Object(entries).to_string().into_bytes();
    // Values begin at a multiple of 8, as the library of the format has it.
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json);
    bytes
}

/// `model.safetensors.index.json`, of a model with several files.
pub(super) fn index(tensors: &[DirTensor], shards: &[Shard], out: HfOut) -> Option<Map<String, Value>> {
    if shards.len() < 2 {
        return None;
    }
    let file_of = |shard: &Shard| {
        let parts = tensors[shard.tensors.clone()].iter().flat_map(|tensor| tensor.parts(out));
        parts.map(|part| (part.name, json!(shard.name))).collect::<Vec<_>>()
    };
    let map: Map<String, Value> = shards.iter().flat_map(file_of).collect();
    let values: usize = tensors.iter().map(|tensor| tensor.saved.values()).sum();
    let bytes: u64 = shards.iter().map(|shard| shard.bytes).sum();
    let metadata = json!({ "total_size": bytes, "total_parameters": values });
    Some(Map::from_iter([("metadata".to_owned(), metadata), ("weight_map".to_owned(), Value::Object(map))]))
}

pub(super) fn bytes_of(tensor: &DirTensor, out: HfOut) -> u64 {
    tensor.parts(out).iter().map(|part| part.bytes).fold(0, u64::saturating_add)
}
