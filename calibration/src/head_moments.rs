//! Second moments of what the head reads, for tokens in groups.
//!
//! To second order, an error e of the row of token v changes the predictions by half the mean of `p (1 - p) (e x)^2`. There x is
//! what the head reads, and p the probability that it gives to v. So a row is fitted to inputs that make its token likely. A
//! moment for each token would be too many: tokens whose rows have like directions share one.

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::cpu::math::softmax_in_place;
use qsf_runtime::cpu::{ColumnPanels, Cpu, zeros};
use qsf_runtime::progress::{Cancel, Progress, Unwatched};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{LayerWeights, Result, RuntimeError};

use crate::clusters::cluster_rows;
use crate::stream::{Blind, Stream};

/// Logits that are computed at once.
const LOGITS: usize = 1 << 22;
/// Least weight of a token of the text in the moment of a group: most of them have nearly none, and would take most of the time.
const LEAST_WEIGHT: f32 = 1.0 / 1024.0;
/// Part of a group's moment that is that of all tokens, at least (docs/measurements/simulations.md).
const OF_ALL: f64 = 0.1;
/// Inputs for each column of which a group's own moment counts as much as that of all.
const INPUTS_OF_COLUMN: f64 = 0.3;

/// Moments of what the head of a model reads.
#[derive(Debug)]
pub struct HeadMoments {
    cols: usize,
    group_of: Vec<u16>,
    groups: Vec<Group>,
    /// Of all groups together.
    all: Group,
}

/// Sums over those tokens of a text that count, of the weights w that a group has there: the sum of `p (1 - p)` of its tokens.
#[derive(Debug, Clone, Default)]
struct Group {
    /// Of `w x x'`, on and above the diagonal.
    products: Vec<f32>,
    /// Of the probabilities themselves: how many tokens of the group are to be expected.
    tokens: f64,
    weights: f64,
    squares: f64,
}

impl Group {
    fn add(&mut self, other: &Group) {
        self.products.iter_mut().zip(&other.products).for_each(|(sum, value)| *sum += value);
        self.tokens += other.tokens;
        self.weights += other.weights;
        self.squares += other.squares;
    }

    /// How many inputs of equal weight would say as much.
    fn inputs(&self) -> f64 {
        if self.squares > 0.0 { self.weights * self.weights / self.squares } else { 0.0 }
    }

    fn per_token(&self, at: usize) -> f64 {
        if self.tokens > 0.0 { f64::from(self.products[at]) / self.tokens } else { 0.0 }
    }
}

impl HeadMoments {
    /// Runs `tokens` through the unchanged model, in chunks of at most 512, each from an empty context. The rows of its head come
    /// in at most `groups` groups. Without groups, all inputs count alike, for all rows. In memory are the hidden states of the text,
    /// a layer, and the moments.
    ///
    /// # Errors
    /// When there are no tokens, one is beyond the vocabulary, a tensor is damaged, the model computes something that is not
    /// finite, memory runs out, or `cancel` is requested.
    pub fn measure(
        source: &dyn WeightSource,
        cpu: &Cpu,
        tokens: &[u32],
        groups: Option<usize>,
        progress: &dyn Progress,
        cancel: &Cancel,
    ) -> Result<HeadMoments> {
        let (config, mut stream) = (source.config(), Stream::new(source, cpu, tokens)?);
        let behind = groups.map_or(0, |_| layers_of_head(source));
        progress.begin("calibrating", tokens.len() as u64 * (u64::from(config.layers) + behind));
        for layer in 0..config.layers {
            let weights = LayerWeights::load(source, layer)?;
            for i in 0..stream.chunks() {
                cancel.check()?;
                stream.advance(i, layer, &weights, &mut Blind)?;
                progress.advance(stream.tokens(i) as u64);
            }
            drop(weights);
            source.release(Some(layer));
        }
        let kind = if config.tied_head { TensorKind::TokenEmbedding } else { TensorKind::Head };
        let head = source.load(TensorId::of_model(kind))?;
        let group_of = match groups {
            Some(groups) => cluster_rows(cpu, &head, groups, &Unwatched, cancel)?.cluster_of,
            None => vec![0; head.rows()],
        };
        let cols = stream.head_width();
        let weighted = groups.is_some();
        let count = group_of.iter().max().map_or(0, |last| usize::from(*last) + 1);
        let values = || zeros(cols.saturating_mul(cols), "second moments of the head");
        let group = || Ok(Group { products: values()?, ..Group::default() });
        let mut groups = (0..count).map(|_| group()).collect::<Result<Vec<Group>>>()?;
        for i in 0..stream.chunks() {
            cancel.check()?;
            let weights = match weighted {
                true => weights(&mut stream, i, &group_of, groups.len())?,
                false => vec![1.0; 2 * stream.tokens(i)],
            };
            add_chunk(&mut stream, i, &weights, &mut groups)?;
            progress.advance(behind * stream.tokens(i) as u64);
        }
        let mut all = group()?;
        groups.iter().for_each(|group| all.add(group));
        if !all.weights.is_finite() || all.products.iter().any(|value| !value.is_finite()) {
            return Err(RuntimeError::NotANumber { what: "an input of the head that is not finite".into() });
        }
        progress.end();
        Ok(HeadMoments { cols, group_of, groups, all })
    }

