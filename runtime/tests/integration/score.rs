//! Scores of continuations are what running every text from its beginning gives, and what transformers computed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::eval::GoldenExpectation;
use qsf_runtime::score::{ContinuationScore, ScoreOptions, Scorer};
use qsf_runtime::{Activations, Decoder, Model, Runner as _, RuntimeError, source};

/// Plain attention, a window and none, learned positions, two kinds of recurrence, latent attention.
const MODELS: [&str; 7] = ["llama", "gemma3", "mistral", "gpt2", "bamba", "qwen3_next", "deepseek_v3"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden").join(name)
}

fn decoder(name: &str) -> Decoder {
    let model = Model::load(&*source::open(&folder(name)).unwrap()).unwrap();
    Decoder::new(Arc::new(model), Cpu::new(Isa::best()), Some(Activations::F32))
}

fn golden(name: &str) -> GoldenExpectation {
    GoldenExpectation::read(&folder(name).join("expected.safetensors")).unwrap()
}

/// By running all of it in one step.
fn plainly(decoder: &Decoder, context: &[u32], continuation: &[u32]) -> (Vec<f64>, bool) {
    let vocab = decoder.config().vocab as usize;
    let tokens = [context, continuation].concat();
    let mut state = decoder.state(tokens.len(), tokens.len()).unwrap();
    decoder.forward(&mut state, &tokens[..tokens.len() - 1]).unwrap();
    let mut logits = vec![0.0; continuation.len() * vocab];
    decoder.logits(&mut state, context.len() - 1..tokens.len() - 1, &mut logits).unwrap();
    let mut greedy = true;
    let losses = logits.chunks(vocab).zip(continuation).map(|(row, token)| {
        let total: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        greedy &= row.iter().all(|logit| *logit <= row[*token as usize]);
        f64::from(row[*token as usize]) - total.ln()
    });
    (losses.collect(), greedy)
}

#[track_caller]
fn assert_plain(decoder: &Decoder, context: &[u32], continuation: &[u32], score: &ContinuationScore) {
    let (expected, greedy) = plainly(decoder, context, continuation);
    assert_eq!((score.tokens(), score.greedy), (continuation.len(), greedy));
    for (found, expected) in score.log_likelihoods.iter().zip(expected) {
        let name = &decoder.config().architecture;
        assert!((found - expected).abs() < 1e-5, "{name}: {found} for {expected}");
    }
}

#[test]
fn likelihoods_are_those_of_transformers() {
    for name in MODELS {
        let (decoder, golden) = (decoder(name), golden(name));
        let ids = &golden.input_ids;
        let mut scorer = Scorer::new(&decoder, ScoreOptions::new(ids.len())).unwrap();
        for context in [1, ids.len() / 2, ids.len() - 1] {
            let score = &scorer.score(&ids[..context], &[&ids[context..]]).unwrap()[0];
            for (found, expected) in score.log_likelihoods.iter().zip(&golden.nll[context - 1..]) {
                assert!((found + f64::from(*expected)).abs() < 1e-3, "{name}: {found} for {expected}");
            }
            assert_eq!(score.tokens(), ids.len() - context);
        }
        let greedy = &scorer.score(&ids[..20], &[&golden.greedy]).unwrap()[0];
        assert!(greedy.greedy, "{name}");
    }
}

#[test]
fn contexts_are_run_once_and_scores_are_those_of_every_text_alone() {
    for name in MODELS {
        let (decoder, golden) = (decoder(name), golden(name));
        let ids = &golden.input_ids;
        let mut options = ScoreOptions::new(ids.len());
        (options.step, options.logit_rows) = (7, 3);
        let mut scorer = Scorer::new(&decoder, options).unwrap();
        let continuations = [&ids[10..20], &ids[11..12], &ids[10..15], &ids[30..30]];
        let scores = scorer.score(&ids[..10], &continuations).unwrap();
        assert_eq!(scorer.tokens_run(), 10 + 9 + 4, "{name}");
        for (continuation, score) in continuations.iter().zip(&scores) {
            if !continuation.is_empty() {
                assert_plain(&decoder, &ids[..10], continuation, score);
            }
        }
        assert_eq!((scores[3].log_likelihood(), scores[3].tokens(), scores[3].greedy), (0.0, 0, true));
        assert_eq!(scorer.score(&ids[..10], &continuations).unwrap(), scores, "{name}");
        // A context that goes on otherwise, one that is the beginning of it, and one that is longer.
        let before = scorer.tokens_run();
        for context in [[&ids[..6], &ids[20..26]].concat(), ids[..4].to_vec(), ids[..30].to_vec()] {
            let score = &scorer.score(&context, &[&ids[3..9]]).unwrap()[0];
            assert_plain(&decoder, &context, &ids[3..9], score);
        }
        let run = scorer.tokens_run() - before;
        let all = 12 + 4 + 30 + 3 * 5;
        if decoder.config().recurrent.is_none() {
            assert_eq!(run, all - 6 - 3 - 4, "{name}: what contexts share is not run again");
        } else {
            assert_eq!(run, all - 4, "{name}: only the end of the last context can be gone back to");
        }
    }
}

#[test]
fn long_contexts_are_cut_on_the_left_as_much_as_each_continuation_needs() {
    for name in ["llama", "bamba"] {
        let (decoder, golden) = (decoder(name), golden(name));
        let ids = &golden.input_ids;
        let mut scorer = Scorer::new(&decoder, ScoreOptions::new(12)).unwrap();
        let continuations = [&ids[20..26], &ids[20..21], &ids[20..32]];
        let scores = scorer.score(&ids[..20], &continuations).unwrap();
        // 12 tokens go in, and the one behind them is scored.
        assert_eq!(scores.iter().map(|score| score.cut).collect::<Vec<_>>(), [13, 8, 19]);
        for (continuation, score) in continuations.iter().zip(&scores) {
            assert_plain(&decoder, &ids[score.cut..20], continuation, score);
        }
        let error = scorer.score(&ids[..20], &[&ids[..13]]).unwrap_err().to_string();
        assert!(error.contains("13 tokens") && error.contains("12 tokens"), "{error}");
    }
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let decoder = decoder("llama");
    let mut scorer = Scorer::new(&decoder, ScoreOptions::new(16)).unwrap();
    let vocab = decoder.config().vocab;
    for (context, continuation) in [(vec![], vec![1]), (vec![vocab], vec![1]), (vec![1], vec![vocab])] {
        let error = scorer.score(&context, &[continuation]).unwrap_err();
        assert!(matches!(error, RuntimeError::Request(_)), "{error}");
    }
    assert_eq!(scorer.score(&[1], &[[2]]).unwrap()[0].tokens(), 1);
}
