//! A model that needs no file.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;
use qsf_format::{BlockSize, ModelConfig, QuantType, TensorId, TensorKind};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::{Tensor, TensorInfo, WeightSource, expected_shape, required_tensors};
use qsf_runtime::{Activations, Decoder, Model, Result};

/// A model of random weights: matrices in one type, vectors in f32.
pub struct RandomModel {
    pub config: ModelConfig,
    pub quant: QuantType,
    infos: Vec<TensorInfo>,
}

impl RandomModel {
    pub fn new(config: ModelConfig, quant: QuantType) -> RandomModel {
        let infos = required_tensors(&config)
            .map(|id| {
                let (rows, cols) = expected_shape(&config, id).unwrap();
                let quant = if id.kind.is_matrix() { quant } else { QuantType::F32 };
                TensorInfo { id, name: id.to_string(), rows, cols, stored: quant.into() }
            })
            .collect();
        RandomModel { config, quant, infos }
    }

    pub fn decoder(&self, cpu: Cpu, activations: Option<Activations>) -> Decoder {
        Decoder::new(Arc::new(Model::load(self).unwrap()), cpu, activations)
    }
}

fn random(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

/// A row of any type, with values of about 0.05.
fn random_row(quant: QuantType, cols: usize, state: &mut u64) -> Vec<u8> {
    let half = |value: f32| f16::from_f32(value).to_le_bytes();
    let mut byte = || (random(state) * 1000.0) as i32 as u8;
    match quant {
        QuantType::F32 => return (0..cols).flat_map(|_| (random(state) / 5.0).to_le_bytes()).collect(),
        QuantType::F16 => return (0..cols).flat_map(|_| half(random(state) / 5.0)).collect(),
        QuantType::Bf16 => {
            return (0..cols).flat_map(|_| (random(state) / 5.0).to_le_bytes()[2..].to_vec()).collect();
        }
        _ => {}
    }
    let block = quant.block_size(BlockSize::B64);
    // Learned types have a scale for a row.
    let mut row = if quant.row_head_bytes() > 0 { half(0.02).to_vec() } else { Vec::new() };
    for _ in 0..cols.div_ceil(block.get()) {
        let start = row.len();
        // Others have a scale for a block, and perhaps the least value.
        let largest = match quant {
            QuantType::Q2 => Some((3.0, true)),
            QuantType::Q3 => Some((7.0, true)),
            QuantType::Q4 => Some((15.0, true)),
            QuantType::Q2Sym | QuantType::Ternary => Some((2.0, false)),
            QuantType::Q8 => Some((127.0, false)),
            _ => None,
        };
        if let Some((largest, has_least)) = largest {
            let scale = 0.1 / largest * (1.0 + f32::from(byte()) / 256.0);
            row.extend(half(scale));
            row.extend(has_least.then(|| half(-scale * largest / 2.0)).into_iter().flatten());
        }
        while row.len() < start + quant.block_bytes(block) {
            // No two bits of a ternary code are set both.
            let code = byte();
            row.push(if quant == QuantType::Ternary { code & !(code >> 1 & code & 0x55) } else { code });
        }
    }
    row
}

impl WeightSource for RandomModel {
    fn path(&self) -> &Path {
        Path::new("random")
    }

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        None
    }

    fn chat_template(&self) -> Option<&[u8]> {
        None
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.infos
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        let info = self.infos.iter().find(|info| info.id == id).unwrap();
        let mut state = 7 + u64::from(id.kind.id()) + 1000 * u64::from(id.layer.unwrap_or(77));
        let values = info.rows * info.cols;
        let bytes: Vec<u8> = if info.stored.native() == Some(QuantType::F32) {
            let offset = match id.kind {
                // A state fades.
                TensorKind::MixerDecay => -1.0,
                kind if kind.is_matrix() => 0.0,
                _ => 1.0,
            };
            (0..values).flat_map(|_| (offset + random(&mut state)).to_le_bytes()).collect()
        } else {
            (0..info.rows).flat_map(|_| random_row(self.quant, info.cols, &mut state)).collect()
        };
        Ok(Tensor::new(info.rows, info.cols, info.stored.native().unwrap(), BlockSize::B64, bytes.into())
            .unwrap())
    }

    fn release(&self, _layer: Option<u32>) {}
}
