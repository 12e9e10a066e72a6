//! The type of the values of a model directory.

use std::collections::BTreeMap;

use half::{bf16, f16};
use qsf_format::QuantType;
use qsf_runtime::source::{StoredType, TensorInfo};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::plan::GroupRecipe;

/// What to write of a model directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HfOut {
    /// Type of all values: `f32`, `f16` or `bf16`.
    pub dtype: QuantType,
    /// Most bytes of values in a file, where no tensor is larger.
    pub shard_size: u64,
    /// How matrices are quantized, in a directory for compressed-tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupRecipe>,
}

impl HfOut {
    /// As transformers has it.
    pub const SHARD_SIZE: u64 = 5_000_000_000;

    /// Files of at most `shard_size` in `dtype`, or in the type that most values of a model have: `bf16` where these are quantized.
    pub fn new(dtype: Option<QuantType>, shard_size: Option<u64>, tensors: &[TensorInfo]) -> HfOut {
        HfOut {
            dtype: dtype.unwrap_or_else(|| main_type(tensors)),
            shard_size: shard_size.unwrap_or(HfOut::SHARD_SIZE),
            groups: None,
        }
    }

    /// Bytes of a value.
    pub fn width(&self) -> u64 {
        if self.dtype == QuantType::F32 { 4 } else { 2 }
    }

    /// The name that safetensors has for the type.
    pub(crate) fn safetensors_name(&self) -> &'static str {
        match self.dtype {
            QuantType::F32 => "F32",
            QuantType::F16 => "F16",
            _ => "BF16",
        }
    }

    /// The name that `config.json` has for the type.
    pub(crate) fn torch_name(&self) -> &'static str {
        match self.dtype {
            QuantType::F32 => "float32",
            QuantType::F16 => "float16",
            _ => "bfloat16",
        }
    }

    /// The bytes of values.
    ///
    /// # Errors
    /// The first value that is beyond the range of the type.
    pub(crate) fn bytes(&self, values: &[f32]) -> Result<Vec<u8>, f32> {
        let mut out = vec![0; values.len() * self.width() as usize];
        match self.dtype {
            QuantType::F32 => each::<4>(values, &mut out, |value| value.to_le_bytes()),
            QuantType::F16 => {
                let beyond = |value: &&f32| f16::from_f32(**value).is_infinite();
                if let Some(value) = values.iter().find(beyond) {
                    return Err(*value);
                }
                each::<2>(values, &mut out, |value| f16::from_f32(value).to_le_bytes());
            }
            _ => {
                // Only what is next to infinite becomes it.
                if let Some(value) = values.iter().find(|value| bf16::from_f32(**value).is_infinite()) {
                    return Err(*value);
                }
                each::<2>(values, &mut out, |value| bf16::from_f32(value).to_le_bytes());
            }
        }
        Ok(out)
    }
}

fn each<const N: usize>(values: &[f32], out: &mut [u8], bytes: impl Fn(f32) -> [u8; N] + Sync) {
    let (out, _) = out.as_chunks_mut::<N>();
    out.par_iter_mut().with_min_len(1 << 14).zip(values).for_each(|(out, value)| *out = bytes(*value));
}

/// The float type of most values; `bf16` where most are of no float type.
fn main_type(tensors: &[TensorInfo]) -> QuantType {
    let mut values: BTreeMap<u8, (QuantType, u64)> = BTreeMap::new();
    for info in tensors {
        let float = |stored: &StoredType| stored.native().filter(|ty| ty.is_float());
        let ty = float(&info.stored).unwrap_or(QuantType::Bf16);
        values.entry(ty.id()).or_insert((ty, 0)).1 += (info.rows * info.cols) as u64;
    }
    values.into_values().max_by_key(|(_, count)| *count).map_or(QuantType::Bf16, |(ty, _)| ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_to_the_nearest_and_those_beyond_the_range_are_told() {
        let of = |dtype| HfOut { dtype, shard_size: 1, groups: None };
        let bytes = of(QuantType::Bf16).bytes(&[1.0, 1.0 + 1.0 / 256.0, -2.5]).unwrap();
        assert_eq!(bytes, [0x80, 0x3f, 0x80, 0x3f, 0x20, 0xc0], "halfway goes to the even one");
        assert_eq!(of(QuantType::F32).bytes(&[0.1]).unwrap(), 0.1f32.to_le_bytes());
        assert_eq!(of(QuantType::F16).bytes(&[1.0, 65_520.0]), Err(65_520.0));
    }
}
