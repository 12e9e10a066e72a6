//! Vocabulary clusters of the converted model: made of the head as it is stored, measured by running the file before it gets
//! its name, and stored in it (section CLUS).

use std::path::Path;
use std::sync::Arc;

use qsf_calibration::{measured_probes, vocab_clusters};
use qsf_format::{ModelConfig, VocabClusters};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::QsfSource;
use qsf_runtime::{Decoder, Model};

use crate::error::Result;
use crate::options::Calibration;

/// Vocabulary clusters to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// How many, at most.
    pub count: u32,
    /// The text to measure them on.
    pub text: Calibration,
}

impl ClusterOptions {
    /// Bytes of the section, if no cluster stays empty.
    pub(crate) fn section_bytes(&self, config: &ModelConfig) -> u64 {
        let measurements = measured_probes(self.count).len() as u32;
        VocabClusters::section_bytes(self.count, config.hidden, config.vocab, measurements)
    }
}

/// The clusters of the file at `path`.
///
/// # Errors
/// When the vocabulary has fewer tokens, the model computes something that is not finite, or the user interrupts.
pub(crate) fn clusters_of_file(
    path: &Path,
    options: &ClusterOptions,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<VocabClusters> {
    let model = Model::load(&QsfSource::open(path)?)?;
    let decoder = Decoder::new(Arc::new(model), cpu.clone(), None).stop_on(cancel);
    Ok(vocab_clusters(&decoder, options.count as usize, &options.text.tokens, progress)?)
}
