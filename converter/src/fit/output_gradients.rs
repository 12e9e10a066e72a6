//! What gradients at the outputs of the matrices of each layer say, measured once for a conversion and kept in its journal: the
//! way back goes from the last layer to the first, and layers are quantized from the first on.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsf_calibration::gradient::{BACKWARD_WORK, GradientError, GradientText, OutputMoments, check_gradients};
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::WeightSource;
use qsf_runtime::{LayerRunner, RuntimeError};

use super::packed_moment::PackedMoment;
use crate::error::{ConvertError, Result};
use crate::options::SearchEffort;
use crate::plan::experts_of;
use crate::quantize::RowFeedback;
use crate::resume::{Records, read_number};
use crate::session::Session;

/// Begins the numbers by which the model draws tokens.
const SEED: u64 = 1;
/// Damping of moments, as a part of the mean of their diagonal: between what was best for two models
/// (docs/measurements/gradients.md).
const DAMPING: f64 = 0.2;
/// Most tokens that are used: more gain little.
const MOST_TOKENS: usize = 65536;
/// Fewest of them, whatever memory they take.
const LEAST_TOKENS: usize = 8192;
/// What may enter all layers of all tokens, in bytes.
const KEPT_BYTES: usize = 2 << 30;
/// Most tokens for a search of low effort, which knows by them what each matrix does to predictions, and fewest of them.
const LOW_TOKENS: usize = 4096;
const LOW_LEAST_TOKENS: usize = 1024;
/// Both at most for a search of normal effort.
const NORMAL_TOKENS: usize = 16384;
const NORMAL_KEPT_BYTES: usize = 1 << 30;
/// With fewer tokens than this a search of normal effort does without: moments of few say more of chance than of the model.
const NORMAL_LEAST_TOKENS: usize = 2048;

/// Tokens of a text of `tokens` whose gradients are taken, if the model has any.
pub(crate) fn gradient_tokens(source: &dyn WeightSource, effort: SearchEffort, tokens: usize) -> usize {
    let config = source.config();
    let of_token = (4 * config.stream_width() * config.layers as usize).max(1);
    // A token takes as long as four that matrices are fitted to.
    let (most, least) = match effort {
        SearchEffort::Low => (LOW_TOKENS.min(tokens / 8), LOW_LEAST_TOKENS),
        SearchEffort::Normal => (NORMAL_TOKENS.min(tokens / 2), NORMAL_LEAST_TOKENS),
        SearchEffort::High | SearchEffort::Max => {
            return tokens.min((KEPT_BYTES / of_token).clamp(LEAST_TOKENS, MOST_TOKENS));
        }
    };
    let most = most.min(NORMAL_KEPT_BYTES / of_token);
    if most < least { 0 } else { most }
}

/// Whether a conversion along a text of `tokens` uses gradients of this model.
pub(crate) fn uses_gradients(source: &dyn WeightSource, effort: SearchEffort, tokens: usize) -> bool {
    gradient_tokens(source, effort, tokens) > 0 && check_gradients(source).is_ok()
}

/// Outputs of each matrix of layer `layer` that has a moment.
pub(crate) fn moment_rows(source: &dyn WeightSource, layer: u32) -> impl Iterator<Item = u64> + '_ {
    let of_layer = source.tensors().iter().filter(move |info| info.id.layer == Some(layer));
    of_layer.filter(|info| info.id.kind.is_matrix()).filter_map(|info| {
        let experts = experts_of(source.config(), info.id);
        match experts {
            Some(count) if info.id.kind == TensorKind::ExpertDown => {
                Some(info.rows as u64 / u64::from(count.max(1)))
            }
            Some(_) => None,
            None => Some(info.rows as u64),
        }
    })
}

