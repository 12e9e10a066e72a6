//! Texts that end an output. They may come in pieces, so what may become one is held back.

/// Looks for stop texts in a text that comes in pieces.
#[derive(Debug, Clone, Default)]
pub struct StopTexts {
    texts: Vec<String>,
    /// What came and may be the beginning of a stop text.
    held: String,
    found: bool,
}

impl StopTexts {
    /// Of texts, of which empty ones are none.
    pub fn new(texts: impl IntoIterator<Item = String>) -> StopTexts {
        let texts = texts.into_iter().filter(|text| !text.is_empty()).collect();
        StopTexts { texts, held: String::new(), found: false }
    }

    /// The same texts for another output.
    #[must_use]
    pub fn again(&self) -> StopTexts {
        StopTexts { held: String::new(), found: false, ..self.clone() }
    }

    /// Whether one came.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Takes the next piece; gives what is certain to belong to the output.
    pub fn push(&mut self, piece: &str) -> String {
        if self.found {
            return String::new();
        }
        self.held.push_str(piece);
        let first = self.texts.iter().filter_map(|text| self.held.find(text.as_str())).min();
        if let Some(at) = first {
            self.found = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let certain = self.held.len() - self.longest_beginning();
        self.held.drain(..certain).collect()
    }

    /// What is left when the output has ended.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes at the end of what is held that a stop text may begin with.
    fn longest_beginning(&self) -> usize {
        let ends_with = |text: &String| {
            let lengths = text.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
            lengths.filter(|length| self.held.ends_with(&text[..*length])).max().unwrap_or(0)
        };
        self.texts.iter().map(ends_with).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(texts: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut stop = StopTexts::new(texts.iter().map(|text| (*text).to_owned()));
        let mut out: String = pieces.iter().map(|piece| stop.push(piece)).collect();
        out += &stop.finish();
        (out, stop.found())
    }

    #[test]
    fn an_output_ends_before_the_first_stop_text_however_it_is_cut() {
        assert_eq!(output(&["User:"], &["Hello. Us", "er", ": and on"]), ("Hello. ".into(), true));
        assert_eq!(
            output(&["User:"], &["Hello. Us", "ual", " things"]),
            ("Hello. Usual things".into(), false)
        );
        assert_eq!(output(&["b", "ab"], &["xa", "b"]), ("x".into(), true));
        assert_eq!(output(&["aab"], &["aa", "ab", "c"]), ("a".into(), true));
        assert_eq!(output(&["\u{e9}t\u{e9}"], &["en \u{e9}", "t", "\u{e9}!"]), ("en ".into(), true));
        assert_eq!(output(&[], &["a", "b"]), ("ab".into(), false));
        assert_eq!(output(&[""], &["a", "b"]), ("ab".into(), false));
        assert_eq!(output(&["abc"], &["xab"]), ("xab".into(), false));
    }
}
