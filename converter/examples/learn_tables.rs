//! Learns the grids of the learned types from the matrices of models: `cargo run --release --example learn_tables -- MODEL...`. The
//! built-in tables of the format come from it.

use std::path::PathBuf;

use qsf_converter::quantize::{Sample, learn_tables};
use qsf_format::{BUILT_IN, QuantType};
use qsf_runtime::cpu::Isa;

/// Every so many rows of a matrix are looked at.
const STRIDE: usize = 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let isa = Isa::from_env()?;
    let mut matrices = Vec::new();
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let source = qsf_runtime::source::open(&path)?;
        for info in source.tensors().iter().filter(|info| info.rows >= STRIDE && info.cols >= STRIDE) {
            let tensor = source.load(info.id)?;
            let mut values = vec![0.0; info.rows.div_ceil(STRIDE) * info.cols];
            for (i, out) in values.chunks_exact_mut(info.cols).enumerate() {
                tensor.decode_row(isa, i * STRIDE, out);
            }
            matrices.push((info.cols, values));
        }
    }
    let samples: Vec<Sample<'_>> =
        matrices.iter().map(|(cols, values)| Sample { cols: *cols, values, importance: None }).collect();
    let tables = learn_tables(isa, &samples, &BUILT_IN);
    for quant in QuantType::ALL {
        if let Some((levels, shift)) = tables.grid(quant) {
            println!("{quant}: {levels:?}, shift {shift}");
        }
    }
    Ok(())
}
