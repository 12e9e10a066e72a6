//! Values of a page, and the dictionary that they may be in.

use serde_json::{Number, Value};

use super::flaw::Found;
use super::pages::{Page, PageKind};
use super::runs::Runs;
use super::schema::{Leaf, Physical};
use super::thrift::CUT;

/// `Encoding`s.
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
pub(super) const RLE: i64 = 3;
const RLE_DICTIONARY: i64 = 8;

/// The values of one page.
#[derive(Debug)]
pub(super) enum Values {
    /// One behind the other, from this byte on; booleans from this bit on.
    Plain(usize),
    Indices(Runs),
    Booleans(Runs),
}

impl Values {
    /// Those of `page` from byte `at` on.
    pub fn new(page: &Page, at: usize, leaf: &Leaf, dictionary: bool) -> Found<Values> {
        let end = page.bytes.len();
        match page.encoding {
            PLAIN if leaf.physical == Physical::Boolean => Ok(Values::Plain(at * 8)),
            PLAIN => Ok(Values::Plain(at)),
            PLAIN_DICTIONARY | RLE_DICTIONARY if !dictionary => {
                Err("a page whose dictionary is missing".into())
            }
            PLAIN_DICTIONARY | RLE_DICTIONARY => {
                // Only nulls need no width.
                let width = page.bytes.get(at).map_or(0, |width| u32::from(*width));
                if width > 32 {
                    return Err(format!("indices of {width} bits"));
                }
                Ok(Values::Indices(Runs::new((at + 1).min(end), end, width)))
            }
            RLE if leaf.physical == Physical::Boolean => {
                Ok(Values::Booleans(Runs::new((at + 4).min(end), end, 1)))
            }
            other => Err(format!("values in the encoding {}", encoding_name(other))),
        }
    }

    /// The next value.
    pub fn next(&mut self, bytes: &[u8], leaf: &Leaf, dictionary: Option<&Dictionary>) -> Found<Value> {
        match self {
            Values::Plain(bit) if leaf.physical == Physical::Boolean => {
                let byte = bytes.get(*bit / 8).ok_or(CUT)?;
                let value = byte >> (*bit % 8) & 1;
                *bit += 1;
                Ok(Value::Bool(value == 1))
            }
            Values::Plain(at) => {
                let (value, length) = plain(&bytes[*at..], leaf)?;
                *at += length;
                Ok(value)
            }
            Values::Booleans(runs) => Ok(Value::Bool(runs.next(bytes)? == 1)),
            Values::Indices(runs) => {
                let index = runs.next(bytes)?;
                dictionary.ok_or("a page whose dictionary is missing")?.value(index, leaf)
            }
        }
    }
}

/// The values that the pages of a column have indices of.
#[derive(Debug)]
pub(super) struct Dictionary {
    bytes: Vec<u8>,
    /// Where each value begins.
    offsets: Vec<u32>,
}

impl Dictionary {
    pub fn new(page: Page, leaf: &Leaf) -> Found<Dictionary> {
        if !matches!(page.encoding, PLAIN | PLAIN_DICTIONARY) {
            return Err(format!("a dictionary in the encoding {}", encoding_name(page.encoding)));
        }
        if page.kind != PageKind::Dictionary || leaf.physical == Physical::Boolean {
            return Err("a dictionary of booleans".into());
        }
        let mut offsets = Vec::new();
        let mut at = 0;
        for _ in 0..page.values {
            offsets.push(at as u32);
            at += length(&page.bytes[at..], leaf)?.1;
        }
        Ok(Dictionary { bytes: page.bytes, offsets })
    }

    fn value(&self, index: u32, leaf: &Leaf) -> Found<Value> {
        let offset = self.offsets.get(index as usize);
        let offset =
            offset.ok_or_else(|| format!("value {index} of a dictionary of {}", self.offsets.len()))?;
        Ok(plain(&self.bytes[*offset as usize..], leaf)?.0)
    }
}

/// Where a value is in `bytes`, which it begins: its first byte and the first behind it.
fn length(bytes: &[u8], leaf: &Leaf) -> Found<(usize, usize)> {
    let (first, behind) = match leaf.physical {
        Physical::Boolean | Physical::Int32 | Physical::Float => (0, 4),
        Physical::Int64 | Physical::Double => (0, 8),
        Physical::ByteArray => {
            let length = bytes.first_chunk::<4>().map(|length| u32::from_le_bytes(*length)).ok_or(CUT)?;
            (4, usize::try_from(length).ok().and_then(|length| length.checked_add(4)).ok_or(CUT)?)
        }
    };
    if behind > bytes.len() {
        return Err(CUT.into());
    }
    Ok((first, behind))
}

/// The value that `bytes` begin with, and the bytes that it takes.
fn plain(bytes: &[u8], leaf: &Leaf) -> Found<(Value, usize)> {
    let (first, behind) = length(bytes, leaf)?;
    let bytes = &bytes[first..behind];
    let mut wide = [0; 8];
    let value = match leaf.physical {
        Physical::ByteArray => {
            let text = str::from_utf8(bytes).map_err(|_| "a text that is not UTF-8")?;
            Value::String(text.to_owned())
        }
        physical => {
            wide[..bytes.len()].copy_from_slice(bytes);
            let bits = u64::from_le_bytes(wide);
            match physical {
                _ if leaf.unsigned => Value::from(bits),
                Physical::Int32 => Value::from(bits as u32 as i32),
                Physical::Float => float(f64::from(f32::from_bits(bits as u32))),
                Physical::Double => float(f64::from_bits(bits)),
                _ => Value::from(bits as i64),
            }
        }
    };
    Ok((value, behind))
}

/// JSON has no infinity.
fn float(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn encoding_name(id: i64) -> String {
    let known = ["PLAIN", "1", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED"];
    let more = ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"];
    let name = usize::try_from(id).ok().and_then(|id| known.iter().chain(&more).nth(id));
    name.map_or_else(|| id.to_string(), |name| (*name).to_owned())
}
