//! The normalization table of a SentencePiece model, `precompiled_charsmap`: a double array that finds prefixes of the text,
//! and the texts to put in their place.
//!
//! Layout (sentencepiece `normalizer.cc`, darts-clone `darts.h`): the size of the double array in bytes (u32), its units (u32,
//! little-endian), then texts, each ended by a zero byte. Units are followed unchecked by the library that applies the table,
//! so every one that can be reached is checked here.

use std::collections::VecDeque;

/// Bytes of the largest table that is accepted; that of `nmt_nfkc_cf`, the largest one SentencePiece ships, takes 0.3 MB.
const MAX_BYTES: usize = 4 << 20;
/// Longest text that may take the place of a character; the longest in Unicode's compatibility forms has 33 bytes.
const MAX_TEXT: usize = 256;

/// A checked table.
#[derive(Debug, Clone)]
pub(crate) struct Charsmap<'a> {
    units: Vec<u32>,
    texts: &'a str,
    growth: f64,
}

impl<'a> Charsmap<'a> {
    /// Reads a table and follows all of its units.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<Charsmap<'a>, String> {
        if bytes.len() > MAX_BYTES {
            return Err(format!("a table of {} bytes; at most {MAX_BYTES} are accepted", bytes.len()));
        }
        let (size, rest) = bytes.split_first_chunk().ok_or("less than 4 bytes")?;
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() || size == 0 || !size.is_multiple_of(4) {
            return Err(format!("a double array of {size} bytes in {} bytes", rest.len()));
        }
        let (units, texts) = rest.split_at(size);
        let texts = std::str::from_utf8(texts).map_err(|e| format!("texts that are not UTF-8: {e}"))?;
        let units = units.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let mut map = Charsmap { units, texts, growth: 1.0 };
        map.growth = map.follow_all()?;
        Ok(map)
    }

    /// Most bytes that the table puts in the place of one.
    pub fn growth(&self) -> f64 {
        self.growth
    }

    /// Visits every unit that a text can lead to. No step may leave the array, and every value must be the start of a text. Returns the
    /// most bytes that take the place of one.
    fn follow_all(&self) -> Result<f64, String> {
        let mut seen = vec![false; self.units.len()];
        let mut queue = VecDeque::new();
        let mut growth = 1.0f64;
        let root = offset(self.units[0]);
        // The shortest ways come first.
        queue.push_back((root, 0));
        while let Some((node, length)) = queue.pop_front() {
            match seen.get_mut(node) {
                None => return Err(format!("a unit that leads to {node} of {}", self.units.len())),
                Some(true) => continue,
                Some(unseen) => *unseen = true,
            }
            for byte in 1..=255u8 {
                let at = node ^ usize::from(byte);
                let Some(&unit) = self.units.get(at) else {
                    return Err(format!("a unit that leads to {at} of {}", self.units.len()));
                };
                if label(unit) != u32::from(byte) {
                    continue;
                }
                let next = at ^ offset(unit);
                if has_leaf(unit) {
                    let value = self.units.get(next).map(|unit| (unit & 0x7fff_ffff) as usize);
                    let found = value.filter(|&at| at < self.texts.len() && self.texts.is_char_boundary(at));
                    let Some(start) = found else {
                        return Err(format!("a value {value:?} in texts of {} bytes", self.texts.len()));
                    };
                    let text = self.texts.as_bytes()[start..].iter().take(MAX_TEXT + 1);
                    let Some(bytes) = text.copied().position(|byte| byte == 0) else {
                        return Err(format!("a replacement of more than {MAX_TEXT} bytes"));
                    };
                    growth = growth.max(bytes as f64 / (length + 1) as f64);
                }
                queue.push_back((next, length + 1));
            }
        }
        Ok(growth)
    }

    /// What SentencePiece makes of a text: at each place the longest prefix that the table knows is replaced; a character
    /// without one stays.
    pub fn normalize(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (len, replacement) = match self.longest(rest.as_bytes()) {
                Some((len, value)) => (len, self.text_at(value)),
                None => (first.len_utf8(), &rest[..first.len_utf8()]),
            };
            out.push_str(replacement);
            // Keys are whole characters in every table that SentencePiece writes.
            rest = rest.get(len..).unwrap_or_default();
        }
        out
    }

    fn text_at(&self, at: usize) -> &str {
        let text = &self.texts[at..];
        text.split('\0').next().unwrap_or_default()
    }

    fn longest(&self, text: &[u8]) -> Option<(usize, usize)> {
        let mut found = None;
        let mut node = offset(self.units[0]);
        for (i, &byte) in text.iter().enumerate().take_while(|(_, byte)| **byte != 0) {
            node ^= usize::from(byte);
            let unit = self.units[node];
            if label(unit) != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if has_leaf(unit) {
                found = Some((i + 1, (self.units[node] & 0x7fff_ffff) as usize));
            }
        }
        found
    }
}

fn has_leaf(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xff)
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) as usize) << ((unit & 1 << 9) >> 6)
}
