//! Vocabulary clusters of the converted model: made of the head as it is stored, measured by running the file before it gets
//! its name, and stored in it (section CLUS).

use std::path::Path;
use std::sync::Arc;

use qsf_calibration::{measured_probes, vocab_clusters};
use qsf_format::{ModelConfig, VocabClusters};
use qsf_runtime::source::QsfSource;
use qsf_runtime::{Decoder, Model};

use crate::error::Result;
use crate::options::ClusterOptions;
use crate::session::Session;

/// Bytes of the section, if no cluster stays empty.
pub(crate) fn section_bytes(options: &ClusterOptions, config: &ModelConfig) -> u64 {
    let measurements = measured_probes(options.count).len() as u32;
    VocabClusters::section_bytes(options.count, config.hidden, config.vocab, measurements)
}

/// The clusters of the file at `path`.
///
/// # Errors
/// When the vocabulary has fewer tokens, the model computes something that is not finite, or the user interrupts.
pub(crate) fn clusters_of_file(
    path: &Path,
    options: &ClusterOptions,
    session: &Session<'_>,
) -> Result<VocabClusters> {
    let model = Model::load(&QsfSource::open(path)?)?;
    let decoder = Decoder::new(Arc::new(model), session.cpu.clone(), None).stop_on(session.cancel);
    Ok(vocab_clusters(&decoder, options.count as usize, &options.text.tokens, session.progress)?)
}
