//! A GGUF file as it is written: room for the header first, then tensor after tensor, then the header.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use qsf_format::{FormatError, ModelConfig, PartialFile, PositionConfig, Provenance, RopeScaling, TensorId};
use qsf_runtime::RuntimeError;
use qsf_runtime::compare::configuration_differences;
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::gguf::{GgufForm, open_gguf};
use qsf_runtime::tokenizer::Tokenizer;
use serde_json::Value as Json;

use super::arrange::{Part, arranged, plus_one};
use super::header::{Entry, header, padded};
use super::layout::{Placed, ggml_type, names_of, place_all};
use super::metadata::{evaluation_keys, making, model_metadata};
use super::rope_keys::Factors;
use super::value::Pairs;
use crate::encode::TensorBlocks;
use crate::error::{ConvertError, Result};
use crate::plan::{Plan, TensorType};

/// What is to be written.
pub(crate) struct GgufRequest<'a> {
    pub source: &'a dyn WeightSource,
    pub plan: &'a Plan,
    /// `general.file_type`; that of the type with most bytes, where types are chosen.
    pub file_type: Option<u32>,
    /// With the hashes of the sources, or others as long.
    pub provenance: Provenance,
    pub evaluated: bool,
    pub check_tokenizer: bool,
    pub force: bool,
}

/// A file that is being written.
pub(crate) struct GgufWriter {
    target: PartialFile,
    file: BufWriter<File>,
    /// What the model is.
    model: Pairs,
    file_type: Option<u32>,
    evaluated: bool,
    header_bytes: u64,
    placed: Vec<Placed>,
    factors: Vec<Factors>,
    /// The tensor of the file that is next.
    next: usize,
    /// Parts of tensors that are not whole yet, or whose turn it is not.
    waiting: HashMap<TensorId, TensorBlocks>,
}

/// A file that is whole and has no name yet.
pub(crate) struct GgufFileOut {
    writer: GgufWriter,
    provenance: Provenance,
}

impl GgufWriter {
    /// Starts `out`. That the file will say the same of the model as the source is known then, for what it says is read back.
    ///
    /// # Errors
    /// When the output is there already or cannot be written, or llama.cpp's files have no word for something.
    pub fn create(out: &Path, request: &GgufRequest<'_>) -> Result<GgufWriter> {
        let names = names_of(request.source)?;
        let placed = place_all(request.source, &names, request.plan)?;
        let (model, factors) = model_metadata(request.source, &names)?;
        let (target, file) = PartialFile::create(out, request.force)?;
        let mut writer = GgufWriter {
            target,
            file: BufWriter::with_capacity(1 << 20, file),
            model,
            file_type: request.file_type,
            evaluated: request.evaluated,
            header_bytes: 0,
            placed,
            factors,
            next: 0,
            waiting: HashMap::new(),
        };
        let header = writer.header(&request.provenance, None);
        writer.header_bytes = header.len() as u64;
        writer.put(&header)?;
        for factors in &writer.factors {
            let mut bytes: Vec<u8> = factors.values.iter().flat_map(|v| v.to_le_bytes()).collect();
            bytes.resize(padded(bytes.len() as u64) as usize, 0);
            let io = |e| FormatError::io(writer.target.partial(), "write", e);
            writer.file.write_all(&bytes).map_err(io)?;
        }
        writer.check_said(request)?;
        Ok(writer)
    }

    /// The whole header.
    fn header(&self, provenance: &Provenance, evaluation: Option<&Json>) -> Vec<u8> {
        let entries = self.entries();
        let file_type = self.file_type.unwrap_or_else(|| main_file_type(&entries));
        let evaluation = self.evaluated.then_some(evaluation);
        header(&all_pairs(self.model.clone(), file_type, provenance, evaluation), &entries)
    }

    fn entries(&self) -> Vec<Entry> {
        entries(&self.placed, &self.factors)
    }

