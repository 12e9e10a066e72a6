//! The demonstration on a fresh clone: the embedded model at several types, each evaluated on a small text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_converter::plan::Recipe;
use qsf_converter::{ConvertError, ConvertOptions, Result, convert, evaluation_record};
use qsf_format::{human_bytes, store_evaluation};
use qsf_runtime::bench::{SpeedOptions, Test, speed};
use qsf_runtime::cpu::{Cpu, KvTypes};
use qsf_runtime::eval::{EvalOptions, evaluate};
use qsf_runtime::file_hash::sha256;
use qsf_runtime::generate::PROMPT_BATCH;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::{QsfSource, WeightSource, open_huggingface};
use qsf_runtime::{Decoder, Model, RuntimeError, Tokenizer};
use serde::Serialize;

use crate::console::table;

/// The files of the embedded model: 1.05 M parameters, trained for this project on public-domain books.
const MODEL_FILES: [(&str, &[u8]); 5] = [
    ("config.json", include_bytes!("../../data/demo-1m/config.json")),
    ("generation_config.json", include_bytes!("../../data/demo-1m/generation_config.json")),
    ("model.safetensors", include_bytes!("../../data/demo-1m/model.safetensors")),
    ("tokenizer.json", include_bytes!("../../data/demo-1m/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../../data/demo-1m/tokenizer_config.json")),
];

/// Public-domain text that the model was not trained on.
const TEXT: &str = include_str!("../../data/demo.txt");

/// Tokens per evaluated chunk; the model's context is 512.
const CTX: usize = 256;

/// The types that the demonstration shows, best first.
const RECIPES: [&str; 6] = ["8bit", "4bit", "mixed", "3bit", "2bit", "ternary"];

/// One line of the demonstration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoLine {
    /// What `--quant` was; "source" for the model at full precision.
    #[serde(rename = "type")]
    pub name: String,
    /// The file, relative to the output folder.
    #[serde(rename = "path")]
    pub file: String,
    /// Bytes of the file (of the weights, for the source).
    pub file_bytes: u64,
    /// Bits of the file per weight.
    pub bits_per_weight: f64,
    /// Perplexity on the bundled text.
    pub ppl: f64,
    /// Mean KL divergence from the source in nats.
    pub kld_mean: Option<f64>,
    /// Decoded tokens per second.
    pub decode_tokens_per_second: f64,
}

/// Writes the embedded model's files into `dir`, which is made.
///
/// # Errors
/// When a file cannot be written.
pub fn write_demo_model(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|e| ConvertError::io(dir, "create", e))?;
    for (name, bytes) in MODEL_FILES {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(|e| ConvertError::io(&path, "write", e))?;
    }
    Ok(())
}

/// Converts the embedded model at several types into `dir`, and evaluates each.
///
/// # Errors
/// When a file cannot be written, or the user interrupts.
pub fn run_demo(dir: &Path, cpu: &Cpu, progress: &dyn Progress, cancel: &Cancel) -> Result<Vec<DemoLine>> {
    let model_dir = dir.join("demo-1m");
    write_demo_model(&model_dir)?;
    let source = open_huggingface(&model_dir)?;
    let json = source.tokenizer_json().unwrap_or_default();
    let tokenizer = Tokenizer::from_json(json, source.path())?;
    let tokens = tokenizer.encode(TEXT)?;
    let text_sha256 = sha256(TEXT.as_bytes());
    let options = EvalOptions {
        ctx: CTX,
        chunks: None,
        bos: tokenizer.bos(),
        kv: KvTypes::F16.into(),
        base_kv: KvTypes::F16,
        ..EvalOptions::default()
    };
    let reference = Decoder::new(Arc::new(Model::load(&source)?), cpu.clone(), None).stop_on(cancel);
    let evaluated = evaluate(&reference, None, &tokens, options, progress)?;
    let weights: u64 = source.tensors().iter().map(|t| t.rows as u64 * t.cols as u64).sum();
    let source_bytes = 2 * weights;
    let mut lines = vec![DemoLine {
        name: "source (f16)".into(),
        file: "demo-1m".into(),
        file_bytes: source_bytes,
        bits_per_weight: 16.0,
        ppl: evaluated.ppl,
        kld_mean: None,
        decode_tokens_per_second: decode_speed(&reference, progress)?,
    }];
    for name in RECIPES {
        let recipe: Recipe = name.parse().map_err(RuntimeError::Request)?;
        let file = format!("demo-1m-{name}.qsf");
        let path: PathBuf = dir.join(&file);
        let convert_options = ConvertOptions { recipe, force: true, ..ConvertOptions::default() };
        let conversion = convert(&source, &path, &convert_options, cpu, progress, cancel)?;
        let model = Model::load(&QsfSource::open(&path)?)?;
        let decoder = Decoder::new(Arc::new(model), cpu.clone(), None).stop_on(cancel);
        let result = evaluate(&decoder, Some(&reference), &tokens, options, progress)?;
        let record = evaluation_record(&result, &text_sha256, decoder.activations().name());
        let file_bytes = store_evaluation(&path, record.to_string().as_bytes())?;
        lines.push(DemoLine {
            name: name.into(),
            file,
            file_bytes,
            bits_per_weight: 8.0 * file_bytes as f64 / conversion.weights as f64,
            ppl: result.ppl,
            kld_mean: result.divergence.map(|d| d.kld.mean),
            decode_tokens_per_second: decode_speed(&decoder, progress)?,
        });
    }
    Ok(lines)
}

fn decode_speed(decoder: &Decoder, progress: &dyn Progress) -> Result<f64> {
    let options = SpeedOptions { kv: KvTypes::F16, step: PROMPT_BATCH, repetitions: 1, explain: false };
    Ok(speed(decoder, Test::decode(64), options, progress)?.tokens_per_second.mean)
}

/// The demonstration as a table.
pub fn demo_table(lines: &[DemoLine]) -> String {
    table(
        &["type", "file", "size", "bits/weight", "perplexity", "KLD", "tokens/s"],
        2,
        lines.iter().map(|line| {
            vec![
                line.name.clone(),
                line.file.clone(),
                human_bytes(line.file_bytes),
                format!("{:.2}", line.bits_per_weight),
                format!("{:.2}", line.ppl),
                line.kld_mean.map_or("-".into(), |kld| format!("{kld:.5}")),
                format!("{:.0}", line.decode_tokens_per_second),
            ]
        }),
    )
}
