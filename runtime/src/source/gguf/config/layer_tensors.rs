//! Which tensors a file has, by the names of layers.

use crate::gguf::{GgufFile, GgufTensor};

/// The dimensions of a tensor, fastest first.
pub(super) fn shape_of<'a>(file: &'a GgufFile, name: &str) -> Option<&'a [usize]> {
    file.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.shape.as_slice())
}

/// Of the first `layers` layers those with a tensor of this name, ascending.
pub(super) fn layers_with(file: &GgufFile, name: &str, layers: u32) -> Vec<u32> {
    let layer_of = |tensor: &GgufTensor| {
        let (layer, rest) = tensor.name.strip_prefix("blk.")?.split_once('.')?;
        (rest == name).then(|| layer.parse().ok()).flatten()
    };
    let mut found: Vec<u32> =
        file.tensors.iter().filter_map(layer_of).filter(|&layer| layer < layers).collect();
    found.sort_unstable();
    found.dedup();
    found
}