    /// Reads the header back, with holes for the tensors: whoever gets the file must find the model in it that was given.
    fn check_said(&mut self, request: &GgufRequest<'_>) -> Result<()> {
        let values: u64 = self.entries().iter().map(|entry| padded(entry.bytes)).sum();
        self.flush()?;
        let io = |e| FormatError::io(self.target.partial(), "write", e);
        self.file.get_ref().set_len(self.header_bytes + values).map_err(io)?;
        let source = request.source;
        let read = open_gguf(self.target.partial()).map_err(|error| match error {
            // Of the file that is to be: there is no file yet that a user could look at.
            RuntimeError::Unsupported { what, supported, .. } => {
                RuntimeError::unsupported(source.path(), format!("{what} in a GGUF file"), supported)
            }
            RuntimeError::BadInput { place, expected, .. } => {
                let supported = format!("llama.cpp's files of this architecture need {expected}");
                RuntimeError::unsupported(
                    source.path(),
                    format!("a model without {place} in a GGUF file"),
                    supported,
                )
            }
            other => other,
        })?;
        let differences = configuration_differences(source.config(), read.config())?;
        let differs = differences.iter().find(|difference| !may_differ(&difference.field, source.config()));
        if let Some(difference) = differs {
            let what = format!("{} = {} in a GGUF file", difference.field, difference.a);
            let supported = format!("llama.cpp's files say {} for this architecture", difference.b);
            return Err(RuntimeError::unsupported(source.path(), what, supported).into());
        }
        if let (Some(json), true) = (source.tokenizer_json(), request.check_tokenizer) {
            let tokenizer = Tokenizer::from_json(json, &source.path().join("tokenizer.json"))?;
            read.check_tokenizer(&tokenizer).map_err(ConvertError::TokenizerDiffers)?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let path = self.target.partial();
        Ok(self.file.write_all(bytes).map_err(|e| FormatError::io(path, "write", e))?)
    }

    fn flush(&mut self) -> Result<()> {
        let path = self.target.partial();
        Ok(self.file.flush().map_err(|e| FormatError::io(path, "write", e))?)
    }

    /// A tensor of the model; it is written when what comes before it in the file is.
    ///
    /// # Errors
    /// When writing fails.
    pub fn tensor(&mut self, id: TensorId, blocks: TensorBlocks) -> Result<()> {
        self.waiting.insert(id, blocks);
        while let Some(placed) = self.placed.get(self.next) {
            if !placed.parts.iter().all(|(part, _)| self.waiting.contains_key(part)) {
                break;
            }
            let parts = placed.parts.clone().into_iter();
            let parts: Vec<Part> =
                parts.filter_map(|(part, form)| Some((self.waiting.remove(&part)?, form))).collect();
            self.begin(parts.iter().map(|(blocks, _)| blocks.quant))?;
            self.values(&arranged(&parts))?;
            self.end()?;
        }
        Ok(())
    }

    /// Starts the next tensor of the file; `types` are those of its parts.
    fn begin(&mut self, mut types: impl Iterator<Item = TensorType>) -> Result<()> {
        let Some(placed) = self.placed.get_mut(self.next) else { return Ok(()) };
        let found = types.next().and_then(ggml_type);
        let ty = found.filter(|found| types.all(|other| ggml_type(other) == Some(*found)));
        let Some(ty) = ty else {
            let problem = format!(
                "{}: parts of one tensor came out in types that differ, because values of one of them are beyond the range of \
                 its type; ask for f32 or bf16 for it (--tensor-type)",
                placed.entry.name
            );
            return Err(RuntimeError::Request(problem).into());
        };
        (placed.entry.ty, placed.entry.bytes) = (ty, 0);
        Ok(())
    }

    fn values(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(placed) = self.placed.get_mut(self.next) {
            placed.entry.bytes += bytes.len() as u64;
        }
        self.put(bytes)
    }

    fn end(&mut self) -> Result<()> {
        let bytes = self.placed.get(self.next).map_or(0, |placed| placed.entry.bytes);
        self.next += 1;
        self.put(&vec![0; (padded(bytes) - bytes) as usize])
    }

    /// Starts a tensor whose rows follow in runs: one of the model as a whole, whose turn it is.
    ///
    /// # Errors
    /// When it cannot be stored as this.
    pub fn begin_runs(&mut self, quant: TensorType) -> Result<()> {
        self.begin(std::iter::once(quant))
    }

    /// Some rows of it. Tensors of the model as a whole are in the file as the model has them, or 1 larger.
    ///
    /// # Errors
    /// When writing fails.
    pub fn run(&mut self, data: &[u8]) -> Result<()> {
        match self.placed.get(self.next).and_then(|placed| placed.parts.first()) {
            Some((_, GgufForm::PlusOne)) => self.values(&plus_one(data)),
            _ => self.values(data),
        }
    }

    /// The tensor is whole.
    ///
    /// # Errors
    /// When writing fails.
    pub fn end_runs(&mut self) -> Result<()> {
        self.end()
    }

    /// The file, with its header.
    ///
    /// # Errors
    /// When writing fails, or what was written cannot be read.
    pub fn complete(mut self, provenance: Provenance) -> Result<GgufFileOut> {
        self.flush()?;
        let end =
            self.file.stream_position().map_err(|e| FormatError::io(self.target.partial(), "write", e))?;
        self.file.get_ref().set_len(end).map_err(|e| FormatError::io(self.target.partial(), "write", e))?;
        let mut out = GgufFileOut { writer: self, provenance };
        out.write_header(None)?;
        open_gguf(out.path())?;
        Ok(out)
    }
}

/// Bytes of the header of a file with these tensors.
///
/// # Errors
/// When llama.cpp's files have no word for something.
pub(crate) fn header_bytes(
    source: &dyn WeightSource,
    plan: &Plan,
    provenance: Provenance,
    evaluated: bool,
) -> Result<u64> {
    let names = names_of(source)?;
    let placed = place_all(source, &names, plan)?;
    let (model, factors) = model_metadata(source, &names)?;
    let pairs = all_pairs(model, 0, &provenance, evaluated.then_some(None));
    let factor_bytes: u64 = factors.iter().map(|factors| padded(4 * factors.values.len() as u64)).sum();
    Ok(header(&pairs, &entries(&placed, &factors)).len() as u64 + factor_bytes)
}

/// All keys; with those of an evaluation, if there is to be one.
fn all_pairs(
    mut model: Pairs,
    file_type: u32,
    provenance: &Provenance,
    evaluation: Option<Option<&Json>>,
) -> Pairs {
    model.extend(making(file_type, provenance));
    model.extend(evaluation.into_iter().flat_map(evaluation_keys));
    model
}

fn entries(placed: &[Placed], factors: &[Factors]) -> Vec<Entry> {
    let factors = factors.iter().map(|factors| Entry {
        name: factors.name.to_owned(),
        dims: vec![factors.values.len() as u64],
        ty: GgmlType::F32,
        bytes: 4 * factors.values.len() as u64,
    });
    // First: they are known before anything is quantized, and the header is read back with them.
    factors.chain(placed.iter().map(|placed| placed.entry.clone())).collect()
}

/// The recipe that is named for the type with most bytes.
fn main_file_type(entries: &[Entry]) -> u32 {
    let recipes: [(GgmlType, u32); 14] = {
        use GgmlType::*;
        [
            (Q2_K, 10),
            (Q3_K, 11),
            (Q4_K, 14),
            (Q5_K, 16),
            (Q6_K, 18),
            (IQ4_XS, 30),
            (IQ4_NL, 25),
            (Q4_0, 2),
            (Q4_1, 3),
            (Q5_0, 8),
            (Q5_1, 9),
            (Q8_0, 7),
            (F16, 1),
            (BF16, 32),
        ]
    };
    let bytes =
        |ty: GgmlType| entries.iter().filter(|entry| entry.ty == ty).map(|entry| entry.bytes).sum::<u64>();
    recipes.into_iter().max_by_key(|(ty, _)| bytes(*ty)).map_or(0, |(_, number)| number)
}

impl GgufFileOut {
    /// Its name for now.
    pub fn path(&self) -> &Path {
        self.writer.target.partial()
    }

