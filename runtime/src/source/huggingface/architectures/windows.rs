//! Attention that reaches back a limited number of positions.
//!
//! With `sliding_window` W, transformers lets position i see the positions j with i - W < j <= i: W of them, its own
//! included, which is what [`SlidingWindow::size`] counts.

use qsf_format::printable::quote;
use qsf_format::{ModelConfig, SlidingWindow};

use super::Reader;
use crate::error::{Result, RuntimeError};

impl Reader<'_> {
    /// The window of the layers that `slides` picks: none when `size` is none, no layer is picked, or nothing that the
    /// model was made for is longer.
    pub fn window(
        &self,
        model: &ModelConfig,
        size: Option<u32>,
        slides: impl Fn(u32) -> bool,
    ) -> Option<SlidingWindow> {
        let size = size.filter(|&size| size < model.max_positions)?;
        let layers: Vec<u32> = (0..model.layers).filter(|&layer| slides(layer)).collect();
        (!layers.is_empty()).then_some(SlidingWindow { size, layers })
    }

    /// Which layers `layer_types` says have a window, where the field is there.
    pub fn sliding_layers(&self, layers: u32) -> Result<Option<Vec<bool>>> {
        let Some(types) = self.layer_types(layers)? else { return Ok(None) };
        let slides = types.into_iter().map(|kind| match kind {
            "sliding_attention" => Ok(true),
            "full_attention" => Ok(false),
            other => Err(RuntimeError::unsupported(
                self.fields.path,
                format!("layer type {}", quote(other)),
                "supported: full_attention, sliding_attention",
            )),
        });
        slides.collect::<Result<_>>().map(Some)
    }

    /// `layer_types`, one for each layer, where the field is there.
    pub fn layer_types(&self, layers: u32) -> Result<Option<Vec<&str>>> {
        let Some(types) = self.fields.strs("layer_types")? else { return Ok(None) };
        if types.len() != layers as usize {
            let expected = format!("one for each of {layers} layers");
            return Err(self.fields.wrong("layer_types", expected, types.len()));
        }
        Ok(Some(types))
    }

    /// The layers that `layer_types` calls `name`, where the field is there. All others must have attention over all positions.
    pub fn layers_of_type(&self, layers: u32, name: &str) -> Result<Option<Vec<u32>>> {
        let Some(types) = self.layer_types(layers)? else { return Ok(None) };
        let mut found = Vec::new();
        for (layer, kind) in (0..layers).zip(types) {
            match kind {
                _ if kind == name => found.push(layer),
                "full_attention" => {}
                other => {
                    let what = format!("layer type {}", quote(other));
                    let advice = format!("supported: full_attention, {name}");
                    return Err(RuntimeError::unsupported(self.fields.path, what, advice));
                }
            }
        }
        Ok(Some(found))
    }

    /// The window of Qwen 2 and 3: only with `use_sliding_window`, in the layers of `layer_types`, or from
    /// `max_window_layers` on.
    pub fn qwen_window(&self, model: &ModelConfig) -> Result<Option<SlidingWindow>> {
        let size = self.window_in_use(Some(4096))?;
        let types = self.sliding_layers(model.layers)?;
        let first = self.fields.u32("max_window_layers")?.unwrap_or(28);
        Ok(self.window(model, size, |layer| match &types {
            Some(types) => types[layer as usize],
            None => layer >= first,
        }))
    }

    /// `sliding_window` where `use_sliding_window` says that it counts.
    pub fn window_in_use(&self, default: Option<u32>) -> Result<Option<u32>> {
        let in_use = self.fields.bool("use_sliding_window")?.unwrap_or(false);
        Ok(self.window_size(default)?.filter(|_| in_use))
    }

    /// `sliding_window`; null means none, and a field that is not there what the configuration class takes for it.
    pub fn window_size(&self, default: Option<u32>) -> Result<Option<u32>> {
        let there = self.fields.map.contains_key("sliding_window");
        Ok(if there { self.fields.u32("sliding_window")? } else { default })
    }
}
