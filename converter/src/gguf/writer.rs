//! A GGUF file as it is written, or several: room for a header first, then tensor after tensor, then the header.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use qsf_format::{FormatError, Provenance, TensorId};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::gguf::{GgufForm, open_gguf};
use serde_json::Value as Json;

use super::arrange::{Part, arranged, plus_one};
use super::header::padded;
use super::headers::{Headers, Place};
use super::layout::{ggml_type, names_of, place_all};
use super::part_file::PartFile;
use super::rope_keys::Factors;
use super::said::check_said;
use super::split::{check_count, range_of_part};
use super::target::Target;
use crate::encode::TensorBlocks;
use crate::error::Result;
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
    /// Most bytes of the values of a file; without, there is one file.
    pub split_size: Option<u64>,
}

/// A file that is being written, or several.
pub(crate) struct GgufWriter {
    target: Target,
    headers: Headers,
    factors: Vec<Factors>,
    /// What each tensor of the file behind the factors holds.
    held: Vec<Vec<(TensorId, GgufForm)>>,
    split_size: Option<u64>,
    /// Files; the last is being filled.
    parts: Vec<PartFile>,
    /// The tensor of the file that is next, factors counted.
    next: usize,
    /// Bytes of it that are written.
    written: u64,
    /// Its first row, where rows come in runs: the file may have more of them than the model.
    first_row: Vec<u8>,
    /// Parts of tensors that are not whole yet, or whose turn it is not.
    waiting: HashMap<TensorId, TensorBlocks>,
}

/// Files that are whole and have no names yet.
pub(crate) struct GgufFileOut {
    target: Target,
    headers: Headers,
    parts: Vec<PartFile>,
}

impl GgufWriter {
    /// Starts `out`. That the file will say the same of the model as the source is known then, for what it says is read back.
    ///
    /// # Errors
    /// When the output is there already or cannot be written, or llama.cpp's files have no word for something.
    pub fn create(out: &Path, request: &GgufRequest<'_>) -> Result<GgufWriter> {
        let GgufRequest { source, plan, file_type, evaluated, split_size, .. } = *request;
        let provenance = request.provenance.clone();
        let (headers, factors, placed) = Headers::new(source, plan, provenance, file_type, evaluated)?;
        if let Some(most) = split_size {
            check_count(headers.ranges(split_size).len(), most)?;
        }
        let target = Target::create(out, split_size.is_some(), request.force)?;
        let held = placed.into_iter().map(|placed| placed.parts).collect();
        let (parts, waiting) = (Vec::new(), HashMap::new());
        let writer = GgufWriter {
            target,
            headers,
            factors,
            held,
            split_size,
            parts,
            next: 0,
            written: 0,
            first_row: Vec::new(),
            waiting,
        };
        writer.check_said(source, request.check_tokenizer)?;
        Ok(writer)
    }

    /// Reads a header of the whole model back, with holes for the values.
    fn check_said(&self, source: &dyn WeightSource, check_tokenizer: bool) -> Result<()> {
        let entries = &self.headers.entries;
        let header = self.headers.of(Place { number: 0, count: 1 }, 0..entries.len());
        let mut whole = self.target.begin(0, 0, header.len() as u64)?;
        for factors in &self.factors {
            let mut bytes = factors.bytes();
            bytes.resize(padded(bytes.len() as u64) as usize, 0);
            whole.put(&bytes)?;
        }
        whole.values = entries.iter().map(|entry| padded(entry.bytes)).sum();
        whole.end(header.len() as u64)?;
        whole.write_header(&header)?;
        check_said(&whole.path, source, check_tokenizer)
    }

    /// Takes other types for what is to come; no tensor is written yet.
    ///
    /// # Errors
    /// When the file cannot have them.
    pub fn expect(&mut self, source: &dyn WeightSource, plan: &Plan) -> Result<()> {
        let placed = place_all(source, &names_of(source)?, plan)?;
        let behind = self.factors.len()..;
        for (entry, placed) in self.headers.entries[behind].iter_mut().zip(placed) {
            *entry = placed.entry;
        }
        Ok(())
    }

    /// What the next tensor of the file holds.
    fn held(&self) -> Option<&Vec<(TensorId, GgufForm)>> {
        self.next.checked_sub(self.factors.len()).map_or(self.held.first(), |at| self.held.get(at))
    }

    /// A tensor of the model; it is written when what comes before it in the file is.
    ///
    /// # Errors
    /// When writing fails.
    pub fn tensor(&mut self, id: TensorId, blocks: TensorBlocks) -> Result<()> {
        self.waiting.insert(id, blocks);
        while let Some(held) = self.held() {
            if !held.iter().all(|(part, _)| self.waiting.contains_key(part)) {
                break;
            }
            let held = held.clone().into_iter();
            let parts: Vec<Part> =
                held.filter_map(|(part, form)| Some((self.waiting.remove(&part)?, form))).collect();
            self.begin(parts.iter().map(|(blocks, _)| blocks.quant))?;
            self.put(&arranged(&parts))?;
            self.end()?;
        }
        Ok(())
    }

