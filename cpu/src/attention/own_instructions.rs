//! Attention of many tokens by what the processor has for that.

use super::super::backend::Cpu;
use super::super::isa::AttentionUnit;
use super::super::kernels::{AmxBf16, Avx512Bytes};
use super::super::shared::Shared;
use super::byte_tiles::InBytes;
use super::spread::Layer;
use super::tiles::InBf16;

impl Cpu {
    /// Several tokens, if the processor has a unit.
    pub(super) fn attend_by_own_unit(
        &self,
        layer: Layer<'_>,
        tokens: usize,
        work: usize,
        out: &Shared<'_, f32>,
    ) -> bool {
        let Some(unit) = self.isa().attention_unit() else { return false };
        // SAFETY: the instruction set is the proof that the processor has the unit.
        unsafe {
            match unit {
                AttentionUnit::Bf16Tiles => {
                    self.attend_by::<InBf16<AmxBf16>>(layer, tokens, work, out);
                }
                AttentionUnit::ByteVectors => {
                    self.attend_by::<InBytes<Avx512Bytes>>(layer, tokens, work, out);
                }
            }
        }
        true
    }
}
