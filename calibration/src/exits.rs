//! Classifiers by which a model may be left early (SPEC.md section 7.10), learned from what a text does inside of it.

use std::sync::OnceLock;

use qsf_format::{EarlyExits, LayerExit};
use qsf_runtime::cpu::zeros;
use qsf_runtime::progress::Progress;
use qsf_runtime::{Decoder, DecoderState, Result, RuntimeError};

use crate::logistic::{Examples, Regression};

/// Tokens of a chunk, which starts from an empty context.
const CHUNK: usize = 512;
/// Most logits in memory at a time, 64 MiB.
const MAX_LOGITS: usize = 1 << 24;
/// Most values of examples in memory, 256 MiB: of a wide model fewer positions of the text are taken.
const MAX_VALUES: usize = 1 << 26;
/// Most exits: more are no more use than the nearest of these.
const MAX_EXITS: usize = 8;
/// The first layer with an exit is the one behind this part of all: before, next to nothing is decided.
const FIRST_PART: usize = 3;

/// The layers that get a classifier, of `layers`: at most eight, evenly from a third of the model to its last layer but one.
/// None where there are too few to leave any out.
pub fn exit_layers(layers: usize) -> Vec<usize> {
    let first = layers / FIRST_PART;
    let candidates = layers.saturating_sub(1).saturating_sub(first);
    let count = candidates.min(MAX_EXITS);
    (0..count).map(|i| first + i * candidates / count).collect()
}

/// Learns a classifier for each of [`exit_layers`] of the model that `decoder` runs. Of the chunks of the text `tokens`, every
/// other one is learned from; on the others the agreements are counted.
///
/// # Errors
/// When the model has too few layers, the text has fewer than two tokens or one beyond the vocabulary, the model computes
/// something that is not finite, memory runs out, or the decoder is stopped.
pub fn early_exits(decoder: &Decoder, tokens: &[u32], progress: &dyn Progress) -> Result<EarlyExits> {
    let config = &decoder.model().config;
    let (cols, vocab) = (config.hidden as usize, config.vocab as usize);
    let layers = exit_layers(config.layers as usize);
    if layers.is_empty() || tokens.len() < 2 {
        return Err(RuntimeError::Request(format!(
            "early exits need a model of at least 2 layers and a text of at least 2 tokens, these are {} and {}",
            config.layers,
            tokens.len()
        )));
    }
    let tokens = &tokens[..tokens.len().min(MAX_VALUES / (cols * layers.len())).max(2)];
    let chunk = CHUNK.min(config.max_positions as usize).min(tokens.len().div_ceil(2)).max(1);
    let mut state = decoder.state(chunk, chunk)?;
    let chunk = state.batch();
    let rows = (MAX_LOGITS / vocab).clamp(1, chunk);
    let mut logits = zeros(rows * vocab, "logits")?;
    let mut examples = vec![[Examples::default(), Examples::default()]; layers.len()];
    progress.begin("learning early exits", tokens.len() as u64);
    for (i, tokens) in tokens.chunks(chunk).enumerate() {
        state.rewind(0)?;
        let mut hidden: Vec<Vec<f32>> = vec![Vec::new(); layers.len()];
        decoder.forward_watched(&mut state, tokens, &mut |layer, rows| {
            if let Some(at) = layers.iter().position(|exit| *exit == layer) {
                hidden[at] = rows.to_vec();
            }
        })?;
        let mut likeliest = Vec::new();
        collect(decoder, &mut state, tokens.len(), &mut logits, |_, token| likeliest.push(token))?;
        for (hidden, examples) in hidden.iter().zip(&mut examples) {
            decoder.take_hidden(&mut state, hidden)?;
            let examples = &mut examples[i % 2];
            let mut expected = likeliest.iter();
            collect(decoder, &mut state, tokens.len(), &mut logits, |x, token| {
                examples.rows.extend_from_slice(x);
                examples.happened.push(expected.next() == Some(&token));
            })?;
        }
        progress.advance(tokens.len() as u64);
    }
    progress.end();
    let positions = examples[0][1].happened.len() as u32;
    let exits = learn_all(decoder, &layers, &examples)?;
    Ok(EarlyExits { cols: cols as u32, positions, exits })
}

/// A classifier for each of `layers` from its examples, each on one thread.
fn learn_all(decoder: &Decoder, layers: &[usize], examples: &[[Examples; 2]]) -> Result<Vec<LayerExit>> {
    let cols = decoder.model().config.hidden as usize;
    let learned: Vec<OnceLock<Regression>> = layers.iter().map(|_| OnceLock::new()).collect();
    decoder.cpu().pool().for_each(layers.len(), usize::MAX, |i| {
        if decoder.cancel().check().is_ok() {
            let [seen, others] = &examples[i];
            learned[i].get_or_init(|| Regression::learn(cols, seen, others));
        }
    });
    let exits = layers.iter().zip(examples).zip(learned).map(|((layer, [_, others]), learned)| {
        // What is missing was stopped.
        let Regression { weights, bias } = learned.into_inner().ok_or(RuntimeError::Interrupted)?;
        let agreeing = others.happened.iter().filter(|agrees| **agrees).count() as u32;
        Ok(LayerExit { layer: *layer as u32, agreeing, bias, weights })
    });
    exits.collect()
}

/// Gives `take` what the head reads of each row of the last step, and the likeliest token there.
fn collect(
    decoder: &Decoder,
    state: &mut DecoderState,
    count: usize,
    logits: &mut [f32],
    mut take: impl FnMut(&[f32], usize),
) -> Result<()> {
    let (cols, vocab) = (decoder.model().config.hidden as usize, decoder.model().config.vocab as usize);
    for first in (0..count).step_by(logits.len() / vocab) {
        decoder.cancel().check()?;
        let rows = first..count.min(first + logits.len() / vocab);
        let logits = &mut logits[..rows.len() * vocab];
        decoder.logits(state, rows.clone(), logits)?;
        let inputs = decoder.head_input(state, rows).chunks_exact(cols);
        for (x, logits) in inputs.zip(logits.chunks_exact(vocab)) {
            if !logits.iter().chain(x).all(|value| value.is_finite()) {
                return Err(RuntimeError::NotANumber { what: "logits for early exits".into() });
            }
            take(x, likeliest(logits));
        }
    }
    Ok(())
}

/// The token with the largest logit; of equal ones the first.
fn likeliest(logits: &[f32]) -> usize {
    (1..logits.len()).fold(0, |best, token| if logits[token] > logits[best] { token } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_lie_between_a_third_of_the_layers_and_the_last() {
        assert_eq!(exit_layers(14), [4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(exit_layers(4), [1, 2]);
        assert_eq!(exit_layers(2), [0]);
        assert!(exit_layers(1).is_empty() && exit_layers(0).is_empty());
        for layers in 2..100 {
            let exits = exit_layers(layers);
            assert!(exits.len() <= MAX_EXITS && exits.windows(2).all(|pair| pair[0] < pair[1]), "{layers}");
            assert!(exits[exits.len() - 1] < layers - 1, "{layers}: {exits:?}");
        }
    }
}
