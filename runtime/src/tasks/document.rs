//! A record as texts, and which of them are right.

/// One item of a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// What stands before the prompt and its examples.
    pub description: String,
    /// Subject, where the task has several.
    pub group: Option<String>,
    pub texts: Texts,
    pub question: Asked,
}

/// What is scored.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Texts {
    /// Continuations, each behind its context. Both are one text to the tokenizer, cut where the context alone ends: that is how
    /// lm-evaluation-harness encodes them.
    Pairs(Vec<Pair>),
    /// Whole texts, of which the tokens that are not common to all are scored: the way of llama-perplexity.
    Whole(Vec<String>),
    /// A sentence with a gap and what may fill it. What comes behind the gap is scored: the way of llama-perplexity.
    Gap { before: String, options: [String; 2], behind: String },
}

/// A continuation and its context.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    pub context: String,
    pub continuation: String,
}

/// What is asked of the scores.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Asked {
    /// Which is the best, by each of these rules.
    Best { right: Vec<bool>, rules: Vec<(&'static str, Rule)> },
    /// Whether greedy decoding gives the continuation, and how likely it is.
    Word,
    /// Which of the first is the best, and which part of the probability of the others the right ones have.
    Truth { single: Vec<bool>, several: Vec<bool> },
}

/// What continuations are compared by.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Rule {
    /// Their log-likelihoods.
    Sum,
    /// Their log-likelihoods over these lengths.
    PerLength(Vec<usize>),
    /// Their log-likelihoods per token.
    PerToken,
}

impl Document {
    /// Choices behind one context, of which `gold` is right.
    pub fn choices(context: &str, choices: &[String], gold: usize, normalized: bool) -> Document {
        let mut rules = vec![("acc", Rule::Sum)];
        if normalized {
            // Characters, as Python counts them.
            rules.push(("acc_norm", Rule::PerLength(choices.iter().map(|c| c.chars().count()).collect())));
        }
        Document {
            description: String::new(),
            group: None,
            texts: Texts::Pairs(
                choices.iter().map(|choice| Pair::new(context, &format!(" {choice}"))).collect(),
            ),
            question: Asked::Best { right: (0..choices.len()).map(|i| i == gold).collect(), rules },
        }
    }

    /// How many continuations are scored.
    pub fn candidates(&self) -> usize {
        match &self.texts {
            Texts::Pairs(pairs) => pairs.len(),
            Texts::Whole(texts) => texts.len(),
            Texts::Gap { options, .. } => options.len(),
        }
    }

    /// Indices of the right ones.
    pub fn gold(&self) -> Vec<usize> {
        let marked = |right: &[bool]| right.iter().enumerate().filter(|(_, r)| **r).map(|(i, _)| i).collect();
        match &self.question {
            Asked::Best { right, .. } => marked(right),
            Asked::Word => vec![0],
            Asked::Truth { single, .. } => marked(single),
        }
    }

    /// The item with its answer, as an example before another; `None` where that is not done.
    pub fn example(&self) -> Option<String> {
        let Texts::Pairs(pairs) = &self.texts else { return None };
        let Pair { context, continuation } = pairs.get(*self.gold().first()?)?;
        // The harness puts a space between prompt and answer, whether the answer has one already or not.
        let between = if self.question == Asked::Word { " " } else { "" };
        Some(format!("{context}{between}{continuation}"))
    }
}

impl Pair {
    pub fn new(context: &str, continuation: &str) -> Pair {
        Pair { context: context.into(), continuation: continuation.into() }
    }
}
