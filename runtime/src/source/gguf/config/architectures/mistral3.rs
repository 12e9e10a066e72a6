//! Ministral 3: queries that grow with their position.

use super::super::architecture::{Architecture, ExpertUse, LLAMA, Window};

pub(in super::super) const MISTRAL3: Architecture = Architecture {
    name: "mistral3",
    model_type: "ministral3",
    also: &[],
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: &["attention.temperature_scale", "rope.scaling.yarn_log_multiplier"],
    more: |reading| {
        reading.yarn_multiplier()?;
        reading.query_growth()
    },
    ..LLAMA
};
