//! The metadata of a GGUF file: typed access with errors that name the key, what it should hold and what it holds.
//!
//! Values stay as the bytes that they are in the file and are decoded when they are asked for: a vocabulary as a tree of
//! values would take many times its size.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf_rs_lib::format::{GGUFValueType, MetadataValue};
use qsf_format::printable::{message, quote};

use super::cursor::Cursor;
use crate::error::{Result, RuntimeError};

/// Most keys. Files in use have fewer than a hundred.
const MAX_KEYS: u64 = 1 << 16;
/// Longest key, by the specification.
const MAX_KEY_BYTES: u64 = 1024;
/// Length and one byte of a key, type, one byte of a value.
const LEAST_PAIR_BYTES: u64 = 8 + 1 + 4 + 1;

/// The key-value pairs of a file, in its order.
#[derive(Debug)]
pub struct Metadata {
    path: PathBuf,
    /// A copy of the part of the file with the pairs: what is borrowed from it stays valid if the file changes.
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
    by_key: HashMap<String, usize>,
}

#[derive(Debug)]
struct Pair {
    key: String,
    value_type: GGUFValueType,
    /// Of the value, in `bytes`.
    range: Range<usize>,
}

/// A number for all layers, or one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PerLayer {
    /// One number for all layers.
    All(u32),
    /// One for each, in order.
    Each(Vec<u32>),
}

impl Metadata {
    /// Reads `count` pairs, as [`Metadata::read_count`] gave it.
    pub(super) fn read(path: &Path, cursor: &mut Cursor<'_>, file: &[u8], count: u64) -> Result<Metadata> {
        let start = cursor.position();
        let mut pairs = Vec::new();
        let mut by_key = HashMap::new();
        for _ in 0..count {
            let key = cursor.name("a key", MAX_KEY_BYTES)?;
            let what = format!("the value of {}", quote(key));
            if by_key.insert(key.to_owned(), pairs.len()).is_some() {
                return Err(cursor.wrong(&what, "one value for each key", "a second one"));
            }
            let value_type = cursor.value_type(&what)?;
            let first = cursor.position();
            cursor.skip_value(value_type, &what)?;
            let range = first - start..cursor.position() - start;
            pairs.push(Pair { key: key.to_owned(), value_type, range });
        }
        let bytes = file[start..cursor.position()].to_vec();
        Ok(Metadata { path: path.to_owned(), bytes, pairs, by_key })
    }

