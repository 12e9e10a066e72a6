//! The binary files that `llama-perplexity --multiple-choice` reads: the number of items, where each begins, and the items.
//! Numbers have 32 bits, little-endian; a text is its length and its bytes.

use std::io::{ErrorKind, Read};

use super::document::Document;
use super::llama_cpp::whole;
use super::records::MAX_CHOICES;

/// Longest text.
const MAX_TEXT: u32 = 1 << 20;

/// Reads items one after another.
pub(super) struct BinaryItems<R> {
    from: R,
    offset: u64,
    left: u32,
}

/// What is wrong, and where.
pub(super) struct Problem {
    pub offset: u64,
    pub found: String,
}

type Outcome<T> = Result<T, Problem>;

impl<R: Read> BinaryItems<R> {
    /// Reads the head.
    pub fn new(from: R) -> Outcome<BinaryItems<R>> {
        let mut items = BinaryItems { from, offset: 0, left: 0 };
        items.left = items.number()?;
        // The items follow in the order of these.
        for _ in 0..items.left {
            items.number()?;
        }
        Ok(items)
    }

    /// The next item; `None` behind the last.
    pub fn next(&mut self) -> Outcome<Option<Document>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let question = self.text()?;
        let (answers, labels) = self.answers()?;
        // Answers of which several are right; llama-perplexity reads them and does nothing with them.
        self.answers()?;
        if answers.len() < 2 || !labels.contains(&1) {
            return Err(self.problem(format!(
                "{} answers, of which {} are right; expected are 2 or more with a right one",
                answers.len(),
                labels.iter().filter(|label| **label == 1).count()
            )));
        }
        let right = labels.iter().map(|label| *label == 1).collect();
        Ok(Some(whole(&question, &answers, right)))
    }

    fn answers(&mut self) -> Outcome<(Vec<String>, Vec<u32>)> {
        let count = self.number()?;
        if count as usize > MAX_CHOICES {
            return Err(self.problem(format!("{count} answers; at most {MAX_CHOICES} are accepted")));
        }
        let answers = (0..count).map(|_| self.text()).collect::<Outcome<_>>()?;
        let labels = (0..count).map(|_| self.number()).collect::<Outcome<_>>()?;
        Ok((answers, labels))
    }

    fn text(&mut self) -> Outcome<String> {
        let length = self.number()?;
        if length > MAX_TEXT {
            return Err(self.problem(format!("a text of {length} bytes; at most {MAX_TEXT} are accepted")));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.problem("a text that is not UTF-8".into()))
    }

    fn number(&mut self) -> Outcome<u32> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Outcome<()> {
        self.from.read_exact(bytes).map_err(|error| {
            let found = match error.kind() {
                ErrorKind::UnexpectedEof => "the end of the file".into(),
                _ => error.to_string(),
            };
            self.problem(found)
        })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn problem(&self, found: String) -> Problem {
        Problem { offset: self.offset, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    }

    fn file() -> Vec<u8> {
        let mut bytes: Vec<u8> = [1_u32, 8].iter().flat_map(|n| n.to_le_bytes()).collect();
        text(&mut bytes, "Which?");
        bytes.extend(2_u32.to_le_bytes());
        text(&mut bytes, "this");
        text(&mut bytes, "that");
        bytes.extend([0_u32, 1, 0].iter().flat_map(|n| n.to_le_bytes()));
        bytes
    }

    #[test]
    fn items_are_read_and_every_cut_and_every_wild_length_is_an_error() {
        let bytes = file();
        let mut items = BinaryItems::new(&bytes[..]).ok().unwrap();
        assert_eq!(items.next().ok().flatten().unwrap().gold(), [1]);
        assert!(matches!(items.next(), Ok(None)));
        for length in 0..bytes.len() {
            let read = BinaryItems::new(&bytes[..length]).and_then(|mut items| items.next());
            assert!(read.is_err(), "{length}");
        }
        for at in (0..bytes.len()).step_by(4) {
            let mut wild = bytes.clone();
            wild[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff);
            // No panic, and no memory for a length that is not there.
            let _ = BinaryItems::new(&wild[..]).and_then(|mut items| items.next());
        }
    }
}