    /// Groups of tokens.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The group of each row of the head.
    pub fn group_of(&self) -> &[u16] {
        &self.group_of
    }

    /// The moment of a group for each time that a token of it is to be expected, n x n for n columns, both triangles. Where few
    /// inputs speak for the group, more of it is that of all.
    ///
    /// # Panics
    /// When there is no such group.
    pub fn moment(&self, group: usize) -> Vec<f32> {
        let (group, n) = (&self.groups[group], self.cols);
        let of_all = OF_ALL * group.inputs() + INPUTS_OF_COLUMN * n as f64;
        let own = group.inputs() / (group.inputs() + of_all);
        let mut moment = vec![0.0; n * n];
        for i in 0..n {
            for j in i..n {
                let at = i * n + j;
                let value = (own * group.per_token(at) + (1.0 - own) * self.all.per_token(at)) as f32;
                moment[at] = value;
                moment[j * n + i] = value;
            }
        }
        moment
    }
}

/// How many layers take as long as the head.
fn layers_of_head(source: &dyn WeightSource) -> u64 {
    let values = |layer| {
        let of_layer = source.tensors().iter().filter(move |info| info.id.layer == layer);
        of_layer.map(|info| info.rows as u64 * info.cols as u64).sum::<u64>()
    };
    let head = u64::from(source.config().vocab) * u64::from(source.config().hidden);
    head.div_ceil(values(Some(0)).max(1))
}

/// Of each token of chunk `i`, behind the last layer, and each of so many groups: its weight, and its probability.
fn weights(stream: &mut Stream, i: usize, group_of: &[u16], groups: usize) -> Result<Vec<f32>> {
    let cpu = stream.cpu().clone();
    let (tokens, vocab, width) = (stream.tokens(i), group_of.len(), 2 * groups);
    let at_once = (LOGITS / vocab.max(1)).clamp(1, tokens.max(1));
    let (mut logits, mut weights) = (Vec::new(), vec![0.0f32; tokens * width]);
    for (first, weights) in (0..tokens).step_by(at_once).zip(weights.chunks_mut(at_once * width)) {
        let count = weights.len() / width;
        logits.resize(count * vocab, 0.0);
        stream.logits(i, first..first + count, &mut logits)?;
        cpu.for_each_rows([(weights, width), (&mut logits, vocab)], 64 * vocab, |_, [weights, logits]| {
            for (weights, logits) in weights.chunks_exact_mut(width).zip(logits.chunks_exact_mut(vocab)) {
                softmax_in_place(cpu.isa(), logits);
                for (p, group) in logits.iter().zip(group_of) {
                    let sums = &mut weights[2 * usize::from(*group)..][..2];
                    sums[0] += p * (1.0 - p);
                    sums[1] += p;
                }
            }
        });
    }
    Ok(weights)
}

