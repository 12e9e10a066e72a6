//! How far tuning is, as bytes of a journal: the number of steps, and of each tensor its layer, kind, and for every factor that
//! and its means.

use qsf_calibration::tuning::TuningState;
use qsf_format::{TensorId, TensorKind};

use crate::resume::read_number;

/// Stands for no layer.
const OF_MODEL: u32 = u32::MAX;
/// Bytes of a factor and its means.
pub(super) const FACTOR_BYTES: usize = size_of::<f32>() + 2 * size_of::<f64>();

/// The state as bytes.
pub(super) fn to_bytes(state: &TuningState) -> Vec<u8> {
    let mut bytes = state.steps.to_le_bytes().to_vec();
    for (id, factors) in state.factors.iter() {
        let head = [id.layer.unwrap_or(OF_MODEL), id.kind.id(), factors.len() as u32];
        bytes.extend(head.into_iter().flat_map(u32::to_le_bytes));
        let means = state.means.get(&id).map_or(&[][..], Vec::as_slice);
        for (factor, means) in factors.iter().zip(means) {
            bytes.extend(factor.to_le_bytes());
            bytes.extend(means.iter().flat_map(|mean| mean.to_le_bytes()));
        }
    }
    bytes
}

/// The state that [`to_bytes`] made bytes of; `None` if it did not.
pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<TuningState> {
    let mut state = TuningState { steps: read_number(&mut bytes)?, ..TuningState::default() };
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (layer, kind) = (read_number(&mut bytes)?, TensorKind::from_id(read_number(&mut bytes)?)?);
        let id = TensorId { layer: (layer != OF_MODEL).then_some(layer), kind };
        let len = FACTOR_BYTES.checked_mul(read_number(&mut bytes)? as usize)?;
        let (own, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        let (mut factors, mut means) = (Vec::new(), Vec::new());
        for value in own.as_chunks::<FACTOR_BYTES>().0 {
            let (factor, of_means) = value.split_first_chunk()?;
            factors.push(f32::from_le_bytes(*factor));
            let (mean, square) = of_means.split_first_chunk()?;
            means.push([f64::from_le_bytes(*mean), f64::from_le_bytes(square.try_into().ok()?)]);
        }
        all.push((id, factors));
        state.means.insert(id, means);
    }
    state.factors = all.into_iter().collect();
    Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_from_its_bytes_and_cut_bytes_do_not() {
        let of = |id, factor: f32| (id, vec![factor, 1.0]);
        let (norm, head) =
            (TensorId::of_layer(2, TensorKind::AttnNorm), TensorId::of_model(TensorKind::Head));
        let mut state = TuningState::new([of(norm, 0.5), of(head, 1.25)].into_iter().collect());
        state.steps = 7;
        state.means.insert(head, vec![[1e-9, 2.0], [-3.0, 4.0]]);
        let bytes = to_bytes(&state);
        assert_eq!(from_bytes(&bytes), Some(state));
        let whole = (0..=bytes.len()).filter(|len| from_bytes(&bytes[..*len]).is_some());
        assert_eq!(whole.collect::<Vec<usize>>(), [4, 56, 108]);
        let many = [&bytes[..12], &[0xff; 4], &bytes[16..]].concat();
        assert_eq!(from_bytes(&many), None);
    }
}
