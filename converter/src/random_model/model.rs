//! Writes a random model, layer by layer: in memory is one of them, as in any writer of the format.

use std::path::Path;

use qsf_format::panels::{PANEL_ROWS, pack_panel};
use qsf_format::{
    BlockSize, CodeTables, Compression, EncodedTensor, Layout, META_VERSION, Meta, ModelConfig, Provenance,
    QsfWriter, TensorKind, WriterOptions,
};
use qsf_runtime::memory;
use qsf_runtime::source::TensorInfo;
use qsf_runtime::tokenizer::Tokenizer;
use rayon::prelude::*;
use serde_json::json;

use super::rows::RandomRows;
use crate::error::Result;
use crate::plan::{FinerRows, OutlierShare, PlannedTensor, Recipe, layout_of};

/// What the weights of a matrix have for a standard deviation, times the square root of its columns: what it is multiplied
/// with becomes half as large.
const GAIN: f64 = 0.5;
/// Values of a streamed tensor that are made before they are written.
const VALUES_PER_RUN: usize = 1 << 24;
/// What META names as the tool.
const TOOL: &str = concat!("qsf-converter random_model ", env!("CARGO_PKG_VERSION"));

/// A random model to write.
#[derive(Debug, Clone)]
pub struct RandomModel<'a> {
    /// The architecture.
    pub config: ModelConfig,
    /// Its tensors, as [`qsf_runtime::source::configured_model`] gives them.
    pub tensors: Vec<TensorInfo>,
    /// The bytes of a `tokenizer.json`.
    pub tokenizer: Option<&'a [u8]>,
    /// Types by tensor kind.
    pub recipe: Recipe,
    /// Compression of layers and embedding. Random codes do not compress.
    pub compression: Compression,
    /// Another seed gives other weights.
    pub seed: u64,
    /// Replace a file that is there.
    pub force: bool,
}

