//! Speed of a model: prompt processing and decoding, each alone, and what the time of a token is spent on.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::decoder::{KvOptions, MatrixTime, Profile, Section, StateBytes};
use crate::error::{Result, RuntimeError};
use crate::memory;
use crate::progress::Progress;
use crate::runner::{Runner, Sequence};
use crate::sample::{Sampler, SamplerOptions};
use qsf_cpu::{KvTypes, zeros};
use qsf_format::ModelConfig;

/// What is done with the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestKind {
    /// Processed together, in steps; the head for the last only.
    Prompt,
    /// One a step, each with the head.
    Decode,
}

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Test {
    /// How tokens are processed.
    pub kind: TestKind,
    /// Tokens of one repetition, of each sequence.
    pub tokens: usize,
    /// Positions that the context holds already.
    pub depth: usize,
    /// Sequences that are decoded together, one token of each in a step.
    pub sequences: usize,
}

impl Test {
    /// Prompt processing from an empty context.
    pub const fn prompt(tokens: usize) -> Test {
        Test { kind: TestKind::Prompt, tokens, depth: 0, sequences: 1 }
    }

    /// Decoding from an empty context.
    pub const fn decode(tokens: usize) -> Test {
        Test { kind: TestKind::Decode, tokens, depth: 0, sequences: 1 }
    }

    /// The name that llama-bench gives such a test: `pp512`, `tg64 @ d1024`; of several sequences `tg64 x 8`.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            TestKind::Prompt => "pp",
            TestKind::Decode => "tg",
        };
        let depth = if self.depth > 0 { format!(" @ d{}", self.depth) } else { String::new() };
        let sequences = if self.sequences > 1 { format!(" x {}", self.sequences) } else { String::new() };
        format!("{kind}{}{sequences}{depth}", self.tokens)
    }

    /// Tokens of one repetition, of all sequences.
    const fn all_tokens(&self) -> usize {
        self.tokens.saturating_mul(self.sequences)
    }
}

/// Tokens per second over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rate {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; 0 for a single repetition.
    pub stddev: f64,
    /// Of each repetition.
    pub samples: Vec<f64>,
}

impl Rate {
    fn of(samples: Vec<f64>) -> Rate {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let squares: f64 = samples.iter().map(|r| (r - mean).powi(2)).sum();
        let stddev = if samples.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        Rate { mean, stddev, samples }
    }
}

/// A share of a token's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeShare {
    /// Milliseconds per token.
    pub ms_per_token: f64,
    /// Of the whole time.
    pub percent: f64,
}

/// Where the time goes; the parts add up to 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Breakdown {
    /// Weight matrices of the layers, with the quantization of their inputs.
    pub matmul: TimeShare,
    /// Attention over the key/value cache.
    pub attention: TimeShare,
    /// Embedding, norms, rotation, activation functions, residual sums.
    pub elementwise: TimeShare,
    /// The head.
    pub head: TimeShare,
    /// What is between these.
    pub other: TimeShare,
}

impl Breakdown {
    /// The parts with their names, in the order of reports.
    pub fn parts(&self) -> [(&'static str, TimeShare); 5] {
        [
            (Section::Matmul.name(), self.matmul),
            (Section::Attention.name(), self.attention),
            (Section::Elementwise.name(), self.elementwise),
            (Section::Head.name(), self.head),
            ("other", self.other),
        ]
    }
}

/// What products of some matrices take, in all layers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixShare {
    /// The matrices that are multiplied together: `2 x 1536x576 n4`.
    pub matrices: String,
    /// Products for each step of decoding, or for all steps of a prompt and the head.
    pub products: u64,
    /// Their time.
    #[serde(flatten)]
    pub time: TimeShare,
    /// Of decoding: weights read per second, in GB (10^9 bytes).
    pub gb_per_second: Option<f64>,
    /// 10^9 multiply-adds per second.
    pub gmac_per_second: f64,
}

/// Result of one [`Test`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speed {
    /// What was measured.
    #[serde(flatten)]
    pub test: Test,
    /// How fast.
    pub tokens_per_second: Rate,
    /// Bytes that the process had to read from disk per token: 0 where the model is in memory. `None` where the system does
    /// not say.
    pub disk_bytes_per_token: Option<f64>,
    /// Layers that each decoded token went through, on average, where the model may be left early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers_per_token: Option<f64>,
    /// Where the time goes, from one more repetition, so that measuring it costs the others nothing; where asked for.
    pub breakdown: Option<Breakdown>,
    /// The same by matrices, in the order of computation; empty where it is not known.
    pub matrices: Vec<MatrixShare>,
    /// What choosing a token with the default options takes, which is no part of the speed; of decoding, where the breakdown
    /// was asked for.
    pub sampling_ms_per_token: Option<f64>,
}

