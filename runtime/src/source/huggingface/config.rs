//! `config.json` (and `generation_config.json`): which architecture it is, and what all have in common. What the fields
//! of an architecture mean is said in its own file.
//!
//! Anything that changes what the model computes and that the decoder does not do is refused.

use std::path::Path;

use qsf_format::printable::quote;
use serde_json::{Map, Value};

use super::architectures::{self, Architecture, Reader, SourceConfig};
use super::float8;
use super::names::Names;
use super::packed;
use crate::error::{Result, RuntimeError};
use crate::model_dir::files;
use crate::model_dir::{Fields, describe};
use crate::source::mapping::TensorStore;

/// Models of several kinds of input whose language model computes what it would compute alone.
const WRAPPERS: &[&str] = &[
    "gemma3",
    "gemma3n",
    "mistral3",
    "llava",
    "llava_next",
    "internvl",
    "kimi_k25",
    "qwen3_5",
    "qwen3_5_moe",
    "gemma4",
];

/// The configuration files of a model.
pub(super) struct ConfigFiles<'a> {
    path: &'a Path,
    map: Map<String, Value>,
    generation: Option<(&'a Path, Map<String, Value>)>,
}

impl<'a> ConfigFiles<'a> {
    /// Reads `config.json` at `path` and the file `generation`, where there is one.
    pub fn read(path: &'a Path, generation: Option<&'a Path>) -> Result<ConfigFiles<'a>> {
        let map = files::read_object(path)?;
        let generation = match generation {
            Some(path) => Some((path, files::read_object(path)?)),
            None => None,
        };
        Ok(ConfigFiles { path, map, generation })
    }

    /// Takes `json` for what stands in a `config.json` at `path`, and nothing else.
    pub fn of_text(path: &'a Path, json: &[u8]) -> Result<ConfigFiles<'a>> {
        Ok(ConfigFiles { path, map: files::parse_object(path, json)?, generation: None })
    }

    fn outer(&self) -> Fields<'_> {
        Fields { path: self.path, within: "", map: &self.map }
    }

    /// The fields of the language model, and whether it is a part of a larger model.
    fn text(&self) -> Result<(Fields<'_>, bool)> {
        let outer = self.outer();
        Ok(match outer.object("text_config", "text_config.")? {
            Some(text) => (text, true),
            None => (outer, false),
        })
    }

    /// The architecture that the configuration names; `None`: it names none.
    pub fn architecture(&self) -> Result<Option<&'static Architecture>> {
        let outer = self.outer();
        let (text, nested) = self.text()?;
        let unknown = |fields: Fields<'_>, model_type: &str| {
            let what = format!("{}model type {}", fields.within.replace('.', " "), quote(model_type));
            RuntimeError::unsupported(fields.path, what, architectures::supported())
        };
        if let Some(model_type) = outer.str("model_type")?.filter(|_| nested)
            && !WRAPPERS.contains(&model_type)
        {
            return Err(unknown(outer, model_type));
        }
        // Files of the first such models do not repeat in `text_config` what the whole says.
        let model_type = match text.str("model_type")? {
            Some(model_type) => Some(model_type),
            None => outer.str("model_type")?,
        };
        let Some(model_type) = model_type else { return Ok(None) };
        let found = architectures::of_model_type(model_type).ok_or_else(|| unknown(text, model_type))?;
        Ok(Some(found))
    }

    /// Whether the language model has this field.
    pub fn has(&self, field: &str) -> Result<bool> {
        Ok(self.text()?.0.map.contains_key(field))
    }

    /// How many layers the model has behind its last that predict tokens further ahead (arXiv 2404.19737).
    pub fn layers_ahead(&self) -> Result<u32> {
        let fields = self.text()?.0;
        for name in ["num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules"]
        {
            if let Some(layers) = fields.u32(name)? {
                return Ok(layers);
            }
        }
        Ok(0)
    }

    /// An error about the configuration as a whole.
    pub fn wrong(&self, field: &str, expected: impl ToString, found: impl ToString) -> RuntimeError {
        self.outer().wrong(field, expected, found)
    }

    /// How matrices are packed, where the language model's configuration or that of the whole says that they are.
    pub fn packing(&self) -> Result<Option<packed::Method>> {
        match packed::read_method(self.outer())? {
            Some(method) => Ok(Some(method)),
            None => packed::read_method(self.text()?.0),
        }
    }

    /// Rows and columns that have a scale in common where weights are floats of 8 bits with scales. Weights quantized in
    /// other ways are packed in tensors that would be misread as plain numbers.
    pub fn float8_block(&self) -> Result<[usize; 2]> {
        for name in ["quantization_config", "compression_config"] {
            let outer = self.outer();
            let found = match outer.object(name, "quantization_config.")? {
                Some(found) => found,
                None => match self.text()?.0.object(name, "quantization_config.")? {
                    Some(found) => found,
                    None => continue,
                },
            };
            let method = found.str("quant_method")?.unwrap_or("unknown method");
            match method {
                "fp8" => {}
                "fbgemm_fp8" => {}
                "compressed-tensors" if found.str("format")? == Some("float-quantized") => {}
                _ => {
                    return Err(RuntimeError::unsupported(
                        self.path,
                        format!("a model that is already quantized ({name}, {})", quote(method)),
                        "use the original model in f16, bf16 or f32",
                    ));
                }
            }
            if let Some(block) = found.u32s("weight_block_size")? {
                let [rows, cols] = block[..] else {
                    return Err(found.wrong("weight_block_size", "two numbers", block.len()));
                };
                return Ok([rows as usize, cols as usize]);
            }
        }
        Ok(float8::DEFAULT_BLOCK)
    }

    /// The configuration of a model of `architecture` with these tensors.
    ///
    /// # Errors
    /// A field is missing or wrong, or changes the result in a way that is not supported.
    pub fn model(
        &self,
        architecture: &'static Architecture,
        names: &Names,
        store: &dyn TensorStore,
    ) -> Result<SourceConfig> {
        let outer = self.outer();
        let (fields, nested) = self.text()?;
        let reader = Reader { fields, nested, architecture, store, prefix: &names.prefix };
        let mut config = (architecture.config)(&reader)?;
        let model = &mut config.model;
        if nested {
            let (whole, part) = (outer.bool("tie_word_embeddings")?, fields.bool("tie_word_embeddings")?);
            model.tied_head = match (whole, part) {
                (Some(tied), None) | (None, Some(tied)) => tied,
                (Some(whole), Some(part)) if whole == part => whole,
                // Which of the two counts, and what it is when it is not written, differs between versions of transformers
                // and kinds of models. A head of its own is there to be used.
                _ => !names.has_head(store),
            };
        }
        let places = if nested { &[outer, fields][..] } else { &[outer] };
        for place in places {
            model.bos = model.bos.or(token_id(*place, "bos_token_id")?);
            // Nothing is computed with it; some fine-tunings name one beyond the vocabulary.
            model.pad = model.pad.or(pad_token(*place)?.filter(|&pad| pad < model.vocab));
            model.stop_tokens.extend(place.token_ids("eos_token_id")?);
        }
        if let Some((path, map)) = &self.generation {
            let fields = Fields { path, within: "", map };
            // Chat models end a turn with a token of their own, which often is listed only here.
            model.stop_tokens.extend(fields.token_ids("eos_token_id")?);
            model.bos = model.bos.or(token_id(fields, "bos_token_id")?);
        }
        keep_first_of_each(&mut model.stop_tokens);
        model.check().map_err(|problem| {
            RuntimeError::bad_input(self.path, "the configuration", "a model that can be run", problem)
        })?;
        Ok(config)
    }
}

fn token_id(fields: Fields<'_>, name: &str) -> Result<Option<u32>> {
    // A list of start tokens is accepted by transformers too; the first starts the text.
    Ok(fields.token_ids(name)?.first().copied())
}

fn pad_token(fields: Fields<'_>) -> Result<Option<u32>> {
    // The first LLaMA conversions wrote -1 for "no padding token".
    if fields.get("pad_token_id").is_some_and(|value| value.as_i64() == Some(-1)) {
        return Ok(None);
    }
    match fields.get("pad_token_id") {
        Some(list) if list.is_array() => Err(fields.wrong("pad_token_id", "a token id", describe(list))),
        _ => fields.u32("pad_token_id"),
    }
}

/// Leaves out what was there before.
pub(super) fn keep_first_of_each(ids: &mut Vec<u32>) {
    let mut seen = std::collections::HashSet::new();
    ids.retain(|&id| seen.insert(id));
}
