//! Tokens of a text that is read piece by piece.
//!
//! What a tokenizer joins is its own affair: words, added tokens, merges without words. So the windows of the text that are
//! encoded overlap, and their tokens are put together only in the middle of a stretch where both have the same tokens at the
//! same places. What the ends of a window spoil lies outside of that stretch.

use crate::error::{Result, RuntimeError};
use crate::text_file::TextSource;

/// How long windows are, in bytes of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths {
    /// What is encoded at once.
    pub window: usize,
    /// What two windows share. Their middle half has to agree: some hundred tokens.
    overlap: usize,
    /// Most bytes of a window. It grows where two do not agree, as in a word as long as the window.
    most: usize,
}

impl Lengths {
    /// Those for a tokenizer that may make `growth` bytes of one before it finds tokens: it takes a hundred times as much memory.
    pub fn new(growth: f64) -> Lengths {
        let within = |bytes: f64, least: usize, most: usize| ((bytes / growth) as usize).clamp(least, most);
        let window = within((2 << 20) as f64, 1 << 11, 1 << 15);
        Lengths { window, overlap: window / 8, most: within((16 << 20) as f64, window, 1 << 20) }
    }
}

/// A token, and the bytes of the text that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub id: u32,
    pub start: usize,
    pub end: usize,
}

/// What makes tokens of a short text.
pub(super) trait Encoder {
    /// The tokens of a text with their places, without those that the tokenizer itself adds.
    fn placed(&self, text: &str) -> Result<Vec<Placed>>;

    /// The tokens that the tokenizer itself puts before a text and behind it.
    fn added_around(&self, text: &str) -> Result<(Vec<u32>, Vec<u32>)>;
}

/// A part of the text, and its tokens. Places are those in the text.
struct Window {
    start: usize,
    end: usize,
    tokens: Vec<Placed>,
}

/// Hands the first `most` tokens of a text to `take`, in order, as soon as they are known; with `special` those that the
/// tokenizer itself adds are among them.
///
/// # Errors
/// When the text cannot be read, the tokenizer cannot represent it, no windows agree, or `take` fails.
pub(super) fn encode(
    encoder: &dyn Encoder,
    lengths: Lengths,
    source: &mut dyn TextSource,
    most: usize,
    special: bool,
    take: &mut dyn FnMut(&[u32]) -> Result<()>,
) -> Result<()> {
    let mut text = Text { source, start: 0, held: String::new(), ended: false };
    let end = text.read_to(lengths.window)?;
    let (mut ids, behind) =
        if special { encoder.added_around(text.part(0, end))? } else { (Vec::new(), Vec::new()) };
    let mut window = Window::new(encoder, &text, 0, end)?;
    // Tokens of the window that are in `ids` or were handed over.
    let mut taken = 0;
    let mut left = most;
    loop {
        let known = ids.len().min(left);
        take(&ids[..known])?;
        left -= known;
        ids.clear();
        let rest = &window.tokens[taken..];
        if text.is_end(window.end) {
            ids.extend(rest.iter().map(|token| token.id).chain(behind));
            break;
        }
        let settled = rest.iter().take_while(|token| token.end + lengths.overlap <= window.end).count();
        if settled >= left {
            ids.extend(rest[..settled].iter().map(|token| token.id));
            break;
        }
        let next = window.next(encoder, lengths, &mut text)?;
        match window.agreement(&next) {
            Some((to, from)) if to >= taken => {
                ids.extend(window.tokens[taken..to].iter().map(|token| token.id));
                text.forget(next.start);
                (window, taken) = (next, from);
            }
            _ => (window, taken) = window.longer(encoder, lengths, &mut text, taken)?,
        }
    }
    ids.truncate(left);
    take(&ids)
}

impl Window {
    fn new(encoder: &dyn Encoder, text: &Text<'_>, start: usize, end: usize) -> Result<Window> {
        let mut tokens = encoder.placed(text.part(start, end))?;
        for token in &mut tokens {
            token.start += start;
            token.end += start;
        }
        Ok(Window { start, end, tokens })
    }

    /// The window that overlaps the end of this one. It begins where a token does: so runs of one character, and of digits,
    /// are divided as in this window.
    fn next(&self, encoder: &dyn Encoder, lengths: Lengths, text: &mut Text<'_>) -> Result<Window> {
        let latest = self.end - lengths.overlap;
        let begins = self
            .tokens
            .iter()
            .map(|token| token.start)
            .filter(|start| (self.start + 1..=latest).contains(start));
        let start = text.floor(begins.max().unwrap_or(latest));
        let end = text.read_to(start + lengths.window)?;
        Window::new(encoder, text, start, end)
    }

    /// Where this window and the `next` have the same tokens: how many of this one belong to the text before it, and how many
    /// of the next do.
    fn agreement(&self, next: &Window) -> Option<(usize, usize)> {
        let quarter = (self.end - next.start) / 4;
        let (low, middle, high) = (next.start + quarter, next.start + 2 * quarter, next.start + 3 * quarter);
        let within = |window: &Window| -> Vec<Placed> {
            window.tokens.iter().filter(|token| token.start < high && token.end > low).copied().collect()
        };
        let before = |window: &Window| {
            let first = window.tokens.iter().position(|token| token.start >= middle);
            first.unwrap_or(window.tokens.len())
        };
        (within(self) == within(next)).then(|| (before(self), before(next)))
    }

    /// The window of twice the length that begins where this one does, and how many of its tokens are the first `taken`.
    fn longer(
        &self,
        encoder: &dyn Encoder,
        lengths: Lengths,
        text: &mut Text<'_>,
        taken: usize,
    ) -> Result<(Window, usize)> {
        let length = 2 * (self.end - self.start);
        let path = text.source.path().to_owned();
        let refuse = || {
            let expected = "text that can be cut: no single word, and no character again and again";
            RuntimeError::bad_input(
                &path,
                format!("offset {}", self.start),
                expected,
                format!("{length} bytes of it"),
            )
        };
        if length > lengths.most {
            return Err(refuse());
        }
        let end = text.read_to(self.start + length)?;
        let window = Window::new(encoder, text, self.start, end)?;
        let taken = match self.tokens.get(taken) {
            Some(first) if taken > 0 => {
                window.tokens.iter().position(|token| token == first).ok_or_else(refuse)?
            }
            _ => taken,
        };
        Ok((window, taken))
    }
}

/// The part of the text that is held in memory.
struct Text<'a> {
    source: &'a mut dyn TextSource,
    start: usize,
    held: String,
    ended: bool,
}

impl Text<'_> {
    /// Reads on until the text up to `end` is there, and it is known whether it ends there. The end that a window has which is
    /// to end at `end`.
    fn read_to(&mut self, end: usize) -> Result<usize> {
        while !self.ended && self.start + self.held.len() <= end {
            self.ended = !self.source.read_piece(&mut self.held)?;
        }
        Ok(self.floor(end))
    }

    /// The last place between two characters that is not behind `at`.
    fn floor(&self, at: usize) -> usize {
        self.start + self.held.floor_char_boundary(at - self.start)
    }

    fn is_end(&self, at: usize) -> bool {
        self.ended && at == self.start + self.held.len()
    }

    fn part(&self, start: usize, end: usize) -> &str {
        &self.held[start - self.start..end - self.start]
    }

    fn forget(&mut self, before: usize) {
        self.held.drain(..before - self.start);
        self.start = before;
    }
}
