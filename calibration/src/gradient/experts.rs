//! A mixture of experts. Which experts a token goes to is taken as given; what they weigh is not.

use qsf_format::{Experts, RouterScore, TensorKind};
use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::cpu::math::{exp, sigmoid};
use qsf_runtime::cpu::{Cpu, Vectorized};
use qsf_runtime::{Result, Routing};

use super::feed_forward::{FeedForward, FeedForwardTape, function_of};
use super::linear::Linear;
use super::parameters::Parameters;
use super::sink::Sink;

/// The experts of a layer.
pub(super) struct Mixture<'a> {
    parameters: Parameters<'a>,
    config: &'a Experts,
    router: Linear,
    choice_bias: Option<Vec<f32>>,
    experts: Vec<FeedForward>,
    shared: Option<(Option<Linear>, FeedForward)>,
}

/// What is kept of a sequence on the way forwards.
pub(super) struct MixtureTape {
    /// Tokens x experts: what the router gives, and scores made of it.
    logits: Vec<f32>,
    scores: Vec<f32>,
    /// Those that are not empty.
    experts: Vec<ExpertTape>,
    shared: Option<SharedTape>,
}

struct ExpertTape {
    expert: usize,
    /// Tokens and weights.
    chosen: Vec<(usize, f32)>,
    read: Vec<f32>,
    inner: FeedForwardTape,
    out: Vec<f32>,
}

struct SharedTape {
    logits: Option<Vec<f32>>,
    inner: FeedForwardTape,
    out: Vec<f32>,
}

impl<'a> Mixture<'a> {
    pub fn load(parameters: Parameters<'a>, config: &'a Experts) -> Result<Mixture<'a>> {
        use TensorKind::*;
        let count = config.count as usize;
        let function = function_of(&parameters)?;
        let gated = parameters.config().gated_ffn;
        let mut gates = match gated {
            true => {
                parameters.stacked(ExpertGate, Some(ExpertGateBias), count)?.into_iter().map(Some).collect()
            }
            false => (0..count).map(|_| None).collect::<Vec<_>>(),
        };
        let ups = parameters.stacked(ExpertUp, Some(ExpertUpBias), count)?;
        let downs = parameters.stacked(ExpertDown, Some(ExpertDownBias), count)?;
        let experts = gates
            .drain(..)
            .zip(ups)
            .zip(downs)
            .map(|((gate, up), down)| FeedForward { gate, up, norm: None, down, function, gate_factor: 1.0 })
            .collect();
        let shared = config.shared.map(|shared| -> Result<_> {
            let router = shared.gated.then(|| parameters.linear(SharedRouter, None)).transpose()?;
            let (up, down) = (parameters.linear(SharedUp, None)?, parameters.linear(SharedDown, None)?);
            let gate = gated.then(|| parameters.linear(SharedGate, None)).transpose()?;
            Ok((router, FeedForward { gate, up, norm: None, down, function, gate_factor: 1.0 }))
        });
        Ok(Mixture {
            config,
            router: parameters.linear(Router, Some(RouterBias))?,
            choice_bias: parameters.vector(RouterChoiceBias)?,
            experts,
            shared: shared.transpose()?,
            parameters,
        })
    }

    fn hidden(&self) -> usize {
        self.parameters.config().hidden as usize
    }

    /// What the experts add for rows of `x`, and what the way back needs.
    pub fn forward(&self, cpu: &Cpu, x: &[f32]) -> Result<(Vec<f32>, MixtureTape)> {
        let (hidden, used) = (self.hidden(), self.config.used as usize);
        let tokens = x.len() / hidden;
        let logits = self.router.forward(cpu, x)?;
        let mut routing = Routing::new(self.parameters.config(), tokens)?;
        routing.logits.copy_from_slice(&logits);
        routing.choose(cpu.isa(), tokens, self.config, self.choice_bias.as_deref(), None);
        let mut out = vec![0.0; x.len()];
        let mut tapes = Vec::new();
        for (expert, mlp) in self.experts.iter().enumerate() {
            let weights = (0..tokens).filter_map(|t| Some((t, routing.weight(t, expert, used)?)));
            let chosen: Vec<(usize, f32)> = weights.collect();
            if chosen.is_empty() {
                continue;
            }
            let mut read = Vec::with_capacity(chosen.len() * hidden);
            for (t, weight) in &chosen {
                let by = if self.config.weigh_inputs { *weight } else { 1.0 };
                read.extend(x[t * hidden..][..hidden].iter().map(|x| x * by));
            }
            let (given, inner) = mlp.forward(cpu, &read)?;
            for ((t, weight), given) in chosen.iter().zip(given.chunks_exact(hidden)) {
                let by = if self.config.weigh_inputs { 1.0 } else { *weight };
                add_scaled(&mut out[t * hidden..][..hidden], by, given);
            }
            tapes.push(ExpertTape { expert, chosen, read, inner, out: given });
        }
        let shared = match &self.shared {
            Some((router, mlp)) => {
                let (given, inner) = mlp.forward(cpu, x)?;
                let logits = router.as_ref().map(|router| router.forward(cpu, x)).transpose()?;
                for (t, (out, given)) in
                    out.chunks_exact_mut(hidden).zip(given.chunks_exact(hidden)).enumerate()
                {
                    add_scaled(out, logits.as_ref().map_or(1.0, |logits| sigmoid(logits[t])), given);
                }
                Some(SharedTape { logits, inner, out: given })
            }
            None => None,
        };
        let scores = std::mem::take(&mut routing.logits);
        Ok((out, MixtureTape { logits, scores, experts: tapes, shared }))
    }

    /// Adds the gradient at `x`, which router and experts read, to `into`.
    pub fn backward(
        &mut self,
        sink: &mut Sink<'_>,
        x: &[f32],
        tape: &MixtureTape,
        given: &[f32],
        into: &mut [f32],
    ) -> Result<()> {
        let (hidden, count, isa) = (self.hidden(), self.config.count as usize, sink.cpu.isa());
        let product = |a: &[f32], b: &[f32]| isa.vectorize(Dot { a, b });
        // Of each token the chosen experts, in their order, with their weights and the gradients at these.
        let mut chosen: Vec<Vec<(usize, f32, f32)>> = vec![Vec::new(); x.len() / hidden];
        for of_expert in &tape.experts {
            let mut at_out = Vec::with_capacity(of_expert.out.len());
            for (t, weight) in &of_expert.chosen {
                let by = if self.config.weigh_inputs { 1.0 } else { *weight };
                at_out.extend(given[t * hidden..][..hidden].iter().map(|given| given * by));
            }
            let mut at_read = vec![0.0; of_expert.read.len()];
            let mlp = &mut self.experts[of_expert.expert];
            mlp.backward(sink, &of_expert.read, &of_expert.inner, &at_out, &mut at_read)?;
            for (i, (t, weight)) in of_expert.chosen.iter().enumerate() {
                let (of_token, row) = (t * hidden..(t + 1) * hidden, i * hidden..(i + 1) * hidden);
                let (at_weight, by) = match self.config.weigh_inputs {
                    true => (product(&at_read[row.clone()], &x[of_token.clone()]), *weight),
                    false => (product(&given[of_token.clone()], &of_expert.out[row.clone()]), 1.0),
                };
                add_scaled(&mut into[of_token], by, &at_read[row]);
                chosen[*t].push((of_expert.expert, *weight, at_weight));
            }
        }
        let mut at_logits = vec![0.0; tape.logits.len()];
        for (t, chosen) in chosen.iter().enumerate() {
            let range = t * count..(t + 1) * count;
            let (logits, scores) = (&tape.logits[range.clone()], &tape.scores[range.clone()]);
            at_router(self.config, logits, scores, chosen, &mut at_logits[range]);
        }
        self.router.backward(sink, x, &at_logits, into)?;
        let (Some((router, mlp)), Some(shared)) = (&mut self.shared, &tape.shared) else { return Ok(()) };
        let mut at_out = given.to_vec();
        if let (Some(router), Some(logits)) = (router, &shared.logits) {
            let mut at_logits = Vec::with_capacity(logits.len());
            let rows = at_out.chunks_exact_mut(hidden).zip(shared.out.chunks_exact(hidden));
            for (logit, (at_out, out)) in logits.iter().zip(rows) {
                let weight = sigmoid(*logit);
                at_logits.push(product(at_out, out) * weight * (1.0 - weight));
                at_out.iter_mut().for_each(|value| *value *= weight);
            }
            router.backward(sink, x, &at_logits, into)?;
        }
        mlp.backward(sink, x, &shared.inner, &at_out, into)
    }
}