impl RandomModel<'_> {
    /// Writes the model to `out`, verified. Gives the size of the file.
    ///
    /// # Errors
    /// When the tokenizer is none, the file cannot be written, or memory has no room for a layer.
    pub fn write(&self, out: &Path) -> Result<u64> {
        if let Some(json) = self.tokenizer {
            Tokenizer::from_json(json, Path::new("tokenizer.json"))?;
        }
        let options = WriterOptions {
            force: self.force,
            block: BlockSize::B64,
            compression: self.compression,
            tables: CodeTables::default(),
        };
        let mut writer = QsfWriter::create(out, self.config.layers, options)?;
        let planned: Vec<PlannedTensor> = self.tensors.iter().map(|info| self.planned(info)).collect();
        let of_model = || planned.iter().enumerate().filter(|(_, tensor)| tensor.info.id.layer.is_none());
        for (i, tensor) in of_model().filter(|(_, t)| t.info.id.kind == TensorKind::TokenEmbedding) {
            let rows = self.rows(i, tensor);
            writer.begin_embedding(rows.random.quant, rows.layout, rows.rows as u32, rows.cols as u32)?;
            for run in rows.runs() {
                writer.embedding_rows(&rows.encode(run))?;
            }
        }
        for layer in 0..self.config.layers {
            let of_layer = || planned.iter().enumerate().filter(|(_, t)| t.info.id.layer == Some(layer));
            let bytes = of_layer().map(|(i, tensor)| self.rows(i, tensor).bytes());
            memory::ask(bytes.fold(0, u64::saturating_add), || format!("weights of layer {layer}"))?;
            let encoded = of_layer().map(|(i, tensor)| self.rows(i, tensor).all(tensor.info.id.kind));
            writer.layer(encoded.collect(), None)?;
        }
        writer.begin_final(self.config.tied_head)?;
        let ends = [TensorKind::TokenEmbedding, TensorKind::Positions];
        for (i, tensor) in of_model().filter(|(_, t)| !ends.contains(&t.info.id.kind)) {
            self.write_runs(&mut writer, i, tensor)?;
        }
        writer.end_final();
        for (i, tensor) in of_model().filter(|(_, t)| t.info.id.kind == TensorKind::Positions) {
            writer.begin_positions()?;
            self.write_runs(&mut writer, i, tensor)?;
            writer.end_positions();
        }
        Ok(writer.finish(&self.meta(&planned), self.recipe.header_id(), self.tokenizer, None)?)
    }

    fn planned(&self, info: &TensorInfo) -> PlannedTensor {
        let quant = self.recipe.assign(info.id).into();
        PlannedTensor { info: info.clone(), quant, outliers: OutlierShare::NONE, finer: FinerRows::NONE }
    }

    fn write_runs(&self, writer: &mut QsfWriter, index: usize, tensor: &PlannedTensor) -> Result<()> {
        let rows = self.rows(index, tensor);
        let kind = tensor.info.id.kind;
        writer.begin_tensor(kind, rows.rows as u32, rows.cols as u32, rows.random.quant, rows.layout)?;
        for run in rows.runs() {
            writer.tensor_rows(&rows.encode(run))?;
        }
        Ok(())
    }

    /// Tensor `index`, whose numbers are its own.
    fn rows(&self, index: usize, tensor: &PlannedTensor) -> TensorRows {
        let info = &tensor.info;
        let value = if info.id.kind.is_matrix() { None } else { Some(self.constant(info.id.kind)) };
        TensorRows {
            random: RandomRows {
                quant: self.recipe.assign(info.id),
                cols: info.cols,
                deviation: GAIN / (info.cols as f64).sqrt(),
                constant: value,
                seed: self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (index as u64) << 32,
            },
            rows: info.rows,
            cols: info.cols,
            layout: layout_of(Layout::Panels16, &self.config, info, tensor.quant),
        }
    }

    /// The value of all elements of a vector: gains are such that norms multiply with 1, biases do nothing.
    fn constant(&self, kind: TensorKind) -> f32 {
        use TensorKind::*;
        match kind {
            // As they multiply, whatever other norms do.
            MixerNorm | MixerStepNorm | MixerBNorm | MixerCNorm => 1.0,
            // A state that fades, and filters that pass something on.
            MixerDecay => -1.0,
            MixerConv | MixerSkip => 0.5,
            // A gain that the model adds 1 to.
            _ if self.config.norm.gain_plus_one => 0.0,
            AttnNorm
            | FfnNorm
            | QNorm
            | KNorm
            | PostAttnNorm
            | AttnSubNorm
            | FfnSubNorm
            | PostFfnNorm
            | FinalNorm
            | EmbeddingNorm
            | PerLayerNorm
            | PerLayerProjectionNorm
            | StreamRouterNorm
            | StreamScale
            | LaurelNorm
            | LayerScale => 1.0,
            _ => 0.0,
        }
    }

    fn meta(&self, planned: &[PlannedTensor]) -> Meta {
        let options = json!({"quant": self.recipe.name(), "seed": self.seed});
        Meta {
            version: META_VERSION,
            model: self.config.clone(),
            provenance: Provenance {
                tool: TOOL.into(),
                sources: Vec::new(),
                requantized_from: Vec::new(),
                options: options.as_object().cloned().unwrap_or_default(),
            },
            // There is no original that the weights could differ from.
            tensors: planned
                .iter()
                .filter_map(|tensor| tensor.record(tensor.quant, 1.0, 0.0, 0.0).for_meta())
                .collect(),
        }
    }
}

/// The rows of one tensor, in the order of its layout.
struct TensorRows {
    random: RandomRows,
    rows: usize,
    cols: usize,
    layout: Layout,
}

impl TensorRows {
    /// Whole panels at a time, and of those so many that they are not much memory.
    fn runs(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let run = (VALUES_PER_RUN / self.cols).max(1).next_multiple_of(PANEL_ROWS);
        let rows = self.rows;
        (0..rows).step_by(run).map(move |first| first..rows.min(first + run))
    }

    /// Bytes of the tensor.
    fn bytes(&self) -> u64 {
        (self.rows as u64).saturating_mul(self.random.row_bytes() as u64)
    }

    /// The tensor.
    fn all(&self, kind: TensorKind) -> EncodedTensor {
        EncodedTensor {
            kind,
            part: 0,
            rows: self.rows as u32,
            cols: self.cols as u32,
            quant: self.random.quant,
            layout: self.layout,
            data: self.encode(0..self.rows),
        }
    }

