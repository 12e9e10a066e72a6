//! How long prompt, output and context are, as the flags and the model say.

use qsf_format::ModelConfig;
use qsf_runtime::generate::{PROMPT_BATCH, check_lengths};
use qsf_runtime::{Result, RuntimeError};

use super::args::{RunArgs, UNTIL_FULL};
use super::interactive::DEFAULT_CONTEXT;

/// Tokens generated when -n is not given and the context has room.
pub(super) const DEFAULT_TOKENS: usize = 256;
/// The shortest output that will do where a RAM budget has no room for the default.
const LEAST_TOKENS: usize = 16;
/// The shortest context of a conversation that will do there.
const LEAST_CONVERSATION: usize = 256;

/// How many tokens there will be.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    /// Of the output.
    pub max_tokens: usize,
    /// Prompt and output together.
    pub context: usize,
    /// What will do, where the user did not ask for a length.
    pub least_context: usize,
    /// Of the longest step.
    pub step: usize,
}

impl Lengths {
    pub fn new(args: &RunArgs, config: &ModelConfig, prompt: &[u32]) -> Result<Lengths> {
        if let Some(id) = prompt.iter().find(|&&id| id >= config.vocab) {
            let problem = format!("token id {id} is beyond the model's vocabulary of {}", config.vocab);
            return Err(RuntimeError::Request(problem));
        }
        let longest = config.max_positions as usize;
        if args.interactive.interactive {
            let context = args.ctx_size.unwrap_or(DEFAULT_CONTEXT.min(longest));
            let max_tokens = args.max_tokens.unwrap_or(DEFAULT_TOKENS);
            let least_context = args.ctx_size.unwrap_or(LEAST_CONVERSATION.min(context));
            return Ok(Lengths { max_tokens, context, least_context, step: PROMPT_BATCH });
        }
        let limit = args.ctx_size.unwrap_or(longest);
        let asked = args.max_tokens.filter(|tokens| *tokens != UNTIL_FULL);
        check_lengths(prompt.len(), asked.unwrap_or(0), limit)?;
        let to_the_end = || (args.max_tokens == Some(UNTIL_FULL)).then(|| limit - prompt.len());
        let max_tokens =
            asked.or_else(to_the_end).unwrap_or_else(|| DEFAULT_TOKENS.min(limit - prompt.len()));
        let context = args.ctx_size.unwrap_or(prompt.len() + max_tokens);
        let is_open = args.ctx_size.is_none() && args.max_tokens.is_none();
        let least_context = if is_open { context.min(prompt.len() + LEAST_TOKENS) } else { context };
        Ok(Lengths { max_tokens, context, least_context, step: prompt.len().min(PROMPT_BATCH) })
    }
}
