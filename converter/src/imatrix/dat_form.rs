//! The old form of importance matrices: the number of entries; of each its name, the number of chunks, and for each column the mean
//! square times that number. What follows the entries, how many chunks there were and of what text, is not needed.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use qsf_format::printable::quote;
use qsf_runtime::RuntimeError;

use super::entries::{Entry, Expected};
use crate::error::Result;

/// Most entries, and most bytes of a name: what lies beyond is damage.
pub(super) const MAX_ENTRIES: i32 = 1 << 17;
pub(super) const MAX_NAME: i32 = 256;

/// The entries of `from` that are `expected`; others are passed over. `path` is for messages.
///
/// # Errors
/// When it is no such file, is cut short, or an entry has another length.
pub(super) fn read_dat(
    path: &Path,
    from: &mut (impl Read + Seek),
    expected: &HashMap<String, Expected>,
) -> Result<HashMap<String, Entry>> {
    let end = from.seek(SeekFrom::End(0)).map_err(|e| cut_short(path, "the file", e))?;
    from.seek(SeekFrom::Start(0)).map_err(|e| cut_short(path, "the file", e))?;
    let count = int(path, from, "the number of entries", 1..=MAX_ENTRIES)?;
    let mut entries = HashMap::new();
    for i in 0..count {
        let place = format!("entry {i}");
        let length = int(path, from, &format!("the length of the name of {place}"), 1..=MAX_NAME)?;
        let mut name = vec![0; length as usize];
        from.read_exact(&mut name).map_err(|e| cut_short(path, &place, e))?;
        let name = String::from_utf8(name)
            .map_err(|_| RuntimeError::bad_input(path, place.clone(), "a name in UTF-8", "other bytes"))?;
        let place = format!("entry {}", quote(&name));
        let chunks = int(path, from, &format!("the chunks of {place}"), 0..=i32::MAX)?;
        let values = int(path, from, &format!("the length of {place}"), 1..=i32::MAX)? as u64;
        let here = from.stream_position().map_err(|e| cut_short(path, &place, e))?;
        if values * 4 > end.saturating_sub(here) {
            let found = format!("the end of the file after {} bytes", end.saturating_sub(here));
            return Err(RuntimeError::bad_input(path, place, format!("{values} values"), found).into());
        }
        let Some(shape) = expected.get(&name) else {
            from.seek(SeekFrom::Current(values as i64 * 4)).map_err(|e| cut_short(path, &place, e))?;
            continue;
        };
        if values != shape.values() as u64 {
            return Err(shape.other_length(path, &name, values).into());
        }
        let mut bytes = vec![0; shape.values() * 4];
        from.read_exact(&mut bytes).map_err(|e| cut_short(path, &place, e))?;
        let chunks = chunks.max(1) as f32;
        let (floats, _) = bytes.as_chunks::<4>();
        let mean_squares = floats.iter().map(|b| f32::from_le_bytes(*b) / chunks).collect();
        // How many tokens there were is not said; enough for every column.
        let tokens = vec![shape.cols as u64; shape.matrices];
        entries.insert(name.clone(), Entry { mean_squares, tokens }.check(path, &name)?);
    }
    Ok(entries)
}

fn int(path: &Path, from: &mut impl Read, place: &str, range: std::ops::RangeInclusive<i32>) -> Result<i32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes).map_err(|e| cut_short(path, place, e))?;
    let found = i32::from_le_bytes(bytes);
    if range.contains(&found) {
        return Ok(found);
    }
    let expected = format!(
        "{} to {}, as in an importance matrix of llama.cpp (GGUF, or the older .dat)",
        range.start(),
        range.end()
    );
    Err(RuntimeError::bad_input(path, place.to_owned(), expected, found).into())
}

fn cut_short(path: &Path, place: &str, error: io::Error) -> RuntimeError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            RuntimeError::bad_input(path, place.to_owned(), "all of it", "the end of the file")
        }
        _ => RuntimeError::io(path, "read", error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn file(entries: &[(&str, i32, &[f32])]) -> Vec<u8> {
        let mut out = (entries.len() as i32).to_le_bytes().to_vec();
        for (name, chunks, values) in entries {
            out.extend((name.len() as i32).to_le_bytes());
            out.extend(name.as_bytes());
            out.extend(chunks.to_le_bytes());
            out.extend((values.len() as i32).to_le_bytes());
            values.iter().for_each(|v| out.extend(v.to_le_bytes()));
        }
        out
    }

    fn read(bytes: Vec<u8>) -> Result<HashMap<String, Entry>> {
        let expected = HashMap::from([("a".to_owned(), Expected { cols: 2, matrices: 1 })]);
        read_dat(Path::new("x.dat"), &mut Cursor::new(bytes), &expected)
    }

    #[test]
    fn values_are_means_and_entries_of_no_matrix_are_passed_over() {
        let found = read(file(&[("other", 2, &[1.0; 7]), ("a", 4, &[8.0, 2.0])])).unwrap();
        assert_eq!(found["a"].mean_squares, [2.0, 0.5]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn damage_is_named_and_takes_no_memory() {
        let good = file(&[("a", 4, &[8.0, 2.0])]);
        for end in 0..good.len() {
            assert!(read(good[..end].to_vec()).is_err(), "{end}");
        }
        for (wrong, says) in [
            (file(&[("a", 4, &[8.0; 3])]), "another model"),
            (file(&[("a", 4, &[f32::NAN, 1.0])]), "NaN"),
            (file(&[("a", 4, &[-1.0, 1.0])]), "-0.25"),
            ([&good[..13], &i32::MAX.to_le_bytes()[..], &good[17..]].concat(), "end of the file"),
            (b"GGML and so on".to_vec(), "number of entries"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
