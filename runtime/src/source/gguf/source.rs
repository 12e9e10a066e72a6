//! A GGUF file as a source of weights.

use std::path::{Path, PathBuf};

use qsf_format::{ModelConfig, TensorId, TensorKind};

use super::config;
use super::store::Store;
use crate::error::Result;
use crate::gguf::{GgufFile, Metadata};
use crate::source::mapping::{Mapping, MappingRequest};
use crate::source::shape::check_complete;
use crate::source::{TensorInfo, WeightSource};
use crate::tensor::Tensor;
use crate::tokenizer::{Tokenizer, check_against, read_gguf_tokenizer};

/// A model in a GGUF file, or in several. Weights stay in their files, which are mapped, and are decoded row by row as
/// they are needed.
#[derive(Debug)]
pub struct GgufSource {
    config: ModelConfig,
    tokenizer_json: Option<Vec<u8>>,
    chat_template: Option<Vec<u8>>,
    store: Store,
    mapping: Mapping,
}

/// Opens the model whose first, or only, file is `path`: reads what it says of the model, and checks that every tensor of
/// the architecture is there in its shape and that there is no other.
///
/// # Errors
/// A file is missing, malformed or contradicts itself; the architecture, a type, or something that changes what the
/// model computes is not supported.
pub fn open_gguf(path: &Path) -> Result<GgufSource> {
    let file = GgufFile::open(path)?;
    let config::Described { mut config, architecture, layers_ahead } = config::read(&file)?;
    let tokenizer = read_gguf_tokenizer(&file.metadata)?;
    for stop in tokenizer.iter().flat_map(|tokenizer| &tokenizer.stop_tokens) {
        if !config.stop_tokens.contains(stop) {
            config.stop_tokens.push(*stop);
        }
    }
    config::check(path, &config)?;
    let tokenizer_json = tokenizer.map(|tokenizer| tokenizer.definition.to_json()).transpose()?;
    let chat_template = file.metadata.str("tokenizer.chat_template")?.map(|text| text.as_bytes().to_vec());
    let table = architecture.table(&config);
    let store = Store::new(file, table)?.with_layer_values(architecture.layer_values)?;
    let declared: Vec<(TensorKind, bool)> = architecture.biases.iter().map(|&kind| (kind, true)).collect();
    let request = MappingRequest {
        path,
        config: &config,
        table,
        prefix: "",
        bare: &[],
        declared: &declared,
        layers_ahead,
    };
    let mapping = Mapping::new(request, &store)?;
    check_complete(path, &config, mapping.tensors())?;
    Ok(GgufSource { config, tokenizer_json, chat_template, store, mapping })
}

impl WeightSource for GgufSource {
    fn path(&self) -> &Path {
        self.store.file().path()
    }

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        self.tokenizer_json.as_deref()
    }

    fn gguf_metadata(&self) -> Option<&Metadata> {
        Some(&self.store.file().metadata)
    }

    fn check_tokenizer(&self, written: &Tokenizer) -> Result<()> {
        // Read again: kept, the vocabulary would take its memory as long as the model runs.
        let found = read_gguf_tokenizer(&self.store.file().metadata)?;
        found.map_or(Ok(()), |found| check_against(&found.definition, written, true))
    }

    fn chat_template(&self) -> Option<&[u8]> {
        self.chat_template.as_deref()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.store.file().shards.iter().map(|shard| shard.path.clone()).collect()
    }

    fn tensors(&self) -> &[TensorInfo] {
        self.mapping.tensors()
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        self.mapping.load(id, &self.store, self.path())
    }

    fn release(&self, layer: Option<u32>) {
        for name in self.mapping.names_of(layer) {
            if let Some(tensor) = self.store.find(name) {
                self.store.file().shards[tensor.shard].map.release(tensor.range.clone());
            }
        }
    }
}
