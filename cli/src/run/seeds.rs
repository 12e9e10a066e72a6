//! Seeds of many prompts: each has its own, so that equal prompts get texts of their own.

use qsf_runtime::sample::{MAX_SEED, seed_of_text};
use qsf_runtime::{Result, RuntimeError};
use serde_json::Value;

use super::prompt_lines::PromptLine;

/// The seed of the first line, from which the others count; a line may also name its own.
#[derive(Debug, Clone)]
pub(super) struct Seeds {
    first: Option<u64>,
}

impl Seeds {
    /// Those of a run with this seed; without one, results that are there tell it.
    pub fn new(given: Option<u64>) -> Seeds {
        Seeds { first: given }
    }

    /// Takes a line of results that is there already.
    ///
    /// # Errors
    /// When it was drawn with another seed: the file would have texts of two runs.
    pub fn keep(&mut self, prompt: &PromptLine, result: &Value) -> Result<()> {
        let found = result["seed"].as_u64();
        if let (None, None, Some(found)) = (prompt.seed, self.first, found) {
            self.first = Some(found.wrapping_sub(number(prompt)) & MAX_SEED);
        }
        let expected = self.first.map(|first| Seeds::count(first, prompt)).or(prompt.seed);
        if found.is_some() && found == expected {
            return Ok(());
        }
        let name = |seed: Option<u64>| seed.map_or_else(|| "none".to_owned(), |seed| seed.to_string());
        Err(RuntimeError::Request(format!(
            "--results: the text of line {} has the seed {}, and this run would draw it with {}: give the options of the run that \
             began the file, or name another file",
            prompt.line,
            name(found),
            name(expected)
        )))
    }

    /// The seed of a line, where the first has `first` unless that is known.
    pub fn of(&self, prompt: &PromptLine, first: u64) -> u64 {
        Seeds::count(self.first.unwrap_or(first), prompt)
    }

    fn count(first: u64, prompt: &PromptLine) -> u64 {
        prompt.seed.unwrap_or_else(|| seed_of_text(first, number(prompt)))
    }
}

/// The number of a line, from 0.
fn number(prompt: &PromptLine) -> u64 {
    prompt.line.saturating_sub(1) as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(line: usize, seed: Option<u64>) -> PromptLine {
        PromptLine { line, prompt: "a".into(), id: None, seed }
    }

    #[test]
    fn lines_count_from_the_first_seed_or_name_their_own() {
        let seeds = Seeds::new(Some(7));
        assert_eq!((seeds.of(&line(1, None), 0), seeds.of(&line(5, None), 0)), (7, 11));
        assert_eq!(seeds.of(&line(5, Some(3)), 0), 3);
        assert_eq!(Seeds::new(None).of(&line(3, None), MAX_SEED), 1, "they begin anew behind the largest");
    }

    #[test]
    fn results_that_are_there_tell_the_seed_or_must_have_it() {
        let mut unknown = Seeds::new(None);
        unknown.keep(&line(1, Some(9)), &json!({"seed": 9})).unwrap();
        unknown.keep(&line(3, None), &json!({"seed": 1})).unwrap();
        assert_eq!(unknown.of(&line(1, None), 5), MAX_SEED);
        assert_eq!(unknown.of(&line(5, None), 5), 3);
        let mut given = Seeds::new(Some(4));
        given.keep(&line(2, None), &json!({"seed": 5})).unwrap();
        for (mut seeds, line, result) in [
            (unknown.clone(), line(4, None), json!({"seed": 1})),
            (given.clone(), line(2, None), json!({"seed": 4})),
            (given.clone(), line(2, Some(8)), json!({"seed": 5})),
            (given.clone(), line(2, None), json!({})),
            (Seeds::new(None), line(1, None), json!({"seed": "x"})),
        ] {
            let error = seeds.keep(&line, &result).unwrap_err().to_string();
            assert!(error.contains(&format!("line {}", line.line)), "{error}");
        }
    }
}
