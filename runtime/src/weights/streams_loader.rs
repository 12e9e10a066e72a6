//! Weights of residual streams beside each other, and of what comes with them.

use qsf_format::{TensorId, TensorKind};

use super::loader::Loader;
use super::{Laurel, Linear, Norm, StreamEnds, StreamWeights};
use crate::error::{Result, RuntimeError};

impl Loader<'_> {
    /// Of `others` streams beside the first.
    pub(super) fn stream_ends(&self, others: usize) -> Result<StreamEnds> {
        let matrix = |kind| self.parts.matrix(TensorId::of_model(kind));
        let all = matrix(TensorKind::StreamReturn)?;
        let rows = all.rows() / others;
        let one = |i: usize| -> Result<Linear> {
            let cut = || RuntimeError::Request("streams on the schedule".into());
            let weight = all.slice_rows(i * rows..(i + 1) * rows).ok_or_else(cut)?;
            Ok(Linear::new(weight, None))
        };
        Ok(StreamEnds {
            projection: Linear::new(matrix(TensorKind::StreamProjection)?, None),
            returns: (0..others).map(one).collect::<Result<_>>()?,
        })
    }

    pub(super) fn streams(&self, i: u32) -> Result<StreamWeights> {
        use TensorKind::*;
        let values = |kind| -> Result<Vec<f32>> { Ok(self.tensor(TensorId::of_layer(i, kind))?.to_f32()) };
        // What the router reads is divided by the width.
        let mut router_norm = self.gain(Some(i), StreamRouterNorm)?;
        let by_width = 1.0 / self.parts.config().hidden as f32;
        router_norm.gain.iter_mut().for_each(|gain| *gain *= by_width);
        Ok(StreamWeights {
            router_norm: Norm { bias: None, ..router_norm },
            router: values(StreamRouter)?,
            prediction: values(StreamPrediction)?,
            correction: values(StreamCorrection)?,
            scale: values(StreamScale)?,
        })
    }

    pub(super) fn laurel(&self, i: u32) -> Result<Laurel> {
        use TensorKind::*;
        let (down, up) = (self.matrix(i, LaurelDown)?, self.matrix(i, LaurelUp)?);
        Ok(Laurel { down, up, norm: self.gain(Some(i), LaurelNorm)? })
    }
}
