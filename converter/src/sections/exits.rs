//! Early exits of the converted model: learned by running the file before it gets its name, and stored in it (section EXIT).

use std::path::Path;
use std::sync::Arc;

use qsf_calibration::{early_exits, exit_layers};
use qsf_format::{EarlyExits, ModelConfig};
use qsf_runtime::source::QsfSource;
use qsf_runtime::{Decoder, Model};

use crate::error::Result;
use crate::options::Calibration;
use crate::session::Session;

/// Bytes of the section.
pub(crate) fn section_bytes(config: &ModelConfig) -> u64 {
    EarlyExits::section_bytes(exit_layers(config.layers as usize).len() as u32, config.hidden)
}

/// The exits of the file at `path`.
///
/// # Errors
/// When the model has too few layers, it computes something that is not finite, or the user interrupts.
pub(crate) fn exits_of_file(path: &Path, text: &Calibration, session: &Session<'_>) -> Result<EarlyExits> {
    let model = Model::load(&QsfSource::open(path)?)?;
    let decoder = Decoder::new(Arc::new(model), session.cpu.clone(), None).stop_on(session.cancel);
    Ok(early_exits(&decoder, &text.tokens, session.progress)?)
}
