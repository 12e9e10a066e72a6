//! Bytes of the file, from the plan.

use std::collections::HashMap;

use qsf_format::Provenance;
use qsf_runtime::source::WeightSource;

use crate::error::Result;
use crate::gguf::header_bytes;
use crate::hf::directory_bytes;
use crate::options::ConvertOptions;
use crate::plan::{Container, Plan, SizeModel};
use crate::sections::bytes_expected;

/// Bytes of the file, uncompressed.
pub(super) fn predicted_file_bytes(
    source: &dyn WeightSource,
    plan: &Plan,
    options: &ConvertOptions,
    provenance: Provenance,
) -> Result<u64> {
    if let Some(hf) = options.hf {
        return directory_bytes(source, hf, plan);
    }
    let container = options.container();
    let sections = match container {
        Container::Gguf => {
            vec![header_bytes(source, plan, provenance, options.evaluation.is_some(), options.split_size)?]
        }
        _ => bytes_expected(source, plan, provenance)?,
    };
    let (config, block, layout) = (source.config(), options.block, options.layout);
    Ok(SizeModel { config, block, layout, sections: &sections, container, described: &HashMap::new() }
        .file_bytes(plan))
}
