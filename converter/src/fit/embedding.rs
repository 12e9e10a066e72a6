//! What rows of the token embedding are fitted to, along a text: as what tokens begin with, to the gradients there; as the head,
//! too, to inputs that make their tokens likely.

use std::sync::Arc;

use qsf_calibration::{HeadMoments, spread};
use qsf_format::{ModelConfig, TensorId, TensorKind};
use qsf_runtime::LayerRunner;
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{Tensor, WeightSource};

use super::fits::{DAMPING, EMBEDDING_SHARE};
use crate::encode::{Fit, RowFits};
use crate::error::{ConvertError, Result};
use crate::options::SearchEffort;
use crate::quantize::Feedback;
use crate::session::Session;

/// Most tokens that go through the model for the head, for a search of normal effort: more gain little
/// (docs/measurements/simulations.md).
const NORMAL_TOKENS: usize = 65536;
/// Most groups of tokens, and the tokens of the text for each (docs/measurements/simulations.md).
const MOST_GROUPS: usize = 64;
const TOKENS_OF_GROUP: usize = 512;
/// Most values of the moments of all groups together, where the widest moment of a layer has not more: these are gone by then.
const MOST_VALUES: usize = 1 << 25;
/// Rows of the head for each group, at least.
const LEAST_ROWS: usize = 16;

/// Tokens that go through the model for a head that is the token embedding, too.
pub(crate) fn head_tokens(config: &ModelConfig, effort: SearchEffort, tokens: usize) -> usize {
    match effort {
        _ if !config.tied_head => 0,
        SearchEffort::Low => tokens.min(NORMAL_TOKENS / 4),
        SearchEffort::Normal => tokens.min(NORMAL_TOKENS),
        SearchEffort::High | SearchEffort::Max => tokens,
    }
}

/// Groups of rows that are fitted to moments of their own, where so many tokens go through the model.
pub(crate) fn head_groups(source: &dyn WeightSource, tokens: usize) -> usize {
    let (config, layers) = (source.config(), source.tensors().iter().filter(|t| t.id.layer.is_some()));
    let widest = layers.filter(|t| t.id.kind.is_matrix()).map(|t| t.cols).max().unwrap_or(0);
    let of_moments = widest.pow(2).max(MOST_VALUES) / (config.hidden as usize).pow(2).max(1);
    let of_rows = config.vocab as usize / LEAST_ROWS;
    (tokens / TOKENS_OF_GROUP).min(MOST_GROUPS).min(of_moments).min(of_rows).max(1)
}

/// Fits of the rows of the token embedding.
pub(super) struct EmbeddingFits {
    fits: Vec<Fit>,
    /// Where there are several.
    group_of: Vec<u16>,
}

impl EmbeddingFits {
    /// `gradients`: the second moment of those at the rows that tokens take, where there is one. `moments`: whether these are asked
    /// for themselves, for outliers.
    ///
    /// # Errors
    /// When the model is damaged, memory runs out, or the user interrupts.
    pub fn measure(
        source: &dyn WeightSource,
        effort: SearchEffort,
        gradients: Option<&[f32]>,
        moments: bool,
        session: &Session<'_>,
    ) -> Result<EmbeddingFits> {
        let Session { cpu, tokens, progress, cancel } = *session;
        let config = source.config();
        if !config.tied_head {
            let fit =
                gradients.map(|gradients| fit_of(cpu.isa(), gradients.to_vec(), moments)).transpose()?;
            return Ok(EmbeddingFits { fits: vec![fit.unwrap_or_default()], group_of: Vec::new() });
        }
        let chunk = LayerRunner::chunk_of(config).min(tokens.len()).max(1);
        let wanted = head_tokens(config, effort, tokens.len()).div_ceil(chunk).max(1);
        let heard = spread(tokens, chunk, wanted);
        // Without gradients there is little to gain by groups.
        let groups = gradients.map(|_| head_groups(source, heard.len()));
        let head = HeadMoments::measure(source, cpu, &heard, groups, progress, cancel)?;
        let fit = |group| {
            let (mut moment, cols) = (head.moment(group), config.hidden as usize);
            match gradients {
                Some(gradients) => moment.iter_mut().zip(gradients).for_each(|(sum, value)| *sum += value),
                None => {
                    let mean = (0..cols).map(|i| f64::from(moment[i * cols + i])).sum::<f64>() / cols as f64;
                    (0..cols).for_each(|i| moment[i * cols + i] += (EMBEDDING_SHARE * mean) as f32);
                }
            }
            fit_of(cpu.isa(), moment, moments)
        };
        let fits = (0..head.groups()).map(fit).collect::<Result<Vec<Fit>>>()?;
        Ok(EmbeddingFits { fits, group_of: head.group_of().to_vec() })
    }

    /// For the encoder.
    pub fn rows(&self) -> RowFits<'_> {
        match &self.fits[..] {
            [_] => RowFits::Shares(&self.fits),
            _ => RowFits::Groups { fits: &self.fits, group_of: &self.group_of },
        }
    }
}

fn fit_of(isa: Isa, moment: Vec<f32>, keeps_moment: bool) -> Result<Fit> {
    let cols = moment.len().isqrt();
    let importance = (0..cols).map(|i| moment[i * cols + i]).collect();
    let id = TensorId::of_model(TensorKind::TokenEmbedding);
    let refused = |source| ConvertError::Moments { id, source };
    let feedback = Feedback::new(isa, &moment, DAMPING).map_err(refused)?;
    Ok(Fit {
        importance: Some(Arc::new(importance)),
        feedback: Some(Arc::new(feedback)),
        moment: keeps_moment.then(|| Tensor::from_f32(cols, cols, &moment)),
        ..Fit::default()
    })
}
