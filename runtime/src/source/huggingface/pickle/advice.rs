//! What to do about a checkpoint that is not read.

/// How to make of a checkpoint what is read.
pub(super) const RESAVE: &str =
    "load it with torch and save the model as model.safetensors (in transformers: save_pretrained)";

/// What to do about a pickle that is more than tensors. Loading it is no advice without a word of warning.
pub(super) fn untrusted_advice() -> String {
    format!(
        "only tensors are read, as it could run a program when Python loads it. If you trust its author, {RESAVE}"
    )
}
