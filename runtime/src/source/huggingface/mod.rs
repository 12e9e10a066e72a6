//! HuggingFace model directories: `config.json`, safetensors weights, `tokenizer.json`.

mod chat_template;
mod config;
mod fields;
pub(crate) mod files;
mod layout;
mod names;
mod rope;
mod shards;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};

use qsf_format::{BlockSize, ModelConfig, TensorId};

pub(crate) use self::fields::{Fields, describe};
use self::layout::{Layout, Place};
use self::shards::Shards;
use super::shape::check_complete;
use super::{Tensor, TensorBytes, TensorInfo, WeightSource};
use crate::error::{Result, RuntimeError};
use crate::tokenizer::{FoundTokenizer, Tokenizer, check_against, find_tokenizer};

/// A model in a directory as hubs hand it out. Weights stay in their files, which are mapped; GPT-2 projections are
/// transposed when they are asked for.
#[derive(Debug)]
pub struct HuggingFaceSource {
    dir: PathBuf,
    config: ModelConfig,
    tokenizer: Option<FoundTokenizer>,
    chat_template: Option<Vec<u8>>,
    files: Vec<PathBuf>,
    shards: Shards,
    layout: Layout,
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
        return Err(not_a_directory(dir));
    }
    let Some(config_path) = files::find(dir, "config.json")? else {
        return Err(RuntimeError::bad_input(dir, "config.json", "the model's configuration", "no such file"));
    };
    let generation_config = files::find(dir, "generation_config.json")?;
    let config = config::read_config(&config_path, generation_config.as_deref())?;
    let shards = Shards::open(dir)?;
    let layout = Layout::new(dir, &config, &shards)?;
    check_complete(dir, &config.model, layout.tensors())?;

    let mut all = vec![config_path];
    all.extend(generation_config);
    all.extend(shards.paths().map(Path::to_owned));
    let tokenizer = find_tokenizer(dir)?;
    all.extend(tokenizer.iter().flat_map(|found| found.files.iter().cloned()));
    let mut chat_template = None;
    if let Some((text, path)) = chat_template::find_chat_template(dir)? {
        chat_template = Some(text);
        // A template may stand in a file that says other things about the tokenizer, too.
        if !all.contains(&path) {
            all.push(path);
        }
    }
    let config = config.model;
    Ok(HuggingFaceSource {
        dir: dir.to_owned(),
        config,
        tokenizer,
        chat_template,
        files: all,
        shards,
        layout,
    })
}

impl HuggingFaceSource {
    fn bytes(&self, place: &Place, info: &TensorInfo) -> TensorBytes {
        let (_, map) = self.shards.file(place.shard);
        match &place.transposed {
            None => TensorBytes::Mapped(map.clone(), place.range.clone()),
            Some(part) => {
                let width = place.value_bytes;
                let stored_cols = place.range.len() / width / info.cols.max(1);
                let stored = &map[place.range.clone()];
                super::transpose::transpose(stored, width, stored_cols, part.clone()).into()
            }
        }
    }
}

/// What to say of a file where a directory is expected: the likeliest files are models of other formats.
fn not_a_directory(path: &Path) -> RuntimeError {
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match (read, &magic) {
        (Ok(()), b"GGUF") => RuntimeError::Unsupported {
            path: path.to_owned(),
            what: "a GGUF file".into(),
            supported: "pass the HuggingFace directory of the same model".into(),
        },
        (Ok(()), b"QSF1") => RuntimeError::bad_input(
            path,
            "the path",
            "a HuggingFace directory",
            "a QSF file, already converted",
        ),
        _ => RuntimeError::bad_input(path, "the path", "a model directory", "a file"),
    }
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
        let definition = self.tokenizer.as_ref().and_then(|found| Some((found.definition.as_ref()?, found.derived)));
        definition.map_or(Ok(()), |(definition, derived)| check_against(definition, written, derived))
    }

    fn chat_template(&self) -> Option<&[u8]> {
        self.chat_template.as_deref()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn tensors(&self) -> &[TensorInfo] {
        self.layout.tensors()
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        let Some((info, place)) = self.layout.find(id) else {
            return Err(RuntimeError::bad_input(&self.dir, id.to_string(), "a tensor of this model", "none"));
        };
        let bytes = self.bytes(place, info);
        let found = bytes.as_slice().len();
        let quant = info.stored.native().unwrap_or(qsf_format::QuantType::F32);
        Tensor::new(info.rows, info.cols, quant, BlockSize::default(), bytes).map_err(|expected| {
            let expected =
                expected.map_or_else(|| "less than 2^64 bytes".to_owned(), |n| format!("{n} bytes"));
            let (file, _) = self.shards.file(place.shard);
            RuntimeError::bad_input(file, format!("tensor {}", info.name), expected, format!("{found} bytes"))
        })
    }

    fn release(&self, layer: Option<u32>) {
        #[cfg(unix)]
        for (shard, range) in self.layout.ranges(layer) {
            release_pages(self.shards.file(shard).1, range);
        }
        #[cfg(not(unix))]
        let _ = layer;
    }
}

/// Gives back the whole pages inside `range`.
#[cfg(unix)]
fn release_pages(map: &memmap2::Mmap, range: std::ops::Range<usize>) {
    // A multiple of every page size in use (4, 16 and 64 KiB). Rounding inwards keeps the neighbours' pages.
    const STEP: usize = 64 << 10;
    let (start, end) = (range.start.next_multiple_of(STEP), range.end / STEP * STEP);
    if start < end {
        // SAFETY: the map is a private, read-only view of a file and nothing was ever written through it, so a page
        // that is dropped comes back from the file with the same bytes: tensors that borrow it see no change.
        let advised =
            unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
        // Only advice: a system that refuses it keeps the pages, which is correct too.
        let _ = advised;
    }
}
