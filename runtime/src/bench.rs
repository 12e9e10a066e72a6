//! Speed of a model: prompt processing and decoding, apart, on a fixed synthetic input; tokenization and sampling are not
//! part of it.

use std::time::Instant;

use serde::Serialize;

use crate::decoder::Decoder;
use crate::error::{Result, RuntimeError};
use crate::generate::PROMPT_BATCH;
use crate::progress::Progress;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct BenchOptions {
    /// Prompt tokens.
    pub prompt_tokens: usize,
    /// Decoded tokens, one a step, from an empty context.
    pub decode_tokens: usize,
    /// Measured repetitions of each, after one that is not counted.
    pub repetitions: usize,
}

/// Tokens per second over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speed {
    /// Tokens of one repetition.
    pub tokens: usize,
    /// Mean tokens per second.
    pub mean: f64,
    /// Standard deviation over the repetitions; 0 for a single one.
    pub stddev: f64,
}

/// Result of [`bench()`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BenchReport {
    /// Prompt processing in steps of at most 512 tokens, the head for the last token only.
    pub prefill: Speed,
    /// One token a step, with the head.
    pub decode: Speed,
    /// Bytes of weights that one decoded token reads.
    pub weight_bytes_per_token: u64,
    /// Weights read per second while decoding, in GB (10^9 bytes).
    pub decode_gb_per_second: f64,
}

/// Measures a model.
///
/// # Errors
/// When the lengths exceed the model's context or the user interrupts.
pub fn bench(decoder: &Decoder, options: BenchOptions, progress: &dyn Progress) -> Result<BenchReport> {
    let BenchOptions { prompt_tokens, decode_tokens, repetitions } = options;
    if prompt_tokens == 0 || decode_tokens == 0 || repetitions == 0 {
        return Err(RuntimeError::Request(
            "bench needs at least one token of each kind and one repetition".into(),
        ));
    }
    let longest = prompt_tokens.max(decode_tokens);
    let mut state = decoder.state(longest, PROMPT_BATCH)?;
    let vocab = decoder.model().config.vocab;
    // Tokens spread over the vocabulary, the same in every run.
    let tokens: Vec<u32> = (0..longest as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab).collect();
    let mut logits = vec![0.0; vocab as usize];
    let mut prefill = Vec::new();
    let mut decode = Vec::new();
    progress.begin("bench", (repetitions as u64).saturating_add(1).saturating_mul(2));
    for repetition in 0..=repetitions {
        state.rewind(0);
        let started = Instant::now();
        for batch in tokens[..prompt_tokens].chunks(state.batch()) {
            decoder.forward(&mut state, batch)?;
            let last = batch.len() - 1;
            if state.position() == prompt_tokens {
                decoder.logits(&mut state, last..last + 1, &mut logits);
            }
        }
        let prefill_seconds = started.elapsed().as_secs_f64();
        progress.advance(1);
        state.rewind(0);
        let started = Instant::now();
        for token in &tokens[..decode_tokens] {
            decoder.forward(&mut state, std::slice::from_ref(token))?;
            decoder.logits(&mut state, 0..1, &mut logits);
        }
        let decode_seconds = started.elapsed().as_secs_f64();
        progress.advance(1);
        if repetition > 0 {
            prefill.push(prompt_tokens as f64 / prefill_seconds);
            decode.push(decode_tokens as f64 / decode_seconds);
        }
    }
    progress.end();
    let decode = speed(decode_tokens, &decode);
    let weight_bytes_per_token = decoder.model().bytes_per_token();
    Ok(BenchReport {
        prefill: speed(prompt_tokens, &prefill),
        decode,
        weight_bytes_per_token,
        decode_gb_per_second: decode.mean * weight_bytes_per_token as f64 / 1e9,
    })
}

fn speed(tokens: usize, rates: &[f64]) -> Speed {
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let squares: f64 = rates.iter().map(|r| (r - mean).powi(2)).sum();
    let stddev = if rates.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    Speed { tokens, mean, stddev }
}
