//! Statistics of a text as an importance matrix that llama-quantize reads.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use qsf_calibration::{LayerStats, Moments};
use qsf_format::{FormatError, PartialFile, TensorId};
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::source::WeightSource;

use super::entries::{Expected, expected_entries};
use super::gguf_form::{COUNTS, KIND, SUMS};
use crate::error::{ConvertError, Result};
use crate::gguf::{Entry as Tensor, Value, header, names_of, padded};
use crate::inputs::{OwnInputs, input_of};

/// Tokens of a chunk, as llama-imatrix has them by default.
const CHUNK: u32 = 512;

/// A file that is being collected: one number for each column, which is little.
pub(crate) struct ImatrixWriter {
    path: PathBuf,
    force: bool,
    wanted: Vec<(String, Expected, TensorId)>,
    entries: BTreeMap<String, (Vec<f32>, Vec<f32>, Expected)>,
}

impl ImatrixWriter {
    /// Starts the file `path` for the model `source`.
    ///
    /// # Errors
    /// When llama.cpp has no names for the model, or the file is there already.
    pub fn create(path: &Path, force: bool, source: &dyn WeightSource) -> Result<ImatrixWriter> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(FormatError::Exists { path: path.to_owned() }.into());
        }
        let wanted = expected_entries(source, &names_of(source)?);
        let wanted = wanted.into_iter().filter_map(|(name, (shape, ids))| Some((name, shape, *ids.first()?)));
        Ok(ImatrixWriter { path: path.to_owned(), force, wanted: wanted.collect(), entries: BTreeMap::new() })
    }

    /// Adds the statistics of a layer, or of the head.
    pub fn layer(&mut self, stats: &LayerStats) {
        for (name, shape, id) in self.wanted.iter().filter(|(.., id)| id.layer == stats.layer) {
            let (mut sums, mut counts) = (Vec::new(), Vec::new());
            for matrix in 0..shape.matrices as u32 {
                let expert = (shape.matrices > 1).then_some(matrix);
                let found = input_of(id.kind, expert, OwnInputs::default())
                    .and_then(|input| stats.inputs.get(&input));
                let tokens = found.map_or(0, Moments::tokens) as f32;
                counts.push(tokens);
                match found.filter(|moments| moments.cols() == shape.cols) {
                    Some(moments) => sums.extend(moments.mean_square().iter().map(|s| *s as f32 * tokens)),
                    None => sums.resize(sums.len() + shape.cols, 0.0),
                }
            }
            if counts.iter().any(|count| *count > 0.0) {
                self.entries.insert(name.clone(), (sums, counts, *shape));
            }
        }
    }

    /// Writes the file; `texts` are what it is of, `tokens` how many.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(self, texts: Vec<String>, tokens: usize) -> Result<()> {
        let pairs = vec![
            ("general.type".to_owned(), Value::Text(KIND.to_owned())),
            ("imatrix.datasets".to_owned(), Value::Texts(texts)),
            ("imatrix.chunk_count".to_owned(), Value::U32((tokens as u32).div_ceil(CHUNK))),
            ("imatrix.chunk_size".to_owned(), Value::U32(CHUNK)),
        ];
        let mut tensors: Vec<Tensor> = Vec::new();
        let mut values: Vec<&[f32]> = Vec::new();
        for (name, (sums, counts, shape)) in &self.entries {
            for (end, found, cols) in [(SUMS, sums, shape.cols), (COUNTS, counts, 1)] {
                tensors.push(Tensor {
                    name: format!("{name}{end}"),
                    dims: vec![cols as u64, shape.matrices as u64],
                    ty: GgmlType::F32,
                    bytes: 4 * found.len() as u64,
                });
                values.push(found);
            }
        }
        let (mut target, mut file) = PartialFile::create(&self.path, self.force)?;
        let mut bytes = header(&pairs, &tensors);
        for values in values {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            bytes.resize(padded(bytes.len() as u64) as usize, 0);
        }
        file.write_all(&bytes).map_err(|e| ConvertError::io(target.partial(), "write", e))?;
        Ok(target.publish(&file)?)
    }
}
