//! Writes a model with random weights straight as a QSF file, for measurements on shapes whose weights are not at hand:
//! `cargo run --release -p qsf-cli --example random_model -- llama-7b --quant 2bit -o 7b.qsf`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use qsf_converter::plan::Recipe;
use qsf_converter::random_model::{RandomModel, shape_text};
use qsf_format::{Compression, human_bytes};
use qsf_runtime::source::configured_model;

/// Writes a QSF file with random weights.
#[derive(Debug, Parser)]
struct Args {
    /// llama-1b, llama-7b, llama-13b, gpt2-small, gpt2-medium, gpt2-large, phi-2, or the path of a config.json
    #[arg(value_name = "SHAPE")]
    shape: String,
    /// Type of the matrices, as qsf-convert takes it
    #[arg(short, long, value_name = "TYPE", default_value = "4bit")]
    quant: Recipe,
    /// File to write
    #[arg(short, long, value_name = "OUT.qsf")]
    out: PathBuf,
    /// A tokenizer.json to put into the file [default: none, prompts are token ids]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Compression of layers, used where it saves at least 2 %
    #[arg(long, value_enum, value_name = "METHOD", default_value = "none")]
    compress: Compress,
    /// Seed of the weights
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Compress {
    None,
    Lz4,
    Zstd,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let started = Instant::now();
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let shape = match shape_text(&args.shape) {
        Some(text) => text.into_bytes(),
        None => read(Path::new(&args.shape)).context("no built-in shape, and no config.json")?,
    };
    let tokenizer = args.tokenizer.as_deref().map(read).transpose()?;
    let (config, tensors) = configured_model(Path::new(&args.shape), &shape)?;
    let compression = match args.compress {
        Compress::None => Compression::None,
        Compress::Lz4 => Compression::Lz4,
        Compress::Zstd => Compression::Zstd,
    };
    let model = RandomModel {
        config,
        tensors,
        tokenizer: tokenizer.as_deref(),
        recipe: args.quant,
        compression,
        seed: args.seed,
        force: args.force,
    };
    let bytes = model.write(&args.out)?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{}: {}, written and verified in {seconds:.1} s", args.out.display(), human_bytes(bytes));
    Ok(())
}