/// What is left of the moments where types are chosen.
#[derive(Default)]
pub(crate) struct Squares {
    /// Square of the gradient at each output of a matrix for each token, on the average. Outputs of an expert have those of the tokens
    /// that go through it, over the number of all tokens.
    pub outputs: BTreeMap<TensorId, Vec<f32>>,
    /// Of each expert of a stack, the sum over its tokens.
    pub experts: BTreeMap<TensorId, Vec<f32>>,
}

impl Squares {
    /// Gives each expert of a stack its part of what outputs have that experts share. Where they share none, all outputs of an expert
    /// have as much.
    fn spread_over_experts(&mut self, source: &dyn WeightSource) {
        for (id, sums) in &self.experts {
            let Some(info) = source.tensors().iter().find(|info| info.id == *id) else { continue };
            let shared = self.outputs.get(id).map(Vec::as_slice);
            let spread = spread_over_experts(shared, sums, info.rows / sums.len().max(1));
            self.outputs.insert(*id, spread);
        }
    }
}

/// Squares at the `rows` outputs of each expert, from its sum of them: as unequal as those that all experts `shared` are, or all alike.
fn spread_over_experts(shared: Option<&[f32]>, sums: &[f32], rows: usize) -> Vec<f32> {
    let all = sums.iter().sum::<f32>();
    let parts: Vec<f32> = match shared {
        Some(shared) if all > 0.0 => shared.iter().map(|square| square / all).collect(),
        _ => vec![1.0 / rows.max(1) as f32; rows],
    };
    sums.iter().flat_map(|sum| parts.iter().map(move |part| part * sum)).collect()
}

/// The moments of all layers, in the journal.
pub(crate) struct OutputGradients {
    /// Tokens that they are of.
    tokens: usize,
    /// Whether matrices are fitted to them. With low effort they say what experts matter, and no more: to fit with them takes longer
    /// than to fit.
    fits: bool,
    /// The layer that was asked for last.
    layer: Option<(u32, LayerRecord)>,
}

/// The moments of a layer in the journal.
#[derive(Debug, Default, PartialEq)]
struct LayerRecord {
    moments: BTreeMap<TensorKind, PackedMoment>,
    experts: BTreeMap<TensorKind, Vec<f32>>,
}

impl OutputGradients {
    /// Measures what `journal` has not. Nothing where the model has no gradients, which a warning says where more effort was asked for.
    ///
    /// # Errors
    /// When the model is damaged, the journal cannot be written, memory runs out, or the user interrupts.
    pub fn measure(
        source: &dyn WeightSource,
        journal: &mut dyn Records,
        effort: SearchEffort,
        session: &Session<'_>,
    ) -> Result<Option<OutputGradients>> {
        OutputGradients::measure_with(source, journal, effort, session, &mut |_, _| {})
    }

    /// What [`measure`](Self::measure) does. `seen` hears of the moments of each layer that is measured now.
    fn measure_with(
        source: &dyn WeightSource,
        journal: &mut dyn Records,
        effort: SearchEffort,
        session: &Session<'_>,
        seen: &mut dyn FnMut(Option<u32>, &OutputMoments),
    ) -> Result<Option<OutputGradients>> {
        match check_gradients(source) {
            Ok(()) => {}
            Err(GradientError::Runtime(error)) => return Err(error.into()),
            Err(_) if matches!(effort, SearchEffort::Low | SearchEffort::Normal) => return Ok(None),
            Err(error) => {
                session.progress.warn(&format!(
                    "--effort {}: {error}: matrices are fitted to their inputs alone",
                    effort.name()
                ));
                return Ok(None);
            }
        }
        let sequences = sequences(source, effort, session.tokens);
        // A text of one token predicts nothing, and of a short one no gradients are wanted.
        if sequences.is_empty() {
            return Ok(None);
        }
        let tokens = sequences.iter().map(|tokens| tokens.len()).sum();
        let layers = source.config().layers;
        if !(0..layers).map(Some).chain([None]).all(|layer| journal.has(&record_name(layer))) {
            let Session { cpu, progress, cancel, .. } = *session;
            progress.begin("measuring gradients", (1 + BACKWARD_WORK) * u64::from(layers) * tokens as u64);
            let text = GradientText { source, cpu, sequences: &sequences, from: 0, progress, cancel };
            let mut failed = None;
            let measured = text.output_moments(SEED, &mut |layer, moments| {
                seen(layer, &moments);
                journal.put_new(&record_name(layer), &LayerRecord::to_bytes(moments)).map_err(|error| {
                    failed = Some(error);
                    RuntimeError::Request("the journal cannot be written".into())
                })
            });
            match (failed, measured) {
                (Some(error), _) => return Err(error),
                (None, Err(GradientError::Runtime(error))) => return Err(error.into()),
                (None, Err(error)) => return Err(RuntimeError::Request(error.to_string()).into()),
                (None, Ok(())) => progress.end(),
            }
        }
        Ok(Some(OutputGradients { tokens, fits: effort != SearchEffort::Low, layer: None }))
    }