/// How a speed is measured.
#[derive(Debug, Clone, Copy)]
pub struct SpeedOptions {
    /// Types of keys and values.
    pub kv: KvTypes,
    /// Most tokens of one step of a prompt.
    pub step: usize,
    /// Repetitions that count.
    pub repetitions: usize,
    /// Whether one more repetition shows where the time goes.
    pub explain: bool,
}

/// Measures one test: one repetition that does not count, then those that do, and perhaps one that shows where the time goes.
///
/// # Errors
/// When there is nothing to repeat, the context exceeds the model's, memory runs out or the user interrupts.
pub fn speed<R: Runner>(
    runner: &R,
    test: Test,
    options: SpeedOptions,
    progress: &dyn Progress,
) -> Result<Speed> {
    let SpeedOptions { kv, step, repetitions, explain } = options;
    if test.all_tokens() == 0 || repetitions == 0 {
        let problem = "a measurement needs at least one token, one sequence and one repetition (-r)";
        return Err(RuntimeError::Request(problem.into()));
    }
    // Every repetition goes back to the same position.
    let kv = KvOptions { types: kv, whole: true, keep: None };
    let context = test.depth.saturating_add(test.tokens);
    let vocab = runner.config().vocab;
    if test.sequences > 1 {
        let bytes = bytes_of_sequences(runner.config(), test.sequences, context, kv);
        memory::ask(bytes, || format!("{} sequences of {context} tokens", test.sequences))?;
    }
    let state = runner.states(test.sequences, context, step.max(test.sequences), kv)?;
    // Spread over the vocabulary, the same in every run.
    let token = |i: usize| (i as u32).wrapping_mul(2_654_435_761) % vocab;
    let tokens: Vec<u32> = (0..test.depth.max(test.tokens)).map(token).collect();
    let logits = zeros(test.sequences.saturating_mul(vocab as usize), "logits")?;
    let mut run = Run { runner, state, test, tokens, logits };
    progress.begin(&test.name(), (repetitions as u64).saturating_add(1 + u64::from(explain)));
    let result = run.measure(repetitions, explain, progress);
    progress.end();
    result
}

/// What all of them come to take, one token of each in a step: keys and values are taken as tokens come, so nothing else would say
/// before the memory is gone that it will not do.
fn bytes_of_sequences(config: &ModelConfig, sequences: usize, context: usize, kv: KvOptions) -> u64 {
    let StateBytes { kv, activations, tables } = StateBytes::of(config, context, sequences, kv);
    let logits = (sequences as u64).saturating_mul(u64::from(config.vocab)).saturating_mul(4);
    let kept = kv.saturating_mul(sequences as u64).saturating_add(activations);
    kept.saturating_add(tables).saturating_add(logits)
}

/// A test under way.
struct Run<'a, R: Runner> {
    runner: &'a R,
    state: R::State,
    test: Test,
    tokens: Vec<u32>,
    logits: Vec<f32>,
}

