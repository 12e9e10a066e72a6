//! Mutations of GGUF files by their fields: magic and version, counts, lengths of keys and texts, types, shapes, offsets.

use super::{Dice, Field, change_a_field};

/// Changes a few fields.
pub fn mutate(file: &mut [u8], dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let fields = Walk { file, at: 0, fields: Vec::new() }.all();
        change_a_field(file, &fields, dice);
    }
}

/// Most elements of an array whose fields are listed: a vocabulary has very many that are all alike.
const LISTED: u64 = 64;
/// Bytes of a value of each type; 0 of texts and arrays.
const WIDTHS: [usize; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const STRING: u64 = 8;
const ARRAY: u64 = 9;

/// A walk over a file that notes where its fields are, as far as it can be followed.
struct Walk<'a> {
    file: &'a [u8],
    at: usize,
    fields: Vec<Field>,
}

impl Walk<'_> {
    fn all(mut self) -> Vec<Field> {
        let _ = self.header();
        self.fields
    }

    /// Notes a field and gives its value.
    fn field(&mut self, width: usize) -> Option<u64> {
        let field = Field { at: self.at, width };
        let value = field.get(self.file)?;
        self.fields.push(field);
        self.at += width;
        Some(value)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(bytes).ok()?).filter(|&at| at <= self.file.len())?;
        Some(())
    }

    fn text(&mut self) -> Option<()> {
        let len = self.field(8)?;
        self.skip(len)
    }

    fn header(&mut self) -> Option<()> {
        self.field(4)?;
        self.field(4)?;
        let (tensors, keys) = (self.field(8)?, self.field(8)?);
        for _ in 0..keys {
            self.text()?;
            let kind = self.field(4)?;
            self.value(kind, 0)?;
        }
        for _ in 0..tensors {
            self.text()?;
            for _ in 0..self.field(4)?.min(8) {
                self.field(8)?;
            }
            self.field(4)?;
            self.field(8)?;
        }
        Some(())
    }

    fn value(&mut self, kind: u64, depth: usize) -> Option<()> {
        match kind {
            STRING => self.text(),
            ARRAY if depth < 4 => {
                let (kind, count) = (self.field(4)?, self.field(8)?);
                for element in 0..count {
                    let noted = self.fields.len();
                    self.value(kind, depth + 1)?;
                    if element >= LISTED {
                        self.fields.truncate(noted);
                    }
                }
                Some(())
            }
            _ => {
                let width = *WIDTHS.get(usize::try_from(kind).ok()?)?;
                // An array in arrays too deep to follow.
                (width > 0).then_some(())?;
                self.field(width).map(|_| ())
            }
        }
    }
}