    /// What types are chosen by: of few numbers, so that they can be kept where `journal` keeps nothing.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn squares(
        source: &dyn WeightSource,
        journal: &mut dyn Records,
        effort: SearchEffort,
        session: &Session<'_>,
    ) -> Result<Option<Squares>> {
        let mut found = Squares::default();
        let mut seen = |layer, measured: &OutputMoments| {
            let id = |kind: &TensorKind| TensorId { layer, kind: *kind };
            found.outputs.extend(measured.moments.iter().map(|(kind, moment)| {
                let n = moment.len().isqrt();
                (id(kind), (0..n).map(|i| moment[i * n + i]).collect::<Vec<f32>>())
            }));
            found.experts.extend(measured.experts.iter().map(|(kind, sums)| (id(kind), sums.clone())));
        };
        let Some(gradients) = OutputGradients::measure_with(source, journal, effort, session, &mut seen)?
        else {
            return Ok(None);
        };
        for layer in (0..source.config().layers).map(Some) {
            if !found.outputs.keys().any(|id| id.layer == layer) {
                let record = record_of(layer, journal)?;
                if !record.is_of(source, layer) {
                    return Err(ConvertError::BrokenJournal { what: record_name(layer) });
                }
                let LayerRecord { moments, experts } = record;
                let id = |kind| TensorId { layer, kind };
                found.outputs.extend(moments.iter().map(|(kind, moment)| (id(*kind), moment.diagonal())));
                found.experts.extend(experts.into_iter().map(|(kind, sums)| (id(kind), sums)));
            }
        }
        found.spread_over_experts(source);
        let tokens = gradients.tokens.max(1) as f32;
        found.outputs.values_mut().flatten().for_each(|square| *square /= tokens);
        Ok(Some(found))
    }

    /// What quantizers need of the gradients at a matrix, or at each of a stack of experts.
    ///
    /// # Errors
    /// When the journal cannot be read, or is damaged.
    pub fn of(
        &mut self,
        isa: Isa,
        id: TensorId,
        journal: &mut dyn Records,
    ) -> Result<Option<Arc<RowFeedback>>> {
        if !self.fits {
            return Ok(None);
        }
        let tokens = self.tokens;
        let Some(record) = self.layer_of(id, journal)? else { return Ok(None) };
        let Some(moment) = record.moments.get(&id.kind) else { return Ok(None) };
        // Of few tokens a moment has structure by chance, as large as this (Ledoit and Wolf, 2004).
        let damping = DAMPING + moment.rows() as f64 / tokens.max(1) as f64;
        Ok(moment.feedback(isa, damping).map(Arc::new))
    }

    /// How much errors of each expert of a stack count: the sum over its tokens of the squares of gradients at what it gives.
    ///
    /// # Errors
    /// When the journal cannot be read, or is damaged.
    pub fn of_experts(&mut self, id: TensorId, journal: &mut dyn Records) -> Result<Option<Vec<f32>>> {
        Ok(self.layer_of(id, journal)?.and_then(|record| record.experts.get(&id.kind)).cloned())
    }

    /// What the journal has of a tensor's layer.
    fn layer_of(&mut self, id: TensorId, journal: &mut dyn Records) -> Result<Option<&LayerRecord>> {
        let Some(layer) = id.layer else { return Ok(None) };
        let known = match self.layer.take() {
            Some((known, record)) if known == layer => record,
            _ => record_of(Some(layer), journal)?,
        };
        Ok(Some(&self.layer.insert((layer, known)).1))
    }

    /// The mean over tokens of `g g'` at the rows of the token embedding that they take, n x n for n columns, both triangles.
    ///
    /// # Errors
    /// When the journal cannot be read, or is damaged.
    pub fn of_embedding(&self, journal: &mut dyn Records) -> Result<Option<Vec<f32>>> {
        if !self.fits {
            return Ok(None);
        }
        let record = record_of(None, journal)?;
        let mean = record.moments.get(&TensorKind::TokenEmbedding).map(|moment| moment.values(self.tokens));
        Ok(mean.filter(|values| values.iter().all(|value| value.is_finite())))
    }
}

