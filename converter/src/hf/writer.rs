//! A model directory as it is written: file after file, tensor after tensor, each as soon as its parts are there.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use qsf_format::{BlockSize, CodeTables, Outliers, PartialDir, Provenance, TensorId};
use qsf_runtime::RuntimeError;
use qsf_runtime::compare::configuration_differences;
use qsf_runtime::cpu::Isa;
use qsf_runtime::grouped::GroupType;
use qsf_runtime::source::{SavedTensor, Tensor, WeightSource, open_huggingface};
use serde_json::{Map, Value, json};

use super::companions::{pretty, write_companions};
use super::fields::as_written;
use super::layout::{Laid, lay_out};
use super::shards::{Shard, header, index, shards};
use super::stored::DirTensor;
use crate::dtype::HfOut;
use crate::encode::{StoredTensor, TensorBlocks};
use crate::error::{ConvertError, Result};
use crate::plan::{Plan, TensorType};

/// Where the directory says how it came about.
const ORIGIN: &str = "qsf.json";

/// A directory that is being written.
pub(crate) struct HfWriter {
    dir: PartialDir,
    out: HfOut,
    laid: Laid,
    shards: Vec<Shard>,
    /// The tensor that is next, and its file.
    next: usize,
    shard: usize,
    file: Option<BufWriter<File>>,
    /// Parts of tensors that are not whole yet, or whose turn it is not.
    waiting: HashMap<TensorId, Tensor>,
    /// The same of those that are rows of groups.
    groups: HashMap<TensorId, Vec<u8>>,
    /// The rows so far of one that comes in runs and cannot be written as it comes.
    runs: Option<Runs>,
    isa: Isa,
    block: BlockSize,
    tables: Arc<CodeTables>,
}

/// Rows that wait for the others of their tensor.
enum Runs {
    Floats(Vec<f32>),
    Groups(Vec<u8>),
}

/// A directory that is whole and has no name yet.
pub(crate) struct HfDirectory {
    dir: PartialDir,
    /// How it came about.
    origin: Map<String, Value>,
}

impl HfWriter {
    /// Starts `path`.
    ///
    /// # Errors
    /// When it is there already or cannot be written, or transformers has no word for something.
    pub fn create(
        path: &Path,
        source: &dyn WeightSource,
        out: HfOut,
        plan: &Plan,
        force: bool,
        (isa, block, tables): (Isa, BlockSize, Arc<CodeTables>),
    ) -> Result<HfWriter> {
        let laid = lay_out(source, out, Some(plan))?;
        let shards = shards(&laid.tensors, out);
        Ok(HfWriter {
            dir: PartialDir::create(path, force)?,
            out,
            laid,
            shards,
            next: 0,
            shard: 0,
            file: None,
            waiting: HashMap::new(),
            groups: HashMap::new(),
            runs: None,
            isa,
            block,
            tables,
        })
    }

    /// Takes the types of `plan` for what is to come; no tensor is written yet.
    ///
    /// # Errors
    /// As [`lay_out`].
    pub fn expect(&mut self, source: &dyn WeightSource, plan: &Plan) -> Result<()> {
        self.laid = lay_out(source, self.out, Some(plan))?;
        self.shards = shards(&self.laid.tensors, self.out);
        Ok(())
    }

    /// A tensor of the model; what it makes whole is written.
    ///
    /// # Errors
    /// When writing fails, or values are beyond the range of the type.
    pub fn tensor(&mut self, stored: &StoredTensor) -> Result<()> {
        if let TensorType::Groups(_) = stored.encoded.quant {
            self.groups.insert(stored.id, stored.encoded.data.clone());
            return self.write_whole();
        }
        let tensor = stored.tensor(self.block, &self.tables)?;
        self.arrived(stored.id, tensor)
    }

    fn arrived(&mut self, id: TensorId, tensor: Tensor) -> Result<()> {
        self.waiting.insert(id, tensor);
        self.write_whole()
    }

    /// Writes the tensors whose parts are there, in their order.
    fn write_whole(&mut self) -> Result<()> {
        while let Some(DirTensor { saved, groups }) = self.laid.tensors.get(self.next) {
            let is_there = |id| self.waiting.contains_key(&id) || self.groups.contains_key(&id);
            if !saved.parts().all(is_there) {
                break;
            }
            let (saved, groups) = (saved.clone(), *groups);
            self.check_types(&saved, groups)?;
            self.begin()?;
            match groups {
                Some(ty) => {
                    let bytes = DirTensor { saved: saved.clone(), groups }.packed(ty, &self.groups);
                    self.put(&bytes)?;
                }
                None => {
                    let (parts, isa) = (std::mem::take(&mut self.waiting), self.isa);
                    let take = &mut |values: &[f32]| self.values(&saved, values);
                    saved.write(isa, &|id| parts.get(&id).cloned(), take)?;
                    self.waiting = parts;
                }
            }
            self.end(&saved)?;
        }
        Ok(())
    }