/// Adds what the head reads of chunk `i`, behind the last layer.
fn add_chunk(stream: &mut Stream, i: usize, weights: &[f32], groups: &mut [Group]) -> Result<()> {
    let (cpu, cols, width) = (stream.cpu().clone(), stream.head_width(), 2 * groups.len());
    let rows = stream.head_input(i)?;
    let (mut panels, mut weighted) = (ColumnPanels::new(), Vec::new());
    for (number, group) in groups.iter_mut().enumerate() {
        weighted.clear();
        for (weights, row) in weights.chunks_exact(width).zip(rows.chunks_exact(cols)) {
            let (weight, p) = (weights[2 * number], weights[2 * number + 1]);
            if weight >= LEAST_WEIGHT {
                group.tokens += f64::from(p);
                group.weights += f64::from(weight);
                group.squares += f64::from(weight) * f64::from(weight);
                let root = weight.sqrt();
                weighted.extend(row.iter().map(|value| root * value));
            }
        }
        if !weighted.is_empty() {
            panels.fill(&cpu, &weighted, cols);
            cpu.add_second_moment(&panels, &mut group.products);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use qsf_runtime::cpu::Isa;
    use qsf_runtime::eval::divergence;
    use qsf_runtime::source::{Replaced, Tensor, open};
    use qsf_runtime::{Activations, Decoder, Model};

    use super::*;

    fn golden(name: &str) -> Box<dyn WeightSource> {
        open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden").join(name)).unwrap()
    }

    fn measured(source: &dyn WeightSource, cpu: &Cpu, groups: usize) -> HeadMoments {
        let tokens: Vec<u32> = (0..60).map(|i| i * 7 % source.config().vocab).collect();
        HeadMoments::measure(source, cpu, &tokens, Some(groups), &Unwatched, &Cancel::default()).unwrap()
    }

    fn logits(source: &dyn WeightSource) -> Vec<f32> {
        let tokens: Vec<u32> = (0..60).map(|i| i * 7 % source.config().vocab).collect();
        let model = Arc::new(Model::load(source).unwrap());
        let decoder = Decoder::new(model, Cpu::new(Isa::best()), Some(Activations::F32));
        let mut state = decoder.state(60, 60).unwrap();
        decoder.forward(&mut state, &tokens).unwrap();
        let mut all = vec![0.0; 60 * source.config().vocab as usize];
        decoder.logits(&mut state, 0..60, &mut all).unwrap();
        all
    }

    /// Each row in a group of its own: its moment says what a small change of the row does to the predictions.
    #[test]
    fn moments_say_how_far_predictions_go_when_a_row_of_the_head_changes() {
        let source = golden("llama");
        let (id, vocab) = (TensorId::of_model(TensorKind::Head), source.config().vocab as usize);
        let found = measured(&*source, &Cpu::new(Isa::best()), vocab);
        assert_eq!((found.groups(), found.group_of().len()), (vocab, vocab));
        let (head, base, isa) = (source.load(id).unwrap(), logits(&*source), Isa::best());
        for row in [3, 40, 77] {
            let group = &found.groups[usize::from(found.group_of()[row])];
            let error = |col: usize| 0.002 * ((col * 37 + row) % 19) as f32 - 0.018;
            let mut values = head.to_f32();
            (0..found.cols).for_each(|col| values[row * found.cols + col] += error(col));
            let mut changed = Replaced::new(&*source);
            changed.replace(id, Tensor::from_f32(head.rows(), head.cols(), &values)).unwrap();
            let rows = logits(&changed);
            let rows = base.chunks_exact(vocab).zip(rows.chunks_exact(vocab));
            let real: f64 = rows.map(|(base, changed)| divergence(isa, base, changed)).sum();
            let mut expected = 0.0;
            for i in 0..found.cols {
                for j in 0..found.cols {
                    let product = f64::from(group.products[i.min(j) * found.cols + i.max(j)]);
                    expected += 0.5 * product * f64::from(error(i) * error(j));
                }
            }
            assert!((real - expected).abs() < 0.1 * real, "row {row}: {real}, {expected} by its moment");
        }
    }

    #[test]
    fn groups_add_up_to_all_and_those_with_few_inputs_lean_on_it() {
        let source = golden("qwen3");
        let found = measured(&*source, &Cpu::new(Isa::best()), 6);
        let sum: f64 = found.groups.iter().map(|group| f64::from(group.products[0])).sum();
        assert!((sum - f64::from(found.all.products[0])).abs() < 1e-4 * sum);
        for group in 0..found.groups() {
            let moment = found.moment(group);
            let (own, all) = (found.groups[group].per_token(0), found.all.per_token(0));
            let between = own.min(all)..=own.max(all);
            assert!(between.contains(&f64::from(moment[0])), "{group}: {} of {between:?}", moment[0]);
            assert_eq!(moment[1], moment[found.cols], "both triangles");
        }
        let mut none = found;
        none.groups[2] = Group { products: vec![0.0; none.cols * none.cols], ..Group::default() };
        assert_eq!(none.moment(2)[0], none.all.per_token(0) as f32);
    }

    #[test]
    fn without_groups_all_inputs_count_alike() {
        let source = golden("qwen3");
        let (cpu, tokens) = (Cpu::new(Isa::best()), [3, 50, 7, 11, 2]);
        let cancel = Cancel::default();
        let found = HeadMoments::measure(&*source, &cpu, &tokens, None, &Unwatched, &cancel).unwrap();
        let mut expected = None;
        let detail = crate::Detail::Full;
        crate::for_each_layer::<RuntimeError>(
            &*source,
            &cpu,
            &tokens,
            detail,
            &Unwatched,
            &cancel,
            |stats| {
                expected =
                    stats.inputs.get(&qsf_runtime::LinearInput::Head).and_then(crate::Moments::second_moment);
                Ok(())
            },
        )
        .unwrap();
        let (found, expected) = (found.moment(0), expected.unwrap());
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs() + 1e-6;
        assert!(found.len() == expected.len() && found.iter().zip(&expected).all(close));
    }

    #[test]
    fn every_instruction_set_and_number_of_threads_gives_the_same_moments() {
        let source = golden("qwen3");
        let expected = measured(&*source, &Cpu::new(Isa::SCALAR), 5);
        for isa in Isa::available() {
            let found = measured(&*source, &Cpu::with_threads(isa, 3).unwrap(), 5);
            assert_eq!(found.group_of, expected.group_of, "{isa:?}");
            for group in 0..expected.groups() {
                assert_eq!(found.moment(group), expected.moment(group), "{isa:?}, group {group}");
            }
        }
    }
}
