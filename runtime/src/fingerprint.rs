//! Which model, and which tokens, something was made of: statistics of a text, a part of an evaluation.

use sha2::{Digest, Sha256};

use crate::error::{Result, RuntimeError};
use crate::source::WeightSource;
use qsf_cpu::Isa;

/// SHA-256.
pub type Hash = [u8; 32];

/// Hash of a model: its configuration, names and shapes of its tensors, and three rows of each. Two models that differ in
/// values alone are told apart by these rows, without reading them as a whole.
///
/// # Errors
/// When a tensor is missing or damaged.
pub fn model_fingerprint(source: &dyn WeightSource) -> Result<Hash> {
    let mut hash = Sha256::new();
    let config = serde_json::to_vec(source.config()).map_err(|e| {
        RuntimeError::bad_input(source.path(), "the configuration", "what can be written as JSON", e)
    })?;
    hash.update((config.len() as u64).to_le_bytes());
    hash.update(&config);
    let mut last = None;
    for info in source.tensors() {
        if last.is_some_and(|layer| layer != info.id.layer) {
            source.release(last.flatten());
        }
        last = Some(info.id.layer);
        let tensor = source.load(info.id)?;
        hash.update(format!("{} {} {}", info.id, info.rows, info.cols));
        let mut values = vec![0.0; info.cols];
        for row in [0, info.rows / 2, info.rows.saturating_sub(1)] {
            if row < info.rows {
                tensor.decode_row(Isa::best(), row, &mut values);
                values.iter().for_each(|value| hash.update(value.to_le_bytes()));
            }
        }
    }
    source.release(last.flatten());
    Ok(hash.finalize().into())
}

/// Hash of a text as the tokens that went through the model.
pub fn text_fingerprint(tokens: &[u32]) -> Hash {
    let mut hash = Sha256::new();
    tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
    hash.finalize().into()
}