    /// Starts the next tensor of the file; `types` are those of its parts.
    fn begin(&mut self, mut types: impl Iterator<Item = TensorType>) -> Result<()> {
        self.factors()?;
        let found = types.next().and_then(ggml_type);
        let ty = found.filter(|found| types.all(|other| ggml_type(other) == Some(*found)));
        let Some(entry) = self.headers.entries.get_mut(self.next) else { return Ok(()) };
        let Some(ty) = ty else {
            let problem = format!(
                "{}: parts of one tensor came out in types that differ, because values of one of them are beyond the range of \
                 its type; ask for f32 or bf16 for it (--tensor-type)",
                entry.name
            );
            return Err(RuntimeError::Request(problem).into());
        };
        entry.ty = ty;
        let values: u64 = entry.dims.iter().product();
        entry.bytes = values / ty.block_len() as u64 * ty.block_bytes() as u64;
        self.place()
    }

    /// Writes the factors, which are the first tensors.
    fn factors(&mut self) -> Result<()> {
        while let Some(bytes) = self.factors.get(self.next).map(Factors::bytes) {
            self.place()?;
            self.put(&bytes)?;
            self.end()?;
        }
        Ok(())
    }

    /// Finds a file for the next tensor, whose size is known: the one that is being filled, or another.
    fn place(&mut self) -> Result<()> {
        self.written = 0;
        let Some(entry) = self.headers.entries.get(self.next) else { return Ok(()) };
        let fits = |part: &PartFile| {
            let bytes = part.values.saturating_add(padded(entry.bytes));
            part.values == 0 || self.split_size.is_none_or(|most| bytes <= most)
        };
        if !self.parts.last().is_some_and(fits) {
            self.end_part()?;
            let number = self.parts.len();
            check_count(number + 1, self.split_size.unwrap_or(u64::MAX))?;
            let all = self.headers.entries.len();
            let range = match self.split_size {
                Some(most) => range_of_part(&self.headers.entries, self.next, most),
                None => self.next..all,
            };
            let count = 1 + usize::from(range.end < all) + number;
            let room = self.headers.of(Place { number, count }, range).len() as u64;
            self.parts.push(self.target.begin(number, self.next, room)?);
        }
        if let Some(part) = self.parts.last_mut() {
            part.entries.end = self.next + 1;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.parts.last_mut().map_or(Ok(()), |part| part.put(bytes))
    }

    /// Bytes that the tensor has in the file beyond those that are written.
    fn rest(&self) -> u64 {
        self.headers.entries.get(self.next).map_or(0, |entry| entry.bytes.saturating_sub(self.written))
    }

    fn end(&mut self) -> Result<()> {
        // Tokens without an embedding for layers have that of the first token.
        while self.rest() > 0 && !self.first_row.is_empty() {
            let row = std::mem::take(&mut self.first_row);
            self.put(&row[..row.len().min(self.rest() as usize)])?;
            self.first_row = row;
        }
        self.next += 1;
        let Some(part) = self.parts.last_mut() else { return Ok(()) };
        let fill = padded(part.values) - part.values;
        part.put(&vec![0; fill as usize])
    }

    /// Ends the file that is being filled, if one is.
    fn end_part(&mut self) -> Result<()> {
        let number = self.parts.len().saturating_sub(1);
        let Some(part) = self.parts.last_mut() else { return Ok(()) };
        let count = 1 + usize::from(part.entries.end < self.headers.entries.len()) + number;
        part.end(self.headers.of(Place { number, count }, part.entries.clone()).len() as u64)
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
        if let Some(entry) = self.headers.entries.get(self.next).filter(|_| self.written == 0) {
            let rows = entry.dims.iter().skip(1).product::<u64>().max(1);
            self.first_row = data.get(..(entry.bytes / rows) as usize).unwrap_or(data).to_vec();
        }
        match self.held().and_then(|held| held.first()) {
            Some((_, GgufForm::PlusOne)) => self.put(&plus_one(data)),
            _ => self.put(data),
        }
    }

    /// The tensor is whole.
    ///
    /// # Errors
    /// When writing fails.
    pub fn end_runs(&mut self) -> Result<()> {
        self.end()
    }

    /// The files, with their headers.
    ///
    /// # Errors
    /// When writing fails, or what was written cannot be read.
    pub fn complete(mut self, provenance: Provenance) -> Result<GgufFileOut> {
        self.factors()?;
        self.end_part()?;
        let GgufWriter { target, mut headers, mut parts, .. } = self;
        headers.provenance = provenance;
        target.name(&mut parts)?;
        let out = GgufFileOut { target, headers, parts };
        (0..out.parts.len()).try_for_each(|number| out.write_header(number))?;
        open_gguf(out.path())?;
        Ok(out)
    }
}

impl GgufFileOut {
    /// The name for now of the file that readers open.
    pub fn path(&self) -> &Path {
        self.parts.first().map_or(self.target.path(), |part| &part.path)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(PartFile::bytes).sum()
    }

    fn write_header(&self, number: usize) -> Result<()> {
        let Some(part) = self.parts.get(number) else { return Ok(()) };
        let header = self.headers.of(Place { number, count: self.parts.len() }, part.entries.clone());
        if part.write_header(&header)? {
            return Ok(());
        }
        let (path, what) = (part.path.clone(), "the header".to_owned());
        let why = "the names of the source's files changed while it was converted".to_owned();
        Err(FormatError::Unwritable { path, what, why }.into())
    }

    /// Adds the figures of an evaluation.
    ///
    /// # Errors
    /// When writing fails.
    pub fn add_evaluation(&mut self, found: &Json) -> Result<()> {
        self.headers.evaluation = Some(found.clone());
        self.write_header(0)
    }

    /// Gives the files their names, by that of a single one; gives these.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn publish_as(self, path: &Path) -> Result<Vec<PathBuf>> {
        self.target.publish_as(path, &self.parts)
    }
}