/// The gradient at what the router gives for a token, from those at the weights of its experts.
fn at_router(
    config: &Experts,
    logits: &[f32],
    scores: &[f32],
    chosen: &[(usize, f32, f32)],
    out: &mut [f32],
) {
    if config.score == RouterScore::SparseMixer {
        return at_sparse_mixer(config.margin.unwrap_or_default(), logits, chosen, out);
    }
    let by = config.weight_scale.unwrap_or(1.0);
    let sum: f32 = chosen.iter().map(|(expert, ..)| scores[*expert]).sum();
    let along: f32 = chosen.iter().map(|(expert, _, at)| at * by * scores[*expert] / sum).sum();
    for (expert, _, at) in chosen {
        out[*expert] = if config.normalize_weights { (at * by - along) / sum } else { at * by };
    }
    match config.score {
        RouterScore::Softmax => {
            let mean: f32 = out.iter().zip(scores).map(|(at, score)| at * score).sum();
            out.iter_mut().zip(scores).for_each(|(at, score)| *at = score * (*at - mean));
        }
        RouterScore::Sigmoid | RouterScore::SparseMixer => {
            out.iter_mut().zip(scores).for_each(|(at, score)| *at *= score * (1.0 - score));
        }
    }
}

/// The same where each weight is a softmax over the scores that are near it and not chosen before.
fn at_sparse_mixer(margin: f32, logits: &[f32], chosen: &[(usize, f32, f32)], out: &mut [f32]) {
    let mut in_order = chosen.to_vec();
    in_order.sort_by(|(a, ..), (b, ..)| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    for (at, (expert, weight, at_weight)) in in_order.iter().enumerate() {
        let largest = logits[*expert];
        for (e, logit) in logits.iter().enumerate() {
            let taken = in_order[..at].iter().any(|(taken, ..)| *taken == e);
            let far = (largest - logit) / logit.abs().max(largest) > margin;
            if !taken && !far {
                let part = weight * exp(logit - largest);
                out[e] += at_weight * weight * (f32::from(e == *expert) - part);
            }
        }
    }
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Vectorized for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        dot(self.a, self.b)
    }
}

fn add_scaled(x: &mut [f32], factor: f32, y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += factor * y);
}
