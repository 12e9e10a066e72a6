//! Mutations of QSF files by their fields (format-spec/SPEC.md).

use std::path::Path;
use std::sync::Arc;

use qsf_format::{QsfFile, SectionTag};
use serde_json::{Value, json};

use super::{Dice, Field, change_a_field};
use crate::forged::replace_section;
use crate::reseal::reseal;

/// Changes a few fields, or a value of META, and makes all checksums right again.
pub fn mutate(file: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        // What is no QSF file has only the fields that stand at fixed places.
        let open = QsfFile::from_memory(Path::new("mutated"), Arc::new(file.clone())).ok();
        match (dice.below(4), &open) {
            (0, Some(open)) => change_meta(file, open, dice),
            _ => {
                let fields = fields(file, open.as_ref());
                change_a_field(file, &fields, dice);
            }
        }
        reseal(file);
    }
}

/// Where the fields are. Of a file that does not open, those of the header.
fn fields(file: &[u8], open: Option<&QsfFile>) -> Vec<Field> {
    let mut fields = Vec::new();
    add(&mut fields, 4, &[4; 11]);
    add(&mut fields, 48, &[1, 1, 1, 1, 4, 8, 8, 8, 4, 4, 4]);
    add(&mut fields, 100, &[8, 2, 2]);
    let Some(open) = open else { return fields };
    let header = open.header();
    if let Some(directory) = header.directory_offset {
        add(&mut fields, directory as usize + 8, &[4]);
        for entry in 0..open.sections().len() {
            add(&mut fields, directory as usize + 16 + 32 * entry, &[4, 4, 8, 8]);
            add(&mut fields, directory as usize + 16 + 32 * entry + 28, &[4]);
        }
    }
    add(&mut fields, header.embedding_offset as usize, &[1, 1, 2, 4, 4, 4]);
    for (i, layer) in open.layers().iter().enumerate() {
        add(&mut fields, header.index_offset as usize + 32 * i, &[8, 4, 4, 1, 1, 2]);
        add(&mut fields, header.index_offset as usize + 32 * i + 24, &[4, 2, 2]);
        let table = layer.offset as usize;
        add(&mut fields, table, &[4]);
        let Ok(outline) = open.layer_outline(i) else { continue };
        for chunk in 0..outline.chunks.len() {
            add(&mut fields, table + 16 + 16 * chunk, &[4, 4]);
            add(&mut fields, table + 16 + 16 * chunk + 12, &[4]);
        }
        let raw = outline.chunks.first().map_or(table, |chunk| chunk.offset as usize);
        // In compressed layers these are bytes of a compressed chunk, which is as good.
        outline.tensors.iter().for_each(|tensor| add_tensor(&mut fields, raw + tensor.data.start));
    }
    if let Ok((_, last)) = open.final_section() {
        add(&mut fields, header.final_offset as usize, &[1]);
        let start = header.final_offset as usize;
        last.tensors.iter().for_each(|tensor| add_tensor(&mut fields, start + tensor.data.start));
    }
    let lists = [(SectionTag::EMBEDDING_CHUNKS, 24), (SectionTag::POSITIONS, 64)];
    for (tag, record) in lists {
        let Some(section) = open.section(tag) else { continue };
        for at in (0..section.stored_bytes as usize).step_by(record).take(16) {
            match tag {
                SectionTag::POSITIONS => add_tensor(&mut fields, section.offset as usize + 64),
                _ => add(&mut fields, section.offset as usize + at, &[8, 4, 4, 4, 4]),
            }
        }
    }
    // Records of fields of four bytes, more or less.
    for tag in [
        SectionTag::OUTLIERS,
        SectionTag::ROW_PARTS,
        SectionTag::CLUSTERS,
        SectionTag::EXITS,
        SectionTag::GRIDS,
        SectionTag::ADAPTERS,
    ] {
        let Some(section) = open.section(tag) else { continue };
        let (at, words) = (section.offset as usize, section.stored_bytes as usize / 4);
        (0..words.min(32)).for_each(|word| add(&mut fields, at + 4 * word, &[4]));
    }
    fields.retain(|field| field.at + field.width <= file.len());
    fields
}

/// Fields of these widths, one behind the other.
fn add(fields: &mut Vec<Field>, mut at: usize, widths: &[usize]) {
    for &width in widths {
        fields.push(Field { at, width });
        at += width;
    }
}

/// Those of the tensor header before its data.
fn add_tensor(fields: &mut Vec<Field>, data: usize) {
    add(fields, data.saturating_sub(16), &[4, 4, 4, 1, 1, 2]);
}

/// Gives a value of META another one, takes it out or doubles it. META is stored as it is then.
fn change_meta(file: &mut Vec<u8>, open: &QsfFile, dice: &mut Dice) {
    let Ok(Some(text)) = open.section_bytes(SectionTag::META) else { return };
    let Ok(mut meta) = serde_json::from_slice::<Value>(&text) else { return };
    change_a_value(&mut meta, dice);
    replace_section(file, b"META", meta.to_string().as_bytes(), 0);
}

/// Changes some value in `value`, rather deep in it than not.
fn change_a_value(value: &mut Value, dice: &mut Dice) {
    let members: Vec<&mut Value> = match value {
        Value::Object(map) => map.values_mut().collect(),
        Value::Array(list) => list.iter_mut().collect(),
        _ => Vec::new(),
    };
    let chosen = dice.below(members.len());
    match members.into_iter().nth(chosen) {
        Some(member) if dice.below(6) > 0 => change_a_value(member, dice),
        _ => *value = other_value(value, dice),
    }
}

fn other_value(old: &Value, dice: &mut Dice) -> Value {
    match dice.below(10) {
        0 => Value::Null,
        1 => json!(0),
        2 => json!(1 << dice.below(33)),
        3 => json!(u32::MAX),
        4 => json!(-1.5),
        5 => json!(1e30),
        6 => json!(dice.below(2) == 0),
        7 => json!("\u{1b}[2J"),
        8 => json!([old, old]),
        _ => json!(old.as_u64().unwrap_or(7).wrapping_add(1)),
    }
}
