//! Thrift's compact protocol, as far as Parquet needs it
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).

use super::flaw::Found;

/// Structures within structures at most; `parquet.thrift` has 5.
const MAX_DEPTH: usize = 16;

/// Types on the wire. A field that is a boolean has its value in its type.
pub(super) const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// What a reader says when the bytes end before the value does.
pub(super) const CUT: &str = "the end of the data";

/// Reads values one after another.
pub(super) struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A field of a structure.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub id: i64,
    pub kind: u8,
}

impl<'a> Compact<'a> {
    pub fn new(bytes: &'a [u8]) -> Compact<'a> {
        Compact { bytes, at: 0 }
    }

    /// Bytes that were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Shows each field of a structure to `visit`, which reads its value, or else says `false`.
    pub fn fields(&mut self, mut visit: impl FnMut(&mut Self, Field) -> Found<bool>) -> Found<()> {
        let mut id = 0;
        while let Some(field) = self.field(id)? {
            id = field.id;
            if !visit(self, field)? {
                self.skip(field.kind, 0)?;
            }
        }
        Ok(())
    }

    /// Shows each element of a list of structures to `visit`, which reads all of it.
    pub fn structures(&mut self, field: Field, mut visit: impl FnMut(&mut Self) -> Found<()>) -> Found<()> {
        if field.kind != LIST {
            return Err(wrong(field, "a list"));
        }
        let (count, kind) = self.list()?;
        if kind != STRUCT && count > 0 {
            return Err(format!("a list of values of type {kind} instead of structures"));
        }
        (0..count).try_for_each(|_| visit(self))
    }

    /// A structure within the structure.
    pub fn structure(
        &mut self,
        field: Field,
        visit: impl FnMut(&mut Self, Field) -> Found<bool>,
    ) -> Found<()> {
        if field.kind != STRUCT {
            return Err(wrong(field, "a structure"));
        }
        self.fields(visit)
    }

    pub fn integer(&mut self, field: Field) -> Found<i64> {
        match field.kind {
            BYTE => Ok(i64::from(self.byte()? as i8)),
            I16..=I64 => self.zigzag(),
            _ => Err(wrong(field, "a whole number")),
        }
    }

    /// A count, a size or an offset.
    pub fn unsigned(&mut self, field: Field) -> Found<u64> {
        let number = self.integer(field)?;
        u64::try_from(number).map_err(|_| format!("{number} in field {}", field.id))
    }

    pub fn text(&mut self, field: Field) -> Found<&'a str> {
        if field.kind != BINARY {
            return Err(wrong(field, "a text"));
        }
        str::from_utf8(self.binary()?).map_err(|_| format!("field {}, which is not UTF-8", field.id))
    }

    fn field(&mut self, last: i64) -> Found<Option<Field>> {
        let byte = self.byte()?;
        let (step, kind) = (byte >> 4, byte & 15);
        if kind == 0 {
            return Ok(None);
        }
        let id = if step == 0 { self.zigzag()? } else { last.saturating_add(i64::from(step)) };
        Ok(Some(Field { id, kind }))
    }

    /// How many elements of which type; each takes a byte or more.
    fn list(&mut self) -> Found<(usize, u8)> {
        let byte = self.byte()?;
        let count = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
        Ok((self.fits(count)?, byte & 15))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Found<()> {
        if depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} structures within each other"));
        }
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.take(1).map(drop),
            I16..=I64 => self.varint().map(drop),
            DOUBLE => self.take(8).map(drop),
            BINARY => self.binary().map(drop),
            UUID => self.take(16).map(drop),
            LIST | SET => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(kind, depth))
            }
            MAP => {
                let count = self.varint()?;
                let count = self.fits(count)?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 15, depth)
                })
            }
            STRUCT => {
                let mut id = 0;
                while let Some(field) = self.field(id)? {
                    id = field.id;
                    self.skip(field.kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(format!("a value of type {kind}, which there is not")),
        }
    }

    /// Outside of structures a boolean takes a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Found<()> {
        match kind {
            TRUE | FALSE => self.take(1).map(drop),
            _ => self.skip(kind, depth + 1),
        }
    }

    fn fits(&self, count: u64) -> Found<usize> {
        let left = self.bytes.len() - self.at;
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= left)
            .ok_or_else(|| format!("{count} elements in {left} bytes"))
    }

    fn binary(&mut self) -> Found<&'a [u8]> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| CUT)?;
        self.take(length)
    }

    fn zigzag(&mut self) -> Found<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn varint(&mut self) -> Found<u64> {
        let (number, bytes) = varint(&self.bytes[self.at..])?;
        self.at += bytes;
        Ok(number)
    }

    fn byte(&mut self) -> Found<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Found<&'a [u8]> {
        let bytes = self.bytes[self.at..].get(..count).ok_or(CUT)?;
        self.at += count;
        Ok(bytes)
    }
}

/// A number in groups of seven bits, the lowest first, and the bytes that it takes.
pub(super) fn varint(bytes: &[u8]) -> Found<(u64, usize)> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, index + 1));
        }
    }
    Err(if bytes.len() < 10 { CUT.into() } else { "a number of more than 64 bits".into() })
}

fn wrong(field: Field, expected: &str) -> String {
    format!("a value of type {} in field {}, which is {expected}", field.kind, field.id)
}
