//! The footer: what columns a file has, and where their values are.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use super::MAGIC;
use super::flaw::{Flaw, Found};
use super::schema::{Element, MAX_NODES, Schema};
use super::thrift::Compact;

/// Longest footer. That of a file with 1000 groups of rows and 10 columns has 1 MB.
const MAX_FOOTER: u64 = 16 << 20;
/// The length of the footer and the magic number behind it.
const TAIL: u64 = 8;
/// `ConvertedType`s: LIST, and UINT_8 to UINT_64.
const CONVERTED_LIST: i64 = 3;
const CONVERTED_UNSIGNED: std::ops::RangeInclusive<i64> = 11..=14;
/// The member LIST of the union `LogicalType`.
const LOGICAL_LIST: i64 = 3;

/// What a file has of the columns that are asked for.
#[derive(Debug)]
pub(super) struct Footer {
    pub schema: Schema,
    pub groups: Vec<RowGroup>,
}

/// Some of the rows.
#[derive(Debug)]
pub(super) struct RowGroup {
    pub rows: u64,
    /// In the order of the schema's leaves.
    pub chunks: Vec<ColumnChunk>,
}

/// The values of a column in a group of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ColumnChunk {
    /// `CompressionCodec`.
    pub codec: i64,
    /// Of its first page.
    pub offset: u64,
    pub bytes: u64,
    /// With those that are null.
    pub values: u64,
}

impl Footer {
    /// That of `file`, for the columns `wanted`.
    pub fn read(file: &mut File, wanted: &[&str]) -> Result<Footer, Flaw> {
        let flaw = |found: String| Flaw::new("the footer", "the metadata of a Parquet file", found);
        let (bytes, at) = footer_bytes(file).map_err(flaw)?;
        Footer::parse(&bytes, at, wanted).map_err(flaw)
    }

    /// From the bytes of a footer that begins at the offset `end`, before which all pages are.
    pub fn parse(bytes: &[u8], end: u64, wanted: &[&str]) -> Found<Footer> {
        // The schema stands before the groups of rows, but nothing says that it must.
        let mut elements = Vec::new();
        Compact::new(bytes).fields(|input, field| {
            if field.id != 2 {
                return Ok(false);
            }
            input.structures(field, |input| {
                if elements.len() == MAX_NODES {
                    return Err(format!("a schema of more than {MAX_NODES} nodes"));
                }
                elements.push(element(input)?);
                Ok(())
            })?;
            Ok(true)
        })?;
        let schema = Schema::new(elements, wanted)?;
        let mut groups = Vec::new();
        Compact::new(bytes).fields(|input, field| {
            if field.id != 4 {
                return Ok(false);
            }
            input.structures(field, |input| {
                groups.push(row_group(input, &schema, end)?);
                Ok(())
            })?;
            Ok(true)
        })?;
        Ok(Footer { schema, groups })
    }
}

fn footer_bytes(file: &mut File) -> Found<(Vec<u8>, u64)> {
    let text = |error: std::io::Error| error.to_string();
    let size = file.seek(SeekFrom::End(0)).map_err(text)?;
    let most =
        size.checked_sub(TAIL + MAGIC.len() as u64).ok_or_else(|| format!("a file of {size} bytes"))?;
    let mut tail = [0; TAIL as usize];
    file.seek(SeekFrom::Start(size - TAIL)).map_err(text)?;
    file.read_exact(&mut tail).map_err(text)?;
    let (length, magic) = tail.split_at(4);
    match magic {
        b"PAR1" => {}
        b"PARE" => return Err("an encrypted file".into()),
        _ => return Err("an end without PAR1: a part of the file is missing".into()),
    }
    let length = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
    if length > most.min(MAX_FOOTER) {
        return Err(format!(
            "{length} bytes; at most {} are accepted in a file of {size}",
            most.min(MAX_FOOTER)
        ));
    }
    let at = size - TAIL - length;
    let mut bytes = vec![0; length as usize];
    file.seek(SeekFrom::Start(at)).map_err(text)?;
    file.read_exact(&mut bytes).map_err(text)?;
    Ok((bytes, at))
}

/// `SchemaElement`.
fn element(input: &mut Compact) -> Found<Element> {
    let mut element = Element {
        name: String::new(),
        physical: None,
        repetition: 0,
        children: 0,
        list: false,
        unsigned: false,
    };
    input.fields(|input, field| {
        match field.id {
            1 => element.physical = Some(input.integer(field)?),
            3 => element.repetition = input.integer(field)?,
            4 => element.name = input.text(field)?.to_owned(),
            5 => element.children = input.unsigned(field)?,
            6 => {
                let converted = input.integer(field)?;
                element.list |= converted == CONVERTED_LIST;
                element.unsigned = CONVERTED_UNSIGNED.contains(&converted);
            }
            10 => input.structure(field, |_, member| {
                element.list |= member.id == LOGICAL_LIST;
                Ok(false)
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    // Writers give groups no type; some give leaves children of zero.
    Ok(element)
}

/// `RowGroup`.
fn row_group(input: &mut Compact, schema: &Schema, end: u64) -> Found<RowGroup> {
    let mut rows = 0;
    let mut columns = 0;
    let mut chunks = Vec::with_capacity(schema.leaves.len());
    input.fields(|input, field| {
        match field.id {
            1 => input.structures(field, |input| {
                let leaf = schema.leaves.get(chunks.len()).filter(|leaf| leaf.place == columns);
                columns += 1;
                match leaf {
                    None => input.fields(|_, _| Ok(false)),
                    Some(leaf) => {
                        let chunk = column_chunk(input, end);
                        chunks.push(chunk.map_err(|found| format!("column {}: {found}", leaf.name))?);
                        Ok(())
                    }
                }
            })?,
            3 => rows = input.unsigned(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if columns != schema.all_leaves {
        return Err(format!("a group of rows with {columns} columns; the schema has {}", schema.all_leaves));
    }
    Ok(RowGroup { rows, chunks })
}

/// `ColumnChunk` with its `ColumnMetaData`.
fn column_chunk(input: &mut Compact, end: u64) -> Found<ColumnChunk> {
    let mut chunk = ColumnChunk::default();
    let (mut data, mut dictionary) = (None, None);
    input.fields(|input, field| {
        match field.id {
            1 => return Err(format!("values in another file, {}", input.text(field)?)),
            3 => input.structure(field, |input, field| {
                match field.id {
                    4 => chunk.codec = input.integer(field)?,
                    5 => chunk.values = input.unsigned(field)?,
                    7 => chunk.bytes = input.unsigned(field)?,
                    9 => data = Some(input.unsigned(field)?),
                    11 => dictionary = Some(input.unsigned(field)?).filter(|&offset| offset > 0),
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            8 => return Err("encrypted values".into()),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let data = data.ok_or("no offset of its pages")?;
    chunk.offset = dictionary.map_or(data, |dictionary| dictionary.min(data));
    match chunk.offset.checked_add(chunk.bytes) {
        Some(behind) if behind <= end => Ok(chunk),
        _ => Err(format!("{} bytes at offset {}; pages end at {end}", chunk.bytes, chunk.offset)),
    }
}
