//! A model directory as a source of weights.

use std::path::{Path, PathBuf};

use qsf_format::{ModelConfig, TensorId};

use super::architectures::Architecture;
use super::chat_template::find_chat_template;
use super::config::{ConfigFiles, keep_first_of_each};
use super::float8::Float8Store;
use super::names::{LanguagePart, Names};
use super::packed::PackedStore;
use super::recognize::recognize;
use super::shards::Shards;
use super::tied_head::is_copy;
use crate::error::{Result, RuntimeError};
use crate::model_dir::files;
use crate::source::mapping::{Form, Mapping, MappingRequest, TensorStore};
use crate::source::shape::check_complete;
use crate::source::{TensorInfo, WeightSource};
use crate::tensor::Tensor;
use crate::tokenizer::{EndTokens, FoundTokenizer, Tokenizer, check_against, find_tokenizer};
use qsf_format::printable::quote;

/// A model in a directory as hubs hand it out. Weights stay in their files, which are mapped; what is stored in another
/// way than the decoder wants it is arranged when it is asked for.
#[derive(Debug)]
pub struct HuggingFaceSource {
    dir: PathBuf,
    config: ModelConfig,
    tokenizer: Option<FoundTokenizer>,
    chat_template: Option<Vec<u8>>,
    files: Vec<PathBuf>,
    store: Box<dyn TensorStore>,
    mapping: Mapping,
}

/// Opens the model in `dir`: reads the configuration, maps the weights, and checks that every tensor of the
/// architecture is there in its shape and that there is no other.
///
/// # Errors
/// A file is missing, malformed, or contradicts another; the architecture or something that changes what it computes
/// is not supported.
pub fn open_huggingface(dir: &Path) -> Result<HuggingFaceSource> {
    let found = std::fs::metadata(dir).map_err(|e| RuntimeError::io(dir, "open", e))?;
    if !found.is_dir() {
        return Err(RuntimeError::bad_input(dir, "the path", "a model directory", "a file"));
    }
    let Some(config_path) = files::find(dir, "config.json")? else {
        return Err(no_configuration(dir));
    };
    let generation_config = files::find(dir, "generation_config.json")?;
    let config_files = ConfigFiles::read(&config_path, generation_config.as_deref())?;
    let named = config_files.architecture()?;
    let packing = config_files.packing()?;
    let shards = Shards::open(dir)?;
    let weight_files: Vec<PathBuf> = shards.paths().map(Path::to_owned).collect();
    // Tensors that are packed in several come first: what follows sees those that they stand for.
    let store: Box<dyn TensorStore> = match &packing {
        Some(method) => PackedStore::wrap(Box::new(shards), method)?,
        None => Float8Store::wrap(Box::new(shards), config_files.float8_block()?),
    };
    let architecture = match named {
        Some(architecture) => architecture,
        None => recognize(&config_files, &*store, dir)?,
    };
    if packing.is_some() {
        refuse_transposed(&config_path, architecture)?;
    }
    let names = Names::find(architecture, &*store, dir)?;
    let store = LanguagePart::of(store, &names);
    let mut config = config_files.model(architecture, &names, &*store)?;
    if config.model.tied_head
        && let Some(head) = names.head(&*store)
    {
        config.model.tied_head = is_copy(&*store, &head, &names.embedding(architecture));
    }
    let heads: Vec<(&str, &str)> =
        names.heads.iter().map(|(name, prefix)| (*name, prefix.as_str())).collect();
    let request = MappingRequest {
        path: dir,
        config: &config.model,
        table: &architecture.table,
        prefix: &names.prefix,
        bare: &heads,
        declared: &config.declared,
        layers_ahead: config_files.layers_ahead()?,
    };
    let mapping = Mapping::new(request, &*store)?;
    check_complete(dir, &config.model, mapping.tensors())?;
    check_stored(&mapping, &*store)?;

    let mut all = vec![config_path];
    all.extend(generation_config);
    all.extend(weight_files);
    let tokenizer = find_tokenizer(dir)?;
    if let Some(found) = &tokenizer {
        let before = config.model.stop_tokens.clone();
        add_stop_tokens(&mut config.model, &found.end_tokens);
        if config.model.stop_tokens != before {
            all.extend(found.end_files.iter().cloned());
        }
    }
    all.extend(tokenizer.iter().flat_map(|found| found.files.iter().cloned()));
    let mut chat_template = None;
    if let Some((text, path)) = find_chat_template(dir)? {
        chat_template = Some(text);
        // A template may stand in a file that says other things about the tokenizer, too.
        if !all.contains(&path) {
            all.push(path);
        }
    }
    Ok(HuggingFaceSource {
        dir: dir.to_owned(),
        config: config.model,
        tokenizer,
        chat_template,
        files: all,
        store,
        mapping,
    })
}

