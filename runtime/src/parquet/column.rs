//! The values of a column, with the levels that say where in a row they belong.

use std::fs::File;

use serde_json::Value;

use super::flaw::{Flaw, Found};
use super::footer::ColumnChunk;
use super::pages::{Page, PageKind, Pages};
use super::runs::Runs;
use super::schema::Leaf;
use super::values::{Dictionary, RLE, Values};

/// A value in its row.
#[derive(Debug)]
pub(super) struct Placed {
    /// How many of the nodes that can be missing are there.
    pub definition: u32,
    /// `Null` where a node is missing.
    pub value: Value,
}

/// Reads a column of a group of rows.
pub(super) struct Column {
    leaf: Leaf,
    pages: Pages,
    dictionary: Option<Dictionary>,
    page: Option<OpenPage>,
    /// The repetition level of the next value, once it is read.
    ahead: Option<u32>,
    /// Values that are left by what the footer says.
    left: u64,
}

/// A data page that is being read.
struct OpenPage {
    bytes: Vec<u8>,
    left: u32,
    repetition: Option<Runs>,
    definition: Option<Runs>,
    values: Values,
}

impl Column {
    pub fn new(leaf: &Leaf, chunk: &ColumnChunk) -> Column {
        let pages = Pages::new(chunk);
        Column { leaf: leaf.clone(), pages, dictionary: None, page: None, ahead: None, left: chunk.values }
    }

    /// Whether there are values left.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether the next value is one more of the same row.
    pub fn continues_row(&mut self, file: &mut File) -> Result<bool, Flaw> {
        if self.leaf.max_repetition == 0 || self.left == 0 {
            return Ok(false);
        }
        let level = match self.ahead {
            Some(level) => level,
            None => {
                let level = self.repetition(file).map_err(|found| self.flaw(found))?;
                *self.ahead.insert(level)
            }
        };
        Ok(level > 0)
    }

    /// The next value.
    pub fn next(&mut self, file: &mut File) -> Result<Placed, Flaw> {
        self.placed(file).map_err(|found| self.flaw(found))
    }

    fn flaw(&self, found: String) -> Flaw {
        let place = format!("column {}, offset {}", self.leaf.name, self.pages.offset());
        Flaw::new(place, "pages of text or numbers as pyarrow writes them", found)
    }

    fn placed(&mut self, file: &mut File) -> Found<Placed> {
        if self.ahead.take().is_none() {
            self.repetition(file)?;
        }
        let page = self.page.as_mut().ok_or("no page")?;
        let definition = page.definition.as_mut().map_or(Ok(0), |runs| runs.next(&page.bytes))?;
        if definition > self.leaf.max_definition {
            return Err(format!("the definition level {definition}"));
        }
        let value = if definition == self.leaf.max_definition {
            page.values.next(&page.bytes, &self.leaf, self.dictionary.as_ref())?
        } else {
            Value::Null
        };
        page.left -= 1;
        self.left -= 1;
        Ok(Placed { definition, value })
    }

    /// The repetition level of the next value, on the page that is then open.
    fn repetition(&mut self, file: &mut File) -> Found<u32> {
        if self.left == 0 {
            return Err("fewer values than rows".into());
        }
        while self.page.as_ref().is_none_or(|page| page.left == 0) {
            // What is done with goes before the next comes.
            self.page = None;
            let page = self.pages.next(file)?;
            let page = page.ok_or_else(|| format!("the end of its pages, {} values too early", self.left))?;
            match page.kind {
                PageKind::Dictionary if self.dictionary.is_some() => return Err("a second dictionary".into()),
                PageKind::Dictionary => self.dictionary = Some(Dictionary::new(page, &self.leaf)?),
                _ => self.page = Some(OpenPage::new(page, &self.leaf, self.dictionary.is_some())?),
            }
        }
        let page = self.page.as_mut().ok_or("no page")?;
        let level = page.repetition.as_mut().map_or(Ok(0), |runs| runs.next(&page.bytes))?;
        if level > self.leaf.max_repetition {
            return Err(format!("the repetition level {level}"));
        }
        Ok(level)
    }
}

impl OpenPage {
    fn new(page: Page, leaf: &Leaf, dictionary: bool) -> Found<OpenPage> {
        let widths = [leaf.max_repetition, leaf.max_definition].map(|most| u32::BITS - most.leading_zeros());
        let mut at = 0;
        let mut levels = [None; 2];
        for (index, (level, width)) in levels.iter_mut().zip(widths).enumerate() {
            let length = match page.kind {
                PageKind::DataV2 { repetition_bytes, definition_bytes } => {
                    [repetition_bytes, definition_bytes][index]
                }
                _ if width == 0 => continue,
                PageKind::Data { level_encodings } if level_encodings[index] != RLE => {
                    return Err("levels in the encoding BIT_PACKED".into());
                }
                _ => {
                    let head = page.bytes[at..].first_chunk::<4>().ok_or("a page without its levels")?;
                    at += head.len();
                    u32::from_le_bytes(*head) as usize
                }
            };
            let end = at.checked_add(length).filter(|&end| end <= page.bytes.len());
            let end =
                end.ok_or_else(|| format!("{length} bytes of levels in a page of {}", page.bytes.len()))?;
            *level = (width > 0).then(|| Runs::new(at, end, width));
            at = end;
        }
        let values = Values::new(&page, at, leaf, dictionary)?;
        let [repetition, definition] = levels;
        Ok(OpenPage { left: page.values, bytes: page.bytes, repetition, definition, values })
    }
}