/// The moments of a layer, or of the token embedding, in the journal.
fn record_of(layer: Option<u32>, journal: &mut dyn Records) -> Result<LayerRecord> {
    let broken = || ConvertError::BrokenJournal { what: record_name(layer) };
    LayerRecord::from_bytes(&journal.get(&record_name(layer))?.ok_or_else(broken)?).ok_or_else(broken)
}

/// Sequences of the text, evenly spread over it.
fn sequences<'a>(source: &dyn WeightSource, effort: SearchEffort, tokens: &'a [u32]) -> Vec<&'a [u32]> {
    let length = LayerRunner::chunk_of(source.config());
    let all: Vec<&[u32]> = tokens.chunks(length).filter(|sequence| sequence.len() > 1).collect();
    let wanted = gradient_tokens(source, effort, tokens.len()).div_ceil(length).min(all.len());
    (0..wanted).map(|i| all[i * all.len() / wanted]).collect()
}

fn record_name(layer: Option<u32>) -> String {
    layer
        .map_or("gradients at the embedding's rows".to_owned(), |layer| format!("gradients in layer {layer}"))
}

impl LayerRecord {
    /// Whether it has as many outputs and experts as matrices of the layer.
    fn is_of(&self, source: &dyn WeightSource, layer: Option<u32>) -> bool {
        let shape = |kind: &TensorKind| {
            let info = source.tensors().iter().find(|info| info.id == TensorId { layer, kind: *kind })?;
            let experts = experts_of(source.config(), info.id).unwrap_or(1) as usize;
            Some((info.rows / experts.max(1), experts))
        };
        let mut moments = self.moments.iter().map(|(kind, moment)| (shape(kind), moment.rows()));
        let mut experts = self.experts.iter().map(|(kind, sums)| (shape(kind), sums.len()));
        moments.all(|(shape, rows)| shape.is_some_and(|(wanted, _)| rows == wanted))
            && experts.all(|(shape, count)| shape.is_some_and(|(_, wanted)| count == wanted))
    }

