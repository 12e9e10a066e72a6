//! Stored bytes of the sections that are no tensors, before they are made: types for a size are chosen by them.

use qsf_format::{CodeTables, META_VERSION, Meta, Provenance, QuantType, stored_section_bytes};
use qsf_runtime::source::WeightSource;

use super::{clusters, exits};
use crate::error::Result;
use crate::options::ConvertOptions;
use crate::plan::{Plan, TensorType};

/// More bytes than an evaluation takes.
const EVALUATION_RESERVE: u64 = 1024;
/// Bytes that META may take more than predicted.
const META_RESERVE: u64 = 1280;

/// Bytes of each section, at most, whatever types the tensors will have.
///
/// # Errors
/// When a section is too large to be stored.
pub(crate) fn bytes_at_most(
    source: &dyn WeightSource,
    plan: &Plan,
    provenance: Provenance,
    options: &ConvertOptions,
) -> Result<Vec<u64>> {
    let mut sizes = vec![meta_bytes(source, plan, provenance)? + META_RESERVE];
    sizes.extend(text_bytes(source)?);
    if let Some(wanted) = &options.clusters {
        sizes.push(clusters::section_bytes(wanted, source.config()));
    }
    if options.early_exit.is_some() {
        sizes.push(exits::section_bytes(source.config()));
    }
    if options.evaluation.is_some() {
        sizes.push(EVALUATION_RESERVE);
    }
    sizes.push(CodeTables::default().to_bytes(&QuantType::ALL).len() as u64);
    Ok(sizes)
}

/// Bytes of each section of a file with the types of `plan`, about.
///
/// # Errors
/// When a section is too large to be stored.
pub(crate) fn bytes_expected(
    source: &dyn WeightSource,
    plan: &Plan,
    provenance: Provenance,
) -> Result<Vec<u64>> {
    let mut sizes = vec![meta_bytes(source, plan, provenance)?];
    sizes.extend(text_bytes(source)?);
    let types: Vec<QuantType> = plan.types().filter_map(TensorType::qsf).collect();
    let grids = CodeTables::default().to_bytes(&types).len() as u64;
    sizes.extend((grids > 0).then_some(grids));
    Ok(sizes)
}

/// META, about: its figures are not known yet.
fn meta_bytes(source: &dyn WeightSource, plan: &Plan, provenance: Provenance) -> Result<u64> {
    let records = plan.tensors().iter().enumerate().map(|(i, planned)| {
        // Digits that compress as badly as those of real figures.
        let noise = |salt: u64| {
            let mut z = (i as u64 * 4 + salt).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (z ^ (z >> 31)) as f64 / 2f64.powi(70)
        };
        // A part has about as much as a tensor.
        let types = planned.types().map(move |quant| planned.record(quant, noise(0), noise(1), noise(2)));
        types.filter_map(|record| record.for_meta()).collect::<Vec<_>>()
    });
    let model = source.config().clone();
    let meta = Meta { version: META_VERSION, model, provenance, tensors: records.flatten().collect() };
    let json = serde_json::to_vec(&meta).expect("finite numbers and names are JSON");
    Ok(stored_section_bytes(&json)?)
}

/// Bytes of tokenizer and chat template.
///
/// # Errors
/// When one is too large to be stored.
pub(crate) fn text_bytes(source: &dyn WeightSource) -> Result<Vec<u64>> {
    let texts = [source.tokenizer_json(), source.chat_template()].into_iter().flatten();
    Ok(texts.map(stored_section_bytes).collect::<std::result::Result<Vec<u64>, _>>()?)
}