    /// What is laid out as groups must be some: values beyond the range of their scales become floats.
    fn check_types(&self, saved: &SavedTensor, groups: Option<GroupType>) -> Result<()> {
        let is_groups = |id: TensorId| self.groups.contains_key(&id);
        match saved.parts().find(|id| is_groups(*id) != groups.is_some()) {
            None => Ok(()),
            Some(id) => {
                let problem = format!(
                    "{id}: its scales are beyond the range of {}: give --dtype bf16 or f32, or leave the matrix as it is \
                     (--tensor-type '{id}=f32')",
                    self.out.dtype
                );
                Err(RuntimeError::Request(problem).into())
            }
        }
    }

    /// Starts a tensor whose rows follow in runs, as `quant`.
    ///
    /// # Errors
    /// When writing fails.
    pub fn begin_runs(&mut self, id: TensorId, quant: TensorType) -> Result<()> {
        // Of several tensors that it is written as, none is all of its rows.
        let behind = self.laid.tensors.get(self.next + 1);
        let is_cut = behind.is_some_and(|tensor| tensor.saved.parts().any(|part| part == id));
        match self.laid.tensors.get(self.next) {
            Some(DirTensor { saved, groups: None })
                if saved.is_plain() && saved.parts().next() == Some(id) && !is_cut =>
            {
                self.begin()
            }
            _ => {
                self.runs = Some(match quant {
                    TensorType::Groups(_) => Runs::Groups(Vec::new()),
                    _ => Runs::Floats(Vec::new()),
                });
                Ok(())
            }
        }
    }

    /// Some rows of it.
    ///
    /// # Errors
    /// When writing fails, or values are beyond the range of the type.
    pub fn run(&mut self, id: TensorId, rows: &TensorBlocks, outliers: &Outliers) -> Result<()> {
        if let Some(Runs::Groups(runs)) = &mut self.runs {
            runs.extend(&rows.data);
            return Ok(());
        }
        let values = rows.tensor(id, outliers, self.block, &self.tables)?.to_f32();
        match &mut self.runs {
            Some(Runs::Floats(runs)) => runs.extend(values),
            Some(Runs::Groups(_)) => {}
            None => {
                if let Some(DirTensor { saved, .. }) = self.laid.tensors.get(self.next).cloned() {
                    self.values(&saved, &values)?;
                }
            }
        }
        Ok(())
    }

    /// It is whole, and has so many columns.
    ///
    /// # Errors
    /// When writing fails.
    pub fn end_runs(&mut self, id: TensorId, cols: usize) -> Result<()> {
        match self.runs.take() {
            Some(Runs::Floats(values)) => {
                let rows = values.len() / cols.max(1);
                self.arrived(id, Tensor::from_f32(rows, cols, &values))
            }
            Some(Runs::Groups(rows)) => {
                self.groups.insert(id, rows);
                self.write_whole()
            }
            None => match self.laid.tensors.get(self.next).cloned() {
                Some(DirTensor { saved, .. }) => self.end(&saved),
                None => Ok(()),
            },
        }
    }

    /// Starts the next tensor; with the first of a file, the file.
    fn begin(&mut self) -> Result<()> {
        let Some(shard) = self.shards.get(self.shard) else { return Ok(()) };
        if self.file.is_none() {
            let path = self.dir.partial().join(&shard.name);
            let header = header(&self.laid.tensors[shard.tensors.clone()], self.out);
            let file = File::create(&path).map_err(|e| ConvertError::io(&path, "create", e))?;
            let mut file = BufWriter::with_capacity(1 << 20, file);
            file.write_all(&header).map_err(|e| ConvertError::io(&path, "write", e))?;
            self.file = Some(file);
        }
        Ok(())
    }