    /// The number of stacks, their kinds with their sums, then kinds with moments.
    fn to_bytes(measured: OutputMoments) -> Vec<u8> {
        let OutputMoments { moments, experts } = measured;
        let mut bytes = (experts.len() as u32).to_le_bytes().to_vec();
        for (kind, sums) in experts {
            bytes.extend(kind.id().to_le_bytes());
            bytes.extend((sums.len() as u32).to_le_bytes());
            bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        }
        for (kind, moment) in moments {
            bytes.extend(kind.id().to_le_bytes());
            PackedMoment::of(&moment).write(&mut bytes);
        }
        bytes
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<LayerRecord> {
        let mut record = LayerRecord::default();
        for _ in 0..read_number(&mut bytes)? {
            let kind = TensorKind::from_id(read_number(&mut bytes)?)?;
            let len = 4usize.checked_mul(read_number(&mut bytes)? as usize)?;
            let (sums, rest) = bytes.split_at_checked(len)?;
            bytes = rest;
            let (sums, _) = sums.as_chunks();
            record.experts.insert(kind, sums.iter().map(|sum| f32::from_le_bytes(*sum)).collect());
        }
        while !bytes.is_empty() {
            let kind = TensorKind::from_id(read_number(&mut bytes)?)?;
            let (moment, rest) = PackedMoment::read(bytes)?;
            record.moments.insert(kind, moment);
            bytes = rest;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What counts for each token must not count for each expert again.
    #[test]
    fn experts_share_what_outputs_have() {
        let spread = spread_over_experts(Some(&[3.0, 1.0]), &[1.0, 0.0, 3.0], 2);
        assert_eq!(spread, [0.75, 0.25, 0.0, 0.0, 2.25, 0.75]);
        assert_eq!(spread_over_experts(None, &[4.0, 2.0], 2), [2.0, 2.0, 1.0, 1.0]);
        assert_eq!(spread_over_experts(Some(&[0.0]), &[0.0, 0.0], 1), [0.0, 0.0]);
    }

    /// A journal can be of anything that says it is of this model: numbers of rows are used to find gradients.
    #[test]
    fn a_record_of_another_shape_is_not_of_the_model() {
        let golden =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden/qwen3_moe");
        let source = qsf_runtime::source::open(&golden).unwrap();
        let is_of = |kind, rows: usize, experts: &[usize]| {
            let mut record = LayerRecord::default();
            record.moments.insert(kind, PackedMoment::of(&vec![1.0; rows * rows]));
            record.experts = experts.iter().map(|count| (TensorKind::ExpertUp, vec![1.0; *count])).collect();
            record.is_of(&*source, Some(0))
        };
        let count = source.config().experts(0).unwrap().count as usize;
        let hidden = source.config().hidden as usize;
        assert!(is_of(TensorKind::ExpertDown, hidden, &[count]));
        assert!(is_of(TensorKind::AttnOutput, hidden, &[]));
        assert!(!is_of(TensorKind::ExpertDown, count * hidden, &[count]));
        assert!(!is_of(TensorKind::ExpertDown, hidden, &[count + 1]));
        assert!(!is_of(TensorKind::FfnDown, hidden, &[]), "a tensor that the layer has not");
    }

    #[test]
    fn a_layer_comes_back_from_the_journal_and_a_damaged_one_does_not() {
        let mut measured = OutputMoments::default();
        measured.experts.insert(TensorKind::ExpertGate, vec![1.0, 0.0, 2.5]);
        measured.experts.insert(TensorKind::ExpertDown, vec![3.0]);
        measured.moments.insert(TensorKind::ExpertDown, vec![4.0, 1.0, 0.0, 9.0]);
        measured.moments.insert(TensorKind::AttnQ, vec![2.0]);
        let moments = measured.moments.iter().map(|(kind, values)| (*kind, PackedMoment::of(values)));
        let expected = LayerRecord { moments: moments.collect(), experts: measured.experts.clone() };
        let bytes = LayerRecord::to_bytes(measured);
        assert_eq!(LayerRecord::from_bytes(&bytes), Some(expected));
        // A record ends behind the sums, or behind any moment.
        let ends = (0..=bytes.len()).filter(|len| LayerRecord::from_bytes(&bytes[..*len]).is_some());
        assert_eq!(ends.collect::<Vec<usize>>(), [36, 52, 74]);
        let many = [&bytes[..8], &[0xff; 4][..], &bytes[12..]].concat();
        assert_eq!(LayerRecord::from_bytes(&many), None);
    }
}
