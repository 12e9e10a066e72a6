//! What `config.json` says of quantized matrices: the fields that compressed-tensors 0.20 writes
//! (`QuantizationConfig.model_dump`) and older versions know.

use qsf_runtime::grouped::{GroupType, GroupZero};
use serde_json::{Value, json};

use super::stored::DirTensor;

/// `quantization_config` of a directory with these tensors; `None` where none has groups.
pub(super) fn quantization_config(tensors: &[DirTensor]) -> Option<Value> {
    let ty: GroupType = tensors.iter().find_map(|tensor| tensor.groups)?;
    let weights = json!({
        "dynamic": false,
        "group_size": ty.group,
        "num_bits": ty.bits,
        "strategy": "group",
        "symmetric": ty.zero == GroupZero::Middle,
        "type": "int",
    });
    Some(json!({
        "config_groups": {
            "group_0": {
                "format": "pack-quantized",
                "input_activations": null,
                "output_activations": null,
                "targets": ["Linear"],
                "weights": weights,
            },
        },
        "format": "pack-quantized",
        "global_compression_ratio": null,
        "ignore": ignored(tensors),
        "kv_cache_scheme": null,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }))
}

/// Layers that may be of the class Linear and have no groups.
fn ignored(tensors: &[DirTensor]) -> Vec<String> {
    use qsf_format::TensorKind::{Head, Positions, TokenEmbedding};
    let is_layer = |tensor: &&DirTensor| {
        let kinds = || tensor.saved.parts().map(|id| id.kind);
        tensor.groups.is_none()
            && kinds().all(|kind| kind.is_matrix() && !matches!(kind, Positions | TokenEmbedding))
    };
    let layers = tensors.iter().filter(is_layer);
    let mut names: Vec<String> =
        layers.filter_map(|tensor| Some(tensor.saved.name.strip_suffix(".weight")?.to_owned())).collect();
    // A head that shares the values of the embedding is in no file, and is a layer all the same.
    if !tensors.iter().any(|tensor| tensor.saved.parts().any(|id| id.kind == Head)) {
        names.push("lm_head".to_owned());
    }
    names
}