    fn values(&mut self, saved: &SavedTensor, values: &[f32]) -> Result<()> {
        let bytes = self.out.bytes(values).map_err(|value| {
            let problem = format!(
                "{}: {value} is beyond the range of {}: give --dtype bf16 or f32",
                saved.name, self.out.dtype
            );
            ConvertError::Runtime(RuntimeError::Request(problem))
        })?;
        self.put(&bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let path = self.dir.partial();
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|e| ConvertError::io(path, "write", e)),
            None => Ok(()),
        }
    }

    fn end(&mut self, saved: &SavedTensor) -> Result<()> {
        self.next += 1;
        // Each tensor of the model is in one of the directory.
        saved.parts().for_each(|part| self.part_done(part));
        let ends = self.shards.get(self.shard).is_some_and(|shard| shard.tensors.end == self.next);
        if ends {
            self.shard += 1;
            if let Some(mut file) = self.file.take() {
                file.flush().map_err(|e| ConvertError::io(self.dir.partial(), "write", e))?;
            }
        }
        Ok(())
    }

    /// Experts that have a tensor each are parts of one of the model, which is needed until the last of them is written.
    fn part_done(&mut self, id: TensorId) {
        let mut later = self.laid.tensors[self.next..].iter();
        if !later.next().is_some_and(|tensor| tensor.saved.parts().any(|part| part == id)) {
            self.waiting.remove(&id);
            self.groups.remove(&id);
        }
    }

    /// The directory with all its files.
    ///
    /// # Errors
    /// When writing fails, or what was written is not the model.
    pub fn complete(self, source: &dyn WeightSource, provenance: &Provenance) -> Result<HfDirectory> {
        let HfWriter { dir, laid, shards, out, .. } = self;
        write_companions(source, dir.partial())?;
        let origin = origin_of(provenance);
        let mut files = vec![("config.json", laid.configurations.config), (ORIGIN, origin.clone())];
        files.extend(laid.configurations.generation.map(|fields| ("generation_config.json", fields)));
        files.extend(
            index(&laid.tensors, &shards, out).map(|fields| ("model.safetensors.index.json", fields)),
        );
        for (name, fields) in files {
            write_json(dir.partial(), name, &fields)?;
        }
        let made = HfDirectory { dir, origin };
        made.check(source)?;
        Ok(made)
    }
}

impl HfDirectory {
    /// Its name for now.
    pub fn path(&self) -> &Path {
        self.dir.partial()
    }

    /// Bytes of all files.
    ///
    /// # Errors
    /// When they cannot be looked at.
    pub fn bytes(&self) -> Result<u64> {
        Ok(self.dir.bytes()?)
    }

    /// Whoever opens it must find the model that was given.
    fn check(&self, source: &dyn WeightSource) -> Result<()> {
        let read = open_huggingface(self.path())?;
        let differs = |what: String, expected: String, found: String| -> ConvertError {
            RuntimeError::bad_input(self.path(), what, expected, found).into()
        };
        let may_differ = |field: &str| {
            let experts = source.config().experts.as_ref();
            field == "architecture" || field == "ffn" && experts.is_some_and(|e| e.dense_layers.is_empty())
        };
        // The source's own configuration says what it said; one that was made may say it in other words.
        let configs = [source.config(), &as_written(source.config())];
        let differences = configs.map(|config| {
            let mut found = configuration_differences(config, read.config())?;
            found.retain(|difference| !may_differ(&difference.field));
            Ok::<_, ConvertError>(found)
        });
        let [as_said, as_written] = differences;
        if let (Some(found), false) = (as_said?.first(), as_written?.is_empty()) {
            return Err(differs(found.field.clone(), found.a.to_string(), found.b.to_string()));
        }
        let there = |model: &dyn WeightSource| {
            let all = model.tensors().iter().map(|info| info.id.to_string());
            all.collect::<std::collections::BTreeSet<String>>()
        };
        let (given, found) = (there(source), there(&read));
        match given.symmetric_difference(&found).next() {
            Some(tensor) => Err(differs(tensor.clone(), "as the source has it".into(), "otherwise".into())),
            None => Ok(()),
        }
    }

    /// Adds how good the values are.
    ///
    /// # Errors
    /// When writing fails.
    pub fn add_evaluation(&mut self, found: &Value) -> Result<()> {
        self.origin.insert("evaluation".into(), found.clone());
        write_json(self.path(), ORIGIN, &self.origin)
    }

    /// Gives the directory its name; gives its size.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn publish_as(self, path: &Path) -> Result<u64> {
        let HfDirectory { mut dir, .. } = self;
        let bytes = dir.bytes()?;
        dir.rename(path.to_owned());
        dir.publish()?;
        Ok(bytes)
    }
}

fn origin_of(provenance: &Provenance) -> Map<String, Value> {
    let Provenance { tool, sources, requantized_from, options } = provenance;
    let fields = json!({
        "tool": tool,
        "sources": sources,
        "requantized_from": requantized_from,
        "options": options,
    });
    fields.as_object().cloned().unwrap_or_default()
}

fn write_json(dir: &Path, name: &str, fields: &Map<String, Value>) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, pretty(fields)).map_err(|e| ConvertError::io(&path, "write", e))
}
