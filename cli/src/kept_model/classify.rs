//! What comes behind each of many prompts: one pass of the model, in which whole prompts share steps.

use std::collections::HashMap;

use qsf_runtime::cpu::math::log_sum_exp;
use qsf_runtime::cpu::zeros;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::{Result, RuntimeError};

use super::KeptModel;

/// Most prompts in a step, for which there are keys and values.
const SEQUENCES: usize = 128;
/// Positions that all of them have room for, where the longest prompt has fewer. Beyond, a step is full anyway.
const POSITIONS: usize = 1 << 13;
/// Rows whose logits are held at once.
const LOGIT_ROWS: usize = 32;

impl KeptModel {
    /// Gives the logits behind each of `prompts` to `done`, with its number, in any order. Prompts of about the same length share steps,
    /// and get the bits that they get alone. Within a budget one is run after another.
    ///
    /// # Errors
    /// When a prompt is empty, does not fit, or the model cannot be run; or `done` fails.
    pub fn classify(
        &self,
        prompts: &[Vec<u32>],
        cancel: &Cancel,
        progress: &dyn Progress,
        done: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let vocab = self.decoder.model().config.vocab;
        for (number, prompt) in prompts.iter().enumerate() {
            let (tokens, context) = (prompt.len(), self.context);
            let beyond = prompt.iter().find(|id| **id >= vocab);
            let problem = match beyond {
                Some(id) => format!("token id {id} is beyond the model's vocabulary of {vocab}"),
                None if tokens == 0 || tokens > context => {
                    format!("{tokens} tokens, expected 1 to {context}")
                }
                None => continue,
            };
            return Err(RuntimeError::Request(format!("prompt {number}: {problem}")));
        }
        let mut order: Vec<usize> = (0..prompts.len()).collect();
        order.sort_by_key(|number| prompts[*number].len());
        progress.begin("prompts", prompts.len() as u64);
        let mut told = |number: usize, logits: &[f32]| {
            done(number, logits)?;
            progress.advance(1);
            Ok(())
        };
        if self.budget.is_some() {
            self.each_alone(prompts, cancel, &mut told)?;
        } else {
            // Those that share steps all have room for the longest.
            let short = order.partition_point(|number| prompts[*number].len() <= POSITIONS / SEQUENCES);
            let (short, long) = order.split_at(short);
            self.in_steps(prompts, short, cancel, &mut told)?;
            self.in_steps(prompts, long, cancel, &mut told)?;
        }
        progress.end();
        Ok(())
    }

    fn each_alone(
        &self,
        prompts: &[Vec<u32>],
        cancel: &Cancel,
        done: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let mut logits = zeros(self.decoder.model().config.vocab as usize, "logits")?;
        for (number, prompt) in prompts.iter().enumerate() {
            let mut left = prompt.len();
            self.run(prompt, cancel, &mut |decoder, state, rows| {
                left -= rows;
                if left == 0 { decoder.logits(state, rows - 1..rows, &mut logits) } else { Ok(()) }
            })?;
            done(number, &logits)?;
        }
        Ok(())
    }

    /// Runs the prompts of these numbers, which are in the order of their lengths.
    fn in_steps(
        &self,
        prompts: &[Vec<u32>],
        numbers: &[usize],
        cancel: &Cancel,
        done: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let Some(longest) = numbers.last().map(|number| prompts[*number].len()) else { return Ok(()) };
        let decoder = self.on_cpu("classes", cancel)?;
        let sequences = (POSITIONS / longest).clamp(1, SEQUENCES.min(numbers.len()));
        let mut state = decoder.states(sequences, longest, self.batch, self.kv)?;
        let (sequences, step) = (state.sequences().len(), state.batch());
        let vocab = decoder.model().config.vocab as usize;
        let mut logits = zeros(LOGIT_ROWS.min(step) * vocab, "logits")?;
        let mut left = numbers;
        while let Some(first) = left.first() {
            state.sequences_mut().iter_mut().for_each(|cache| cache.clear());
            let mut room = step;
            let fits = |number: &&usize| {
                let tokens = prompts[**number].len();
                let fits = tokens <= room;
                room -= if fits { tokens } else { 0 };
                fits
            };
            let now = left.iter().take(sequences).take_while(fits).count();
            if now == 0 {
                // It takes several steps, all for itself.
                let mut rows = 0;
                for tokens in prompts[*first].chunks(step) {
                    decoder.forward_together(&mut state, &[(0, tokens)])?;
                    rows = tokens.len();
                }
                decoder.logits_at(&mut state, &[rows - 1], &mut logits[..vocab])?;
                done(*first, &logits[..vocab])?;
                left = &left[1..];
                continue;
            }
            let (now, later) = left.split_at(now);
            let parts: Vec<(usize, &[u32])> =
                now.iter().enumerate().map(|(at, number)| (at, &*prompts[*number])).collect();
            decoder.forward_together(&mut state, &parts)?;
            let mut behind = 0;
            let ends: Vec<usize> = parts
                .iter()
                .map(|(_, tokens)| {
                    behind += tokens.len();
                    behind - 1
                })
                .collect();
            for (numbers, rows) in now.chunks(LOGIT_ROWS).zip(ends.chunks(LOGIT_ROWS)) {
                let logits = &mut logits[..rows.len() * vocab];
                decoder.logits_at(&mut state, rows, logits)?;
                for (number, logits) in numbers.iter().zip(logits.chunks_exact(vocab)) {
                    done(*number, logits)?;
                }
            }
            left = later;
        }
        Ok(())
    }

    /// The tokens that stand for `labels`: of each the first.
    ///
    /// # Errors
    /// When a label has none, or two have the same.
    pub fn label_tokens(&self, labels: &[String]) -> Result<Vec<u32>> {
        let mut seen = HashMap::new();
        let tokens = labels.iter().map(|label| {
            let token = self.tokenizer.encode_plain(label)?.first().copied();
            let problem = match token {
                None => format!("label {label:?} has no token"),
                Some(token) => match seen.insert(token, label) {
                    Some(other) => format!(
                        "labels {other:?} and {label:?} begin with the same token, by which nothing can tell them apart"
                    ),
                    None => return Ok(token),
                },
            };
            Err(RuntimeError::Request(problem))
        });
        tokens.collect()
    }

    /// The logarithm of the probability of each of `tokens`, by the logits of all.
    pub fn log_probabilities(&self, logits: &[f32], tokens: &[u32]) -> Vec<f32> {
        let all = log_sum_exp(self.decoder.cpu().isa(), logits);
        tokens.iter().map(|token| (f64::from(logits[*token as usize]) - all) as f32).collect()
    }
}
