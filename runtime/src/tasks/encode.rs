//! Texts to tokens: contexts, and the continuations behind each.

use super::document::{Document, Pair, Texts};
use crate::error::Result;
use crate::score::encode_pair;
use crate::tokenizer::Tokenizer;

/// Tokens behind the gap of Winogrande up to which the option itself is scored, too: the way of llama-perplexity.
const SHORT_END: usize = 3;

/// A context and the continuations that are scored behind it.
#[derive(Debug, PartialEq)]
pub(super) struct Prompt {
    pub context: Vec<u32>,
    pub continuations: Vec<Vec<u32>>,
}

/// Encodes with one tokenizer.
pub(super) struct TaskEncoder<'a> {
    pub tokenizer: &'a Tokenizer,
    /// What an empty context begins with.
    pub start: u32,
}

impl TaskEncoder<'_> {
    /// The prompts of an item. Their continuations are its candidates, in order.
    pub fn prompts(&self, document: &Document) -> Result<Vec<Prompt>> {
        match &document.texts {
            Texts::Pairs(pairs) => self.pairs(pairs),
            Texts::Whole(texts) => self.whole(texts),
            Texts::Gap { before, options, behind } => self.gap(before, options, behind),
        }
    }

    fn pairs(&self, pairs: &[Pair]) -> Result<Vec<Prompt>> {
        let mut prompts: Vec<Prompt> = Vec::new();
        let mut last: Option<(&str, Vec<u32>)> = None;
        for pair in pairs {
            let alone = match last.take() {
                Some((context, tokens)) if context == pair.context => tokens,
                _ => self.tokenizer.encode(pair.context.trim_end())?,
            };
            let context = (&*pair.context, &*alone);
            let (context, continuation) =
                encode_pair(self.tokenizer, self.start, context, &pair.continuation)?;
            last = Some((&pair.context, alone));
            match prompts.last_mut() {
                Some(prompt) if prompt.context == context => prompt.continuations.push(continuation),
                _ => prompts.push(Prompt { context, continuations: vec![continuation] }),
            }
        }
        Ok(prompts)
    }

    /// What all texts begin with is the context. Each keeps a token of its own.
    fn whole(&self, texts: &[String]) -> Result<Vec<Prompt>> {
        let Common { texts, common, .. } = self.common(texts)?;
        let context = texts.first().map(|text| text[..common].to_vec()).unwrap_or_default();
        let continuations = texts.iter().map(|text| text[common..].to_vec()).collect();
        Ok(vec![Prompt { context, continuations }])
    }

    /// The tokens behind the option are scored, but the last one where there are several; with few of them, all that differ.
    fn gap(&self, before: &str, options: &[String; 2], behind: &str) -> Result<Vec<Prompt>> {
        let filled = options.each_ref().map(|option| format!("{before}{option}{behind}"));
        let Common { texts, common, added } = self.common(&filled)?;
        let skips_option = texts.iter().all(|text| text.len() - common > SHORT_END);
        let prompt = |(text, option): (&Vec<u32>, &String)| {
            let base = if skips_option {
                let with_option = self.tokenizer.encode(&format!("{before}{option}"))?;
                (with_option.len() + added).clamp(1, text.len() - 1)
            } else {
                common
            };
            let end = if text.len() - base > 1 { text.len() - 1 } else { text.len() };
            Ok(Prompt { context: text[..base].to_vec(), continuations: vec![text[base..end].to_vec()] })
        };
        texts.iter().zip(options).map(prompt).collect()
    }

    /// Tokens of texts, with a start token before where they have no common one.
    fn common(&self, texts: &[String]) -> Result<Common> {
        let mut texts = texts.iter().map(|text| self.tokenizer.encode(text)).collect::<Result<Vec<_>>>()?;
        let mut common = same(&texts);
        let added = usize::from(common == 0);
        if common == 0 {
            texts.iter_mut().for_each(|text| text.insert(0, self.start));
            common = same(&texts).max(1);
        }
        Ok(Common { texts, common, added })
    }
}

/// Texts that begin with the same tokens.
struct Common {
    texts: Vec<Vec<u32>>,
    /// How many.
    common: usize,
    /// Start tokens that were put before.
    added: usize,
}

/// Tokens that all texts begin with, fewer than the shortest has.
fn same(texts: &[Vec<u32>]) -> usize {
    let shortest = texts.iter().map(Vec::len).min().unwrap_or_default();
    let same = |at: &usize| texts.iter().all(|text| text[*at] == texts[0][*at]);
    (0..shortest.saturating_sub(1)).take_while(same).count()
}
