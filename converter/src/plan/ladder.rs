//! The order in which a matrix goes on to larger types until it is near enough to the original (`--min-cosine`).

use qsf_format::{BlockSize, QuantType};
use qsf_runtime::ggml::GgmlType;

use super::tensor_type::{GGML_TYPES, TensorType};

/// Types by size, each clearly better than the one before.
const LADDER: [QuantType; 7] = [
    QuantType::X2,
    QuantType::X3,
    QuantType::X4,
    QuantType::N5,
    QuantType::Q6,
    QuantType::Q8,
    QuantType::F16,
];

/// The type to try after `ty` for rows of `cols` values, in a file with blocks of `block`. `None` after f16 and the wider
/// floats.
pub fn next_larger(ty: TensorType, block: BlockSize, cols: usize) -> Option<TensorType> {
    match ty {
        TensorType::Qsf(quant) => next_of_qsf(quant, block).map(TensorType::Qsf),
        // The files of a directory are laid out before anything is encoded.
        TensorType::Groups(_) => None,
        TensorType::Ggml(ggml) => {
            let own = ggml_bits(ggml);
            // Ternary types are for models that are trained for them; MXFP4 is worse than what is smaller.
            let special = |ty: &GgmlType| matches!(ty, GgmlType::TQ1_0 | GgmlType::TQ2_0 | GgmlType::MXFP4);
            let larger = GGML_TYPES.into_iter().filter(|ty| ggml_bits(*ty) > own && !special(ty));
            let fits = larger.map(TensorType::Ggml).find(|ty| ty.suits(cols));
            Some(fits.unwrap_or(TensorType::Qsf(QuantType::F16)))
        }
    }
}

fn ggml_bits(ty: GgmlType) -> f64 {
    ty.block_bytes() as f64 * 8.0 / ty.block_len() as f64
}

/// The next of the ladder; for a type that is not on it the first that is larger.
fn next_of_qsf(quant: QuantType, block: BlockSize) -> Option<QuantType> {
    if let Some(step) = LADDER.iter().position(|known| *known == quant) {
        return LADDER.get(step + 1).copied();
    }
    let own = bits(quant, block);
    LADDER.into_iter().find(|known| bits(*known, block) > own)
}

/// Bits per value of long rows.
fn bits(quant: QuantType, block: BlockSize) -> f64 {
    let values = quant.block_size(block).get();
    quant.block_bytes(quant.block_size(block)) as f64 * 8.0 / values as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_leads_upwards_to_f16_and_those_beside_the_ladder_join_at_their_size() {
        let next = |quant| next_of_qsf(quant, BlockSize::B64);
        for (from, to) in [
            (QuantType::X2, Some(QuantType::X3)),
            (QuantType::T2, Some(QuantType::X3)),
            (QuantType::Ternary, Some(QuantType::X3)),
            (QuantType::N3, Some(QuantType::X4)),
            (QuantType::Q3, Some(QuantType::X4)),
            (QuantType::N4, Some(QuantType::N5)),
            (QuantType::Q4, Some(QuantType::N5)),
            (QuantType::Q8, Some(QuantType::F16)),
            (QuantType::F16, None),
            (QuantType::Bf16, None),
            (QuantType::F32, None),
        ] {
            assert_eq!(next(from), to, "{from}");
        }
        for block in [BlockSize::B32, BlockSize::B64] {
            for quant in QuantType::ALL.into_iter().filter(|quant| !quant.is_float()) {
                let path = std::iter::successors(Some(quant), |at| next_of_qsf(*at, block));
                assert_eq!(path.last(), Some(QuantType::F16), "{quant}");
            }
        }
    }
}