    /// The bytes of `rows`, which begin a panel.
    fn encode(&self, rows: std::ops::Range<usize>) -> Vec<u8> {
        let row_bytes = self.random.row_bytes();
        let mut data = vec![0; rows.len() * row_bytes];
        let panel_rows = self.layout.panel_rows(self.rows);
        data.par_chunks_mut(PANEL_ROWS * row_bytes).enumerate().for_each_init(Vec::new, |plain, (i, out)| {
            let first = rows.start + i * PANEL_ROWS;
            if first + PANEL_ROWS > panel_rows {
                for (row, out) in (first..).zip(out.chunks_exact_mut(row_bytes)) {
                    self.random.fill(row, out);
                }
                return;
            }
            plain.resize(out.len(), 0);
            for (row, out) in (first..).zip(plain.chunks_exact_mut(row_bytes)) {
                self.random.fill(row, out);
            }
            let plain: Vec<&[u8]> = plain.chunks_exact(row_bytes).collect();
            pack_panel(self.random.quant, BlockSize::B64, &plain, out);
        });
        data
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::{QsfFile, QuantType};
    use qsf_runtime::cpu::{Cpu, Isa};
    use qsf_runtime::source::{QsfSource, WeightSource as _, configured_model};
    use qsf_runtime::{Decoder, Model};

    use super::super::shapes::shape_text;
    use super::*;

    /// Columns that are no multiple of a block, and rows that fill no panel.
    const ODD: &str = r#"{"model_type": "llama", "hidden_size": 72, "intermediate_size": 100, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 90, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false}"#;

    fn written(shape: &str, recipe: &str, out: &Path) -> u64 {
        let (config, tensors) = configured_model(Path::new("config.json"), shape.as_bytes()).unwrap();
        let recipe = recipe.parse().unwrap();
        let compression = Compression::None;
        let model =
            RandomModel { config, tensors, tokenizer: None, recipe, compression, seed: 1, force: true };
        model.write(out).unwrap()
    }

    #[test]
    fn a_random_model_of_every_type_verifies_has_the_stated_deviation_and_runs() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out.qsf");
        for quant in QuantType::ALL {
            let bytes = written(ODD, quant.name(), &out);
            assert_eq!(bytes, std::fs::metadata(&out).unwrap().len());
            qsf_format::verify(&out).unwrap();
            let source = QsfSource::from_file(QsfFile::open(&out).unwrap()).unwrap();
            for info in source.tensors().iter().filter(|info| info.id.kind.is_matrix()) {
                let values = source.load(info.id).unwrap().to_f32();
                let squares: f64 = values.iter().map(|v| f64::from(*v).powi(2)).sum();
                let deviation = (squares / values.len() as f64).sqrt() * (info.cols as f64).sqrt();
                assert!((0.4..0.6).contains(&deviation), "{quant} {}: {deviation}", info.name);
            }
            let model = Model::load(&source).unwrap();
            let decoder = Decoder::new(model.into(), Cpu::new(Isa::best()), None);
            let mut state = decoder.state(8, 4).unwrap();
            let mut logits = vec![f32::NAN; 90];
            decoder.forward(&mut state, &[1, 2, 3]).unwrap();
            decoder.logits(&mut state, 2..3, &mut logits).unwrap();
            assert!(logits.iter().all(|logit| logit.is_finite() && logit.abs() < 10.0), "{quant}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let out = dir.path().join(name);
            written(ODD, "3bit", &out);
            std::fs::read(out).unwrap()
        };
        assert!(file("a.qsf") == file("b.qsf"));
    }

    #[test]
    fn a_layer_that_no_memory_holds_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let huge = ODD
            .replace(r#""num_hidden_layers": 3"#, r#""num_hidden_layers": 1"#)
            .replace("100,", "16777216,")
            .replace("72,", r#"1048572, "head_dim": 64,"#)
            .replace("90,", "1,");
        let (config, tensors) = configured_model(Path::new("config.json"), huge.as_bytes()).unwrap();
        let recipe = "f32".parse().unwrap();
        let compression = Compression::None;
        let model =
            RandomModel { config, tensors, tokenizer: None, recipe, compression, seed: 1, force: true };
        let error = model.write(&dir.path().join("out.qsf")).unwrap_err();
        assert!(error.to_string().contains("weights of layer 0"), "{error}");
    }

    #[test]
    fn every_shape_by_name_is_a_model_of_the_stated_size() {
        for (name, weights) in [
            ("llama-1b", 1.035e9),
            ("llama-7b", 6.738e9),
            ("llama-13b", 13.016e9),
            ("gpt2-small", 0.1244e9),
            ("gpt2-medium", 0.3548e9),
            ("gpt2-large", 0.7740e9),
            ("phi-2", 2.780e9),
        ] {
            let (config, tensors) =
                configured_model(Path::new(name), shape_text(name).unwrap().as_bytes()).unwrap();
            let found: f64 = tensors.iter().map(|info| info.rows as f64 * info.cols as f64).sum();
            assert!((found / weights - 1.0).abs() < 0.01, "{name}: {found}");
            assert_eq!(tensors[0].id.kind, TensorKind::TokenEmbedding);
            assert!(config.max_positions >= 1024);
        }
        assert!(shape_text("llama-2b").is_none());
    }
}
