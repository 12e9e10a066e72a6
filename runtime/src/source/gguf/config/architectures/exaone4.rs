//! EXAONE 4: norms behind attention and feed-forward; of models with windows, layers without one see no positions.

use qsf_format::{NormPlacement, QkNorm};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::cohere::unrotated_without_window;
use crate::source::gguf::names;

pub(in super::super) const EXAONE4: Architecture = Architecture {
    name: "exaone4",
    model_type: "exaone4",
    also: &[],
    placement: NormPlacement::Post,
    qk_norm: Some(QkNorm::Head),
    positions: ROTARY,
    window: Window::AllButEvery(4),
    experts: ExpertUse::Never,
    more: |reading| {
        if reading.config.sliding_window.is_some() {
            unrotated_without_window(reading);
        }
        Ok(())
    },
    table: &names::PLAIN,
    ..LLAMA
};
