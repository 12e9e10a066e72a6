//! A model that needs no file.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;
use qsf_format::{BlockSize, ModelConfig, QuantType, TensorId};
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
            let offset = if id.kind.is_matrix() { 0.0 } else { 1.0 };
            (0..values).flat_map(|_| (offset + random(&mut state)).to_le_bytes()).collect()
        } else {
            // 4-bit blocks: a scale, a min of the other sign, random codes.
            let blocks = info.rows * info.cols.div_ceil(64);
            (0..blocks)
                .flat_map(|_| {
                    let scale = f16::from_f32(0.01 + 0.01 * random(&mut state).abs());
                    let min = f16::from_f32(-8.0 * scale.to_f32());
                    let mut block = [scale.to_le_bytes(), min.to_le_bytes()].concat();
                    block.extend((0..32).map(|_| (random(&mut state) * 1000.0) as i32 as u8));
                    block
                })
                .collect()
        };
        Ok(Tensor::new(info.rows, info.cols, info.stored.native().unwrap(), BlockSize::B64, bytes.into())
            .unwrap())
    }

    fn release(&self, _layer: Option<u32>) {}
}
