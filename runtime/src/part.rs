//! A part of a piece of work that several machines do: `I/N` on command lines.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::error::{Result, RuntimeError};

/// The `index`-th of `count` parts, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkPart {
    index: usize,
    count: usize,
}

impl WorkPart {
    /// Everything.
    pub const ALL: WorkPart = WorkPart { index: 1, count: 1 };

    /// Its number, counted from 1.
    pub fn index(self) -> usize {
        self.index
    }

    /// How many parts there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// Which of `total` things that are in a row belong to it. Parts differ by one thing at most, and together have each once.
    ///
    /// # Errors
    /// When there are fewer things than parts: one would have none. `what` names them, such as "chunks".
    pub fn range(self, total: usize, what: &str) -> Result<Range<usize>> {
        if self.count > total {
            return Err(RuntimeError::Request(format!(
                "part {self}: the text has {total} {what}, which make at most {total} parts"
            )));
        }
        let end_of = |index: usize| (index as u128 * total as u128 / self.count as u128) as usize;
        Ok(end_of(self.index - 1)..end_of(self.index))
    }
}

impl FromStr for WorkPart {
    type Err = String;

    fn from_str(text: &str) -> Result<WorkPart, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        numbers
            .map(|(index, count)| WorkPart { index, count })
            .filter(|part| (1..=part.count).contains(&part.index))
            .ok_or_else(|| format!("'{text}' is no part such as 1/4, the first of four"))
    }
}

impl fmt::Display for WorkPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another_and_have_everything_once() {
        for (total, count) in [(1, 1), (7, 3), (12, 4), (12, 12), (1_000_003, 17)] {
            let mut end = 0;
            for index in 1..=count {
                let range =
                    format!("{index}/{count}").parse::<WorkPart>().unwrap().range(total, "chunks").unwrap();
                assert_eq!(range.start, end);
                assert!((total / count..=total.div_ceil(count)).contains(&range.len()), "{range:?}");
                end = range.end;
            }
            assert_eq!(end, total);
        }
        assert_eq!(WorkPart::ALL.range(0, "chunks").map_err(|_| ()), Err(()));
        let error = "2/5".parse::<WorkPart>().unwrap().range(4, "chunks").unwrap_err().to_string();
        assert!(error.contains("2/5") && error.contains("4 chunks"), "{error}");
        let last = WorkPart { index: usize::MAX, count: usize::MAX };
        assert_eq!(last.range(usize::MAX, "chunks").unwrap(), usize::MAX - 1..usize::MAX);
    }

    #[test]
    fn what_is_no_part_is_refused() {
        assert_eq!("3/4".parse::<WorkPart>().unwrap().to_string(), "3/4");
        for wrong in ["0/3", "4/3", "1/0", "1", "a/b", "1/2/3", "-1/2", "/", ""] {
            assert!(wrong.parse::<WorkPart>().is_err(), "{wrong}");
        }
    }
}
