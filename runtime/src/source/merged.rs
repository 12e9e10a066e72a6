//! A model with adapters added to its matrices: what it is converted from where they are to become a part of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_cpu::Isa;
use qsf_format::{ModelConfig, QuantType, TensorId, TensorKind};

use super::adapter::{Adapter, Update};
use super::{TensorInfo, WeightSource};
use crate::error::Result;
use crate::gguf::Metadata;
use crate::tensor::{ForeignRows, StoredType, Tensor};
use crate::tokenizer::Tokenizer;

/// A source whose matrices have adapters added, in f32 and row by row. All else is that of the source.
pub struct Merged {
    source: Box<dyn WeightSource>,
    tensors: Vec<TensorInfo>,
    updates: HashMap<TensorId, Arc<Vec<Update>>>,
    files: Vec<PathBuf>,
}

impl Merged {
    /// `source` and what `adapters` add to it.
    ///
    /// # Errors
    /// When one changes a matrix that cannot be changed alone.
    pub fn new(source: Box<dyn WeightSource>, adapters: Vec<Adapter>) -> Result<Merged> {
        let mut tensors = source.tensors().to_vec();
        let mut files = source.files();
        let mut updates: HashMap<TensorId, Vec<Update>> = HashMap::new();
        for mut adapter in adapters {
            files.append(&mut adapter.files);
            for update in std::mem::take(&mut adapter.updates) {
                let Some(info) = tensors.iter_mut().find(|info| info.id == update.id) else {
                    let tied = update.id.kind == TensorKind::Head && source.config().tied_head;
                    let why = if tied {
                        "the head has the matrix of the embedding; the adapter can be applied while running: --lora"
                    } else {
                        "the model has no such matrix of its own"
                    };
                    return Err(adapter.not_applied(&update, why));
                };
                info.stored = QuantType::F32.into();
                updates.entry(update.id).or_default().push(update);
            }
        }
        let updates = updates.into_iter().map(|(id, updates)| (id, Arc::new(updates))).collect();
        Ok(Merged { source, tensors, updates, files })
    }
}

impl WeightSource for Merged {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn config(&self) -> &ModelConfig {
        self.source.config()
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        self.source.tokenizer_json()
    }

    fn check_tokenizer(&self, written: &Tokenizer) -> Result<()> {
        self.source.check_tokenizer(written)
    }

    fn chat_template(&self) -> Option<&[u8]> {
        self.source.chat_template()
    }

    fn gguf_metadata(&self) -> Option<&Metadata> {
        self.source.gguf_metadata()
    }

    fn quantized_from(&self) -> Vec<String> {
        self.source.quantized_from()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        let stored = self.source.load(id)?;
        let Some(updates) = self.updates.get(&id) else { return Ok(stored) };
        let (rows, cols) = (stored.rows(), stored.cols());
        Ok(Tensor::foreign(rows, cols, Arc::new(MergedRows { stored, updates: updates.clone() })))
    }

    fn release(&self, layer: Option<u32>) {
        self.source.release(layer);
    }
}

/// Rows of a matrix with what is added.
#[derive(Debug)]
struct MergedRows {
    stored: Tensor,
    updates: Arc<Vec<Update>>,
}

impl ForeignRows for MergedRows {
    fn stored_type(&self) -> StoredType {
        QuantType::F32.into()
    }

    fn row_bytes(&self) -> usize {
        self.stored.cols() * size_of::<f32>()
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        self.stored.decode_row(isa, row, out);
        for update in self.updates.iter() {
            // The rows of an expert, where it has updates of its own.
            let [rows, _] = update.low_rank.shape();
            let first = update.expert.unwrap_or(0) * rows;
            if let Some(row) = row.checked_sub(first).filter(|row| *row < rows) {
                update.low_rank.add_to_row(isa, row, out);
            }
        }
    }
}
