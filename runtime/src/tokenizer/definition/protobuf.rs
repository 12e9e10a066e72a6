//! The wire format of Protocol Buffers (<https://protobuf.dev/programming-guides/encoding/>), as much as a SentencePiece
//! model needs: fields are read one after the other, each checked against the bytes that are there.

use std::path::Path;

use crate::error::{Result, RuntimeError};

/// The fields of one message, in the order of the file.
#[derive(Debug, Clone)]
pub(super) struct Message<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    /// Offset of `bytes` in the file.
    start: usize,
    at: usize,
}

/// One field of a message.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    /// Its number in the message's definition.
    pub number: u64,
    /// Its value.
    pub value: Value<'a>,
    /// Offset in the file, for messages.
    pub offset: usize,
}

/// The value of a field, as the wire format tells it apart.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    /// Integers, truth values and enumerations.
    Varint(u64),
    /// Eight bytes.
    Fixed64,
    /// Strings, bytes and messages.
    Bytes(&'a [u8]),
    /// Four bytes: `float` among others.
    Fixed32([u8; 4]),
}

impl<'a> Message<'a> {
    /// The message that fills the whole file.
    pub fn of_file(path: &'a Path, bytes: &'a [u8]) -> Message<'a> {
        Message { path, bytes, start: 0, at: 0 }
    }

    /// The message in `field`.
    ///
    /// # Errors
    /// When the field holds something else.
    pub fn within(&self, field: &Field<'a>) -> Result<Message<'a>> {
        let bytes = field.bytes(self.path)?;
        // Where the contents begin: they end where the next field begins.
        Ok(Message { path: self.path, bytes, start: self.start + self.at - bytes.len(), at: 0 })
    }

    /// The next field; `None` at the end.
    ///
    /// # Errors
    /// When it is cut off, or of a kind that does not exist.
    pub fn next(&mut self) -> Result<Option<Field<'a>>> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let offset = self.start + self.at;
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed64
            }
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(usize::try_from(len).unwrap_or(usize::MAX))?)
            }
            5 => {
                let mut four = [0; 4];
                four.copy_from_slice(self.take(4)?);
                Value::Fixed32(four)
            }
            other => {
                return Err(self.wrong(offset, "a field of wire type 0, 1, 2 or 5", format!("type {other}")));
            }
        };
        Ok(Some(Field { number: key >> 3, value, offset }))
    }

    fn varint(&mut self) -> Result<u64> {
        let offset = self.start + self.at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?[0];
            // The tenth byte of a 64-bit number has one bit to give.
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.wrong(offset, "a number of at most 64 bits", "a longer one"))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..len) else {
            let offset = self.start + self.at;
            return Err(self.wrong(offset, format!("{len} bytes"), format!("{}", rest.len())));
        };
        self.at += len;
        Ok(taken)
    }

    fn wrong(&self, offset: usize, expected: impl ToString, found: impl ToString) -> RuntimeError {
        RuntimeError::bad_input(self.path, format!("offset {offset}"), expected, found)
    }
}

impl<'a> Field<'a> {
    fn wrong(&self, path: &Path, expected: &str) -> RuntimeError {
        let found = match self.value {
            Value::Varint(_) => "an integer",
            Value::Fixed64 => "8 bytes",
            Value::Bytes(_) => "a run of bytes",
            Value::Fixed32(_) => "4 bytes",
        };
        let place = format!("offset {}, field {}", self.offset, self.number);
        RuntimeError::bad_input(path, place, expected, found)
    }

    /// The contents of a string, bytes or message.
    pub fn bytes(&self, path: &Path) -> Result<&'a [u8]> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong(path, "a run of bytes")),
        }
    }

    /// A string.
    pub fn text(&self, path: &Path) -> Result<&'a str> {
        std::str::from_utf8(self.bytes(path)?).map_err(|_| self.wrong(path, "UTF-8 text"))
    }

    /// An `int32` or an enumeration: negative numbers take the low half of a longer one.
    pub fn int32(&self, path: &Path) -> Result<i32> {
        match self.value {
            Value::Varint(value) => Ok(value as i32),
            _ => Err(self.wrong(path, "an integer")),
        }
    }

    /// A truth value.
    pub fn bool(&self, path: &Path) -> Result<bool> {
        Ok(self.int32(path)? != 0)
    }

    /// A `float`.
    pub fn float(&self, path: &Path) -> Result<f32> {
        match self.value {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.wrong(path, "a float")),
        }
    }
}