    fn write_header(&mut self, evaluation: Option<&Json>) -> Result<()> {
        let header = self.writer.header(&self.provenance, evaluation);
        let path = self.writer.target.partial().to_owned();
        if header.len() as u64 != self.writer.header_bytes {
            let what = "the header".to_owned();
            let why = "the names of the source's files changed while it was converted".to_owned();
            return Err(FormatError::Unwritable { path, what, why }.into());
        }
        let io = |e| FormatError::io(&path, "write", e);
        self.writer.file.seek(SeekFrom::Start(0)).map_err(io)?;
        self.writer.file.write_all(&header).map_err(io)?;
        Ok(self.writer.file.flush().map_err(io)?)
    }

    /// Adds the figures of an evaluation.
    ///
    /// # Errors
    /// When writing fails.
    pub fn add_evaluation(&mut self, found: &Json) -> Result<()> {
        self.write_header(Some(found))
    }

    /// Gives the file its name; gives its size.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn publish_as(self, path: &Path) -> Result<u64> {
        let GgufWriter { mut target, file, .. } = self.writer;
        target.rename(path.to_owned());
        let file = file.into_inner().map_err(|e| FormatError::io(path, "write", e.into_error()))?;
        let bytes = file.metadata().map_err(|e| FormatError::io(path, "read", e))?.len();
        target.publish(&file)?;
        Ok(bytes)
    }
}

/// Fields that say the same in other words, or nothing of what the model computes.
fn may_differ(field: &str, config: &ModelConfig) -> bool {
    let llama3 =
        matches!(config.position, PositionConfig::Rope { scaling: Some(RopeScaling::Llama3 { .. }), .. });
    matches!(field, "architecture" | "bos" | "stop_tokens" | "pad")
        || field.starts_with("stop_tokens.")
        // A factor for each frequency instead of how they come about.
        || (llama3 && field.starts_with("position.scaling"))
        // Models of experts alone have no other feed-forward, whose width readers take from elsewhere.
        || (field == "ffn" && config.experts.as_ref().is_some_and(|experts| experts.dense_layers.is_empty()))
}