impl<R: Runner> Run<'_, R> {
    fn measure(&mut self, repetitions: usize, explain: bool, progress: &dyn Progress) -> Result<Speed> {
        self.fill()?;
        self.once(progress)?;
        let tokens = self.test.all_tokens() as f64;
        let disk = disk_bytes_read();
        let mut samples = Vec::new();
        for _ in 0..repetitions {
            samples.push(tokens / self.once(progress)?.as_secs_f64());
        }
        let disk = disk.zip(disk_bytes_read()).map(|(before, now)| now.saturating_sub(before) as f64);
        let mut speed = Speed {
            test: self.test,
            tokens_per_second: Rate::of(samples),
            layers_per_token: self.layers_per_token(),
            disk_bytes_per_token: disk.map(|bytes| bytes / tokens / repetitions as f64),
            breakdown: None,
            matrices: Vec::new(),
            sampling_ms_per_token: None,
        };
        if explain {
            if let Some(profile) = self.state.profile() {
                profile.set(true);
                self.state.matrix_times().into_iter().for_each(|times| times.set(true));
                let elapsed = self.once(progress)?;
                speed.breakdown = self.state.profile().map(|profile| breakdown(profile, elapsed, tokens));
                if let Some(times) = self.state.matrix_times() {
                    let share = |product: &MatrixTime| matrix_share(product, self.test, elapsed);
                    speed.matrices = times.products().iter().map(share).collect();
                    times.set(false);
                }
            }
            if self.test.kind == TestKind::Decode {
                let vocab = self.runner.config().vocab as usize;
                speed.sampling_ms_per_token = Some(sampling_ms(&self.logits[..vocab])?);
            }
        }
        Ok(speed)
    }

    /// The tokens before those that are measured.
    fn fill(&mut self) -> Result<()> {
        for batch in self.tokens[..self.test.depth].chunks(self.state.batch()) {
            for sequence in 0..self.test.sequences {
                self.runner.forward_together(&mut self.state, &[(sequence, batch)])?;
            }
        }
        Ok(())
    }

    /// Back to where the tokens that are measured begin. The state of recurrent layers only goes back to the start, from where the
    /// tokens before are read again.
    fn go_back(&mut self) -> Result<()> {
        if self.runner.config().recurrent.is_none() || self.test.depth == 0 {
            return self.state.rewind_all(self.test.depth);
        }
        self.state.rewind_all(0)?;
        self.fill()
    }

    fn once(&mut self, progress: &dyn Progress) -> Result<Duration> {
        self.go_back()?;
        let Run { runner, state, test, tokens, logits } = self;
        let tokens = &tokens[..test.tokens];
        let started = Instant::now();
        match test.kind {
            TestKind::Prompt => {
                let mut rows = 0;
                for batch in tokens.chunks(state.batch()) {
                    runner.forward(state, batch)?;
                    rows = batch.len();
                }
                runner.logits(state, rows - 1..rows, logits)?;
            }
            TestKind::Decode if test.sequences > 1 => {
                for token in tokens.chunks(1) {
                    let parts: Vec<_> = (0..test.sequences).map(|sequence| (sequence, token)).collect();
                    runner.forward_together(state, &parts)?;
                    runner.logits(state, 0..test.sequences, logits)?;
                }
            }
            TestKind::Decode => {
                for &token in tokens {
                    runner.decode(state, token)?;
                    runner.logits(state, 0..1, logits)?;
                }
            }
        }
        let elapsed = started.elapsed();
        progress.advance(1);
        Ok(elapsed)
    }

    /// Of decoding with a model that may be left early.
    fn layers_per_token(&self) -> Option<f64> {
        let decodes = self.test.kind == TestKind::Decode && self.test.sequences == 1;
        let decodes = decodes && self.runner.exits_early();
        self.state.decoded_layers().mean().filter(|_| decodes)
    }
}

/// What a profile says of a repetition of `tokens` tokens.
fn breakdown(profile: &Profile, elapsed: Duration, tokens: f64) -> Breakdown {
    let whole = elapsed.as_nanos() as f64;
    let part = |nanoseconds: f64| TimeShare {
        ms_per_token: nanoseconds / 1e6 / tokens,
        percent: 100.0 * nanoseconds / whole,
    };
    let [matmul, attention, elementwise, head] = Section::ALL.map(|s| profile.nanoseconds(s) as f64);
    let other = (whole - matmul - attention - elementwise - head).max(0.0);
    Breakdown {
        matmul: part(matmul),
        attention: part(attention),
        elementwise: part(elementwise),
        head: part(head),
        other: part(other),
    }
}

fn matrix_share(product: &MatrixTime, test: Test, elapsed: Duration) -> MatrixShare {
    let nanoseconds = product.nanoseconds as f64;
    let decodes = test.kind == TestKind::Decode;
    MatrixShare {
        matrices: product.name(),
        products: if decodes { product.calls / test.tokens as u64 } else { product.calls },
        time: TimeShare {
            ms_per_token: nanoseconds / 1e6 / test.all_tokens() as f64,
            percent: 100.0 * nanoseconds / elapsed.as_nanos() as f64,
        },
        gb_per_second: decodes.then(|| product.bytes as f64 / nanoseconds),
        gmac_per_second: product.multiply_adds as f64 / nanoseconds,
    }
}

/// Milliseconds that the default sampler of `qsf-run` takes for such logits.
fn sampling_ms(logits: &[f32]) -> Result<f64> {
    const TIMES: u32 = 32;
    let mut sampler = Sampler::new(SamplerOptions::new(0.7, 40, 0.9, 0.0, 1)?);
    let started = Instant::now();
    for _ in 0..TIMES {
        sampler.sample(logits)?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e3 / f64::from(TIMES))
}

/// Bytes that this process has caused to be read from disks, page faults included (proc(5), `/proc/pid/io`).
pub(super) fn disk_bytes_read() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_named_as_llama_bench_names_them() {
        assert_eq!(Test::prompt(512).name(), "pp512");
        assert_eq!(Test { depth: 1024, ..Test::decode(64) }.name(), "tg64 @ d1024");
        assert_eq!(Test { depth: 9, sequences: 8, ..Test::decode(64) }.name(), "tg64 x 8 @ d9");
    }

    #[test]
    fn deviation_is_that_of_a_sample() {
        let rate = Rate::of(vec![2.0, 4.0, 6.0]);
        assert_eq!((rate.mean, rate.stddev), (4.0, 2.0));
        assert_eq!(Rate::of(vec![3.0]).stddev, 0.0);
    }
}
