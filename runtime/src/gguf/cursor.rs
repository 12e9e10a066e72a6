//! Reads the start of a GGUF file value by value. Every length is checked against the bytes that are left before it is
//! used; nothing is allocated here.

use std::path::Path;

use gguf_rs_lib::format::GGUFValueType;
use qsf_format::printable::message;

use crate::error::{Result, RuntimeError};

/// Most bytes that metadata and tensor descriptions may take together. The largest in use, vocabularies of 262 144 tokens
/// with half a million merges, take about 20 MB.
pub(super) const MAX_HEADER_BYTES: usize = 64 << 20;
/// Most elements of an array.
const MAX_ARRAY_LEN: u64 = 4 << 20;
/// Arrays in arrays; none are known in practice.
const MAX_ARRAY_DEPTH: usize = 4;

/// A place in the start of a file.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    path: &'a Path,
    /// The file, or as much of it as may be looked at.
    bytes: &'a [u8],
    is_cut: bool,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of a file.
    pub fn new(path: &'a Path, file: &'a [u8]) -> Cursor<'a> {
        let bytes = &file[..file.len().min(MAX_HEADER_BYTES)];
        Cursor { path, bytes, is_cut: bytes.len() < file.len(), at: 0 }
    }

    /// Bytes from the start of the file.
    pub fn position(&self) -> usize {
        self.at
    }

    /// An error at the current place.
    pub fn wrong(&self, what: &str, expected: impl ToString, found: impl ToString) -> RuntimeError {
        RuntimeError::bad_input(self.path, format!("{what} at byte {}", self.at), expected, found)
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: u64, what: &str) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        match end.and_then(|end| Some((end, self.bytes.get(self.at..end)?))) {
            Some((end, taken)) => {
                self.at = end;
                Ok(taken)
            }
            None => Err(self.too_short(what, format!("{len} more bytes"))),
        }
    }

    fn too_short(&self, what: &str, needed: impl ToString) -> RuntimeError {
        if self.is_cut {
            let expected = format!("at most {MAX_HEADER_BYTES} bytes of metadata and tensor descriptions");
            self.wrong(what, expected, needed)
        } else {
            let left = self.bytes.len() - self.at;
            self.wrong(what, needed, format!("{left}, where the file ends"))
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut value = [0; N];
        value.copy_from_slice(self.take(N as u64, what)?);
        Ok(value)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things of at least `least_bytes` each, all of which must fit into what is left.
    pub fn count(&mut self, what: &str, least_bytes: u64, limit: u64) -> Result<u64> {
        let before = self.at;
        let count = self.u64(what)?;
        let left = (self.bytes.len() - self.at) as u64;
        let expected = if count > limit {
            format!("at most {limit}")
        } else if count > left / least_bytes {
            format!("at most {} in the {left} bytes that follow", left / least_bytes)
        } else {
            return Ok(count);
        };
        self.at = before;
        Err(self.wrong(what, expected, count))
    }

    /// A string that is neither empty nor longer than `limit` bytes: a name.
    pub fn name(&mut self, what: &str, limit: u64) -> Result<&'a str> {
        let before = self.at;
        let len = self.u64(what)?;
        if !(1..=limit).contains(&len) {
            self.at = before;
            return Err(self.wrong(what, format!("a length of 1 to {limit}"), len));
        }
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|e| self.wrong(what, "UTF-8", message(e)))
    }

    /// The type of a value.
    pub fn value_type(&mut self, what: &str) -> Result<GGUFValueType> {
        let id = self.u32(what)?;
        GGUFValueType::from_u32(id).map_err(|_| self.wrong(what, "a type from 0 to 12", format!("type {id}")))
    }

    /// The type and the number of the elements of an array, which is where the cursor stands.
    pub fn array_head(&mut self, what: &str) -> Result<(GGUFValueType, u64)> {
        let element = self.value_type(what)?;
        let least_bytes = match element {
            GGUFValueType::String => 8,
            GGUFValueType::Array => 12,
            fixed => fixed.size_in_bytes().unwrap_or(1),
        };
        Ok((element, self.count(what, least_bytes as u64, MAX_ARRAY_LEN)?))
    }

    /// The bytes of a string.
    pub fn string(&mut self, what: &str) -> Result<&'a [u8]> {
        let len = self.u64(what)?;
        self.take(len, what)
    }

    /// Passes a value of this type.
    pub fn skip_value(&mut self, value_type: GGUFValueType, what: &str) -> Result<()> {
        self.skip_nested(value_type, what, 0)
    }

    fn skip_nested(&mut self, value_type: GGUFValueType, what: &str, depth: usize) -> Result<()> {
        match value_type {
            GGUFValueType::String => self.string(what).map(|_| ()),
            GGUFValueType::Array if depth == MAX_ARRAY_DEPTH => {
                let expected = format!("arrays at most {MAX_ARRAY_DEPTH} deep");
                Err(self.wrong(what, expected, "a deeper one"))
            }
            GGUFValueType::Array => {
                let (element, count) = self.array_head(what)?;
                if let Some(size) = element.size_in_bytes() {
                    // In range: both are small.
                    return self.take(count * size as u64, what).map(|_| ());
                }
                (0..count).try_for_each(|_| self.skip_nested(element, what, depth + 1))
            }
            fixed => self.take(fixed.size_in_bytes().unwrap_or(1) as u64, what).map(|_| ()),
        }
    }
}