    /// The number of pairs, where the cursor stands.
    pub(super) fn read_count(cursor: &mut Cursor<'_>) -> Result<u64> {
        cursor.count("the number of keys", LEAST_PAIR_BYTES, MAX_KEYS)
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|pair| pair.key.as_str())
    }

    /// All pairs as they are stored: key, number of the value's type, and its bytes.
    pub fn stored(&self) -> impl Iterator<Item = (&str, u32, &[u8])> {
        self.pairs
            .iter()
            .map(|pair| (pair.key.as_str(), pair.value_type as u32, &self.bytes[pair.range.clone()]))
    }

    /// Whether the file has this key.
    pub fn contains(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// An error about a key.
    pub fn wrong(&self, key: &str, expected: impl ToString, found: impl ToString) -> RuntimeError {
        RuntimeError::bad_input(&self.path, format!("key {}", quote(key)), expected, found)
    }

    /// A string, where present.
    ///
    /// # Errors
    /// When the value is something else, or no UTF-8.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        let Some(pair) = self.find(key) else { return Ok(None) };
        if pair.value_type != GGUFValueType::String {
            return Err(self.wrong(key, "a string", self.describe(pair)));
        }
        let bytes = self.cursor(pair).string(&pair.key)?;
        self.text(key, bytes).map(Some)
    }

    /// A string that must be there.
    ///
    /// # Errors
    /// When it is not, or something else is.
    pub fn need_str(&self, key: &str) -> Result<&str> {
        self.required(key, "a string", self.str(key)?)
    }

    /// An integer of any type, where present.
    ///
    /// # Errors
    /// When the value is something else, negative or above 4294967295.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        self.scalar(key, "an integer from 0 to 4294967295", |value| integer(value)?.try_into().ok())
    }

    /// An integer that must be there.
    ///
    /// # Errors
    /// When it is not, or something else is.
    pub fn need_u32(&self, key: &str) -> Result<u32> {
        self.required(key, "an integer", self.u32(key)?)
    }

    /// A number with a fraction, where present.
    ///
    /// # Errors
    /// When the value is something else, infinite or not a number.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        self.scalar(key, "a finite number", |value| float(value).filter(|number| number.is_finite()))
    }

    /// A number with a fraction that must be there.
    ///
    /// # Errors
    /// When it is not, or something else is.
    pub fn need_f32(&self, key: &str) -> Result<f32> {
        self.required(key, "a number", self.f32(key)?)
    }

    /// A truth value, where present.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.scalar(key, "true or false", MetadataValue::as_bool)
    }

    /// An array of strings, where present.
    ///
    /// # Errors
    /// When the value is something else, or one of the strings is no UTF-8.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&str>>> {
        let Some(pair) = self.find(key) else { return Ok(None) };
        let mut cursor = self.cursor(pair);
        let count = match self.array_head(pair, &mut cursor)? {
            Some((GGUFValueType::String, count)) => count,
            _ => return Err(self.wrong(key, "an array of strings", self.describe(pair))),
        };
        let strings = (0..count).map(|_| self.text(key, cursor.string(&pair.key)?));
        strings.collect::<Result<Vec<&str>>>().map(Some)
    }

    /// How many elements an array has, where there is one: to be asked before it is read.
    pub fn array_length(&self, key: &str) -> Option<u64> {
        let pair = self.find(key)?;
        let head = self.array_head(pair, &mut self.cursor(pair)).ok()?;
        head.map(|(_, count)| count)
    }

    /// An array of numbers with fractions, where present.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>> {
        self.list(key, "an array of numbers with fractions", float)
    }

    /// An array of integers of any type, where present.
    ///
    /// # Errors
    /// When the value is something else, or one of them is out of the range of 32 bits.
    pub fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>> {
        self.list(key, "an array of 32-bit integers", |value| integer(value)?.try_into().ok())
    }

    /// An array of integers of any type, none of them negative, where present.
    ///
    /// # Errors
    /// When the value is something else, or one of them is out of range.
    pub fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>> {
        self.list(key, "an array of integers from 0 to 4294967295", |value| integer(value)?.try_into().ok())
    }

    /// An array of truth values, where present.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn bools(&self, key: &str) -> Result<Option<Vec<bool>>> {
        self.list(key, "an array of truth values", MetadataValue::as_bool)
    }

    /// An integer for all layers or an array with one for each, where present.
    ///
    /// # Errors
    /// When the value is neither, or a number is out of range.
    pub fn u32_or_array(&self, key: &str) -> Result<Option<PerLayer>> {
        match self.find(key) {
            Some(pair) if pair.value_type == GGUFValueType::Array => Ok(self.u32s(key)?.map(PerLayer::Each)),
            _ => Ok(self.u32(key)?.map(PerLayer::All)),
        }
    }

    fn find(&self, key: &str) -> Option<&Pair> {
        self.by_key.get(key).map(|&at| &self.pairs[at])
    }

    fn required<T>(&self, key: &str, expected: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(key, expected, "no such key"))
    }

    fn cursor(&self, pair: &Pair) -> Cursor<'_> {
        Cursor::new(&self.path, &self.bytes[pair.range.clone()])
    }

    fn text<'a>(&self, key: &str, bytes: &'a [u8]) -> Result<&'a str> {
        std::str::from_utf8(bytes).map_err(|e| self.wrong(key, "text in UTF-8", message(e)))
    }

    fn array_head(&self, pair: &Pair, cursor: &mut Cursor<'_>) -> Result<Option<(GGUFValueType, u64)>> {
        let is_array = pair.value_type == GGUFValueType::Array;
        is_array.then(|| cursor.array_head(&pair.key)).transpose()
    }

    fn scalar<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&MetadataValue) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(pair) = self.find(key) else { return Ok(None) };
        let value = self.value(pair).as_ref().and_then(read);
        value.map(Some).ok_or_else(|| self.wrong(key, expected, self.describe(pair)))
    }

    /// The value, unless it is broken, or a string or an array, whose lengths the library would believe.
    fn value(&self, pair: &Pair) -> Option<MetadataValue> {
        pair.value_type.size_in_bytes()?;
        MetadataValue::read_from(&mut &self.bytes[pair.range.clone()], pair.value_type).ok()
    }

    fn list<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&MetadataValue) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(pair) = self.find(key) else { return Ok(None) };
        let mut cursor = self.cursor(pair);
        let head = self.array_head(pair, &mut cursor)?;
        let Some((element, count)) = head.filter(|(element, _)| element.size_in_bytes().is_some()) else {
            return Err(self.wrong(key, expected, self.describe(pair)));
        };
        let mut bytes = &self.bytes[pair.range.start + cursor.position()..pair.range.end];
        let mut values = Vec::new();
        for i in 0..count {
            let value = MetadataValue::read_from(&mut bytes, element)
                .map_err(|e| self.wrong(key, expected, format!("element {i}: {}", message(e))))?;
            values.push(read(&value).ok_or_else(|| {
                let found = format!("element {i}: {} ({element})", value.to_string_representation());
                self.wrong(key, expected, found)
            })?);
        }
        Ok(Some(values))
    }

    /// A value as it appears in messages.
    fn describe(&self, pair: &Pair) -> String {
        match pair.value_type {
            GGUFValueType::String => match self.str(&pair.key) {
                Ok(Some(text)) => format!("the string {}", quote(text)),
                _ => "a string".to_owned(),
            },
            GGUFValueType::Array => match self.cursor(pair).array_head(&pair.key) {
                Ok((element, count)) => format!("an array of {count} ({element})"),
                Err(_) => "an array".to_owned(),
            },
            fixed => match self.value(pair) {
                Some(value) => format!("{} ({fixed})", value.to_string_representation()),
                None => format!("a broken value ({fixed})"),
            },
        }
    }
}

fn integer(value: &MetadataValue) -> Option<i128> {
    value.as_u64().map(i128::from).or(value.as_i64().map(i128::from))
}

fn float(value: &MetadataValue) -> Option<f32> {
    value.as_f64().map(|number| number as f32)
}
