//! Adapters as PEFT saves them: a directory with `adapter_config.json` and the pairs of matrices.

use std::path::{Path, PathBuf};

use qsf_format::ModelConfig;
use qsf_format::printable::quote;

use super::pairs::{Ends, Pairs, refuse_other, wrong};
use super::peft_config::PeftConfig;
use super::update::Update;
use crate::error::{Result, RuntimeError};
use crate::model_dir::{Fields, files};
use crate::source::HfNames;
use crate::source::huggingface::{Shards, is_of_language_part};
use crate::source::mapping::TensorStore as _;

const CONFIG: &str = "adapter_config.json";
const ENDS: Ends = Ends { down: ".lora_A.weight", up: ".lora_B.weight" };
/// What PEFT puts in front of the model's own names.
const WRAPPER: &str = "base_model.model.";

/// Reads the adapter in `dir`; gives its files, too.
pub(super) fn read(dir: &Path, config: &ModelConfig, scale: f32) -> Result<(Vec<Update>, Vec<PathBuf>)> {
    let Some(path) = files::find(dir, CONFIG)? else {
        return Err(RuntimeError::bad_input(
            dir,
            "the adapter",
            format!("{CONFIG}, as PEFT saves it"),
            "none",
        ));
    };
    let map = files::read_object(&path)?;
    let peft = PeftConfig::read(Fields { path: &path, within: "", map: &map })?;
    let names = HfNames::of(config).ok_or_else(|| {
        let what = format!("an adapter of a {} model", config.architecture);
        RuntimeError::unsupported(dir, what, HfNames::known())
    })?;
    let (table, base) = names.table();
    let store = Shards::open_adapter(dir)?;
    let Pairs { pairs, others } = Pairs::of(&store, &ENDS)?;
    if let Some(name) = others.first() {
        return Err(refuse_other(store.file_of(name), name, why_not(name)));
    }
    let (mut updates, mut prefix) = (Vec::new(), None);
    for pair in &pairs {
        let path_in_model = pair.name.strip_prefix(WRAPPER).unwrap_or(pair.name);
        let module = pair.module(table, config, path_in_model)?;
        let is_usual = module.prefix == base.trim_end_matches('.') || module.prefix.is_empty();
        let tensor = format!("{}{}", pair.name, ENDS.down);
        if !is_usual && !is_of_language_part(module.prefix) {
            let expected = format!("a module of the language model, named {base}...");
            return Err(wrong(&store, &tensor, expected, format!("{}...", module.prefix)));
        }
        if !module.is_head && *prefix.get_or_insert(module.prefix) != module.prefix {
            let expected = format!("what stands before the others ({})", quote(prefix.unwrap_or_default()));
            return Err(wrong(&store, &tensor, expected, quote(module.prefix)));
        }
        let own = peft.scale(&path, path_in_model, pair.rank)?;
        updates.extend(pair.updates(&module, path_in_model, scale * own)?);
    }
    let files = store.paths().map(Path::to_owned).chain([path.clone()]).collect();
    Ok((updates, files))
}

/// Why a tensor that is of no pair is refused, and what helps.
fn why_not(name: &str) -> &'static str {
    if name.contains("lora_embedding") {
        "adapters of embeddings are not applied; merge the adapter into the model with PEFT first"
    } else if name.contains("lora_magnitude") {
        "DoRA is not done; merge the adapter into the model with PEFT first"
    } else if name.contains("embed_tokens") || name.contains(".base_layer.") || name.contains("wte.") {
        "it is a matrix of the model itself; save the adapter with save_embedding_layers=False, or merge it first"
    } else {
        "pairs named lora_A and lora_B are read; merge the adapter into the model with PEFT first"
    }
}