/// Adds the tokens that end an answer to those of the configuration, which chat models often name in their tokenizer only. The
/// tokenizer's own goes first: templates write it as `eos_token`. One that the model has no row for is never chosen.
fn add_stop_tokens(config: &mut ModelConfig, tokens: &EndTokens) {
    let vocab = config.vocab;
    let known = |id: &u32| *id < vocab;
    let mut all: Vec<u32> = tokens.eos.into_iter().filter(known).collect();
    all.append(&mut config.stop_tokens);
    all.extend(tokens.known.iter().copied().filter(known));
    keep_first_of_each(&mut all);
    config.stop_tokens = all;
}

/// Says what the directory holds instead, where that can be told.
fn no_configuration(dir: &Path) -> RuntimeError {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let ending = |end: &str| names.iter().find(|name| name.ends_with(end));
    let (gguf, qsf) = (ending(".gguf"), ending(".qsf"));
    let below = names.iter().find(|name| dir.join(name).join("config.json").is_file());
    let cached = names.iter().find(|name| name.starts_with("models--") && dir.join(name).is_dir());
    let found = match gguf {
        _ if names.iter().any(|name| name == "adapter_config.json") => {
            "no such file; this is an adapter, to be merged into its base model first".to_owned()
        }
        Some(name) => format!("no such file; pass the GGUF file itself: {}", quote(name)),
        None => match (qsf, cached, below) {
            (Some(name), _, _) => format!("no such file; pass the QSF file itself: {}", quote(name)),
            (_, Some(name), _) => {
                format!("no such file; this is a cache of the hub: pass a folder in it, as {}", quote(name))
            }
            (_, _, Some(name)) => format!("no such file; a model is in the folder {} in it", quote(name)),
            _ => "no such file".to_owned(),
        },
    };
    RuntimeError::bad_input(dir, "config.json", "the model's configuration", found)
}

/// Types and sizes of all tensors in use, so that a model that opens can be converted to its end. No value is read.
fn check_stored(mapping: &Mapping, store: &dyn TensorStore) -> Result<()> {
    mapping.names().try_for_each(|name| store.check(name))
}

/// Tools that pack matrices turn those that lie as inputs x outputs, and a square one does not show it.
fn refuse_transposed(config: &Path, architecture: &Architecture) -> Result<()> {
    if architecture.table.rules.iter().all(|rule| rule.form != Form::Transposed) {
        return Ok(());
    }
    let what = format!("a {} model that is already quantized", architecture.name());
    Err(RuntimeError::unsupported(config, what, "use the original model in f16, bf16 or f32"))
}

impl WeightSource for HuggingFaceSource {
    fn path(&self) -> &Path {
        &self.dir
    }

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        self.tokenizer.as_ref().map(|found| &*found.json)
    }

    fn check_tokenizer(&self, written: &Tokenizer) -> Result<()> {
        let definition =
            self.tokenizer.as_ref().and_then(|found| Some((found.definition.as_ref()?, found.derived)));
        definition.map_or(Ok(()), |(definition, derived)| check_against(definition, written, derived))
    }

    fn chat_template(&self) -> Option<&[u8]> {
        self.chat_template.as_deref()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn tensors(&self) -> &[TensorInfo] {
        self.mapping.tensors()
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        self.mapping.load(id, &*self.store, &self.dir)
    }

    fn release(&self, layer: Option<u32>) {
        let names: Vec<&str> = self.mapping.names_of(layer).collect();
        self.store.release(&names);
    }
}
