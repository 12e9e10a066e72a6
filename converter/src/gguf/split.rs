//! Models in several files: which tensors each has, by the rule of llama-gguf-split, and what the files are called.

use std::ops::Range;
use std::path::{Path, PathBuf};

use qsf_runtime::RuntimeError;
use qsf_runtime::gguf::split::{COUNT, NUMBER, TENSORS, part_name, stem_of_part};

use super::header::{Entry, padded};
use super::value::{Pairs, Value};
use crate::error::Result;

/// Most files: their number has 16 bits.
const MOST_FILES: usize = 65_535;

/// Bytes that a file more takes at most: start, three keys, and what fills it up to where values begin.
const MORE_HEADER: u64 = 24 + 82 + 31;

/// The tensors of the file that begins with the tensor `first`: so many that their values have at most `split_size` bytes, and at
/// least one. Headers do not count.
pub(super) fn range_of_part(entries: &[Entry], first: usize, split_size: u64) -> Range<usize> {
    let mut bytes = 0u64;
    let fits = |entry: &&Entry| {
        let is_first = bytes == 0;
        bytes = bytes.saturating_add(padded(entry.bytes));
        is_first || bytes <= split_size
    };
    first..first + entries[first.min(entries.len())..].iter().take_while(fits).count()
}

/// The tensors of all files.
pub(super) fn ranges(entries: &[Entry], split_size: u64) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut first = 0;
    while first < entries.len() {
        let range = range_of_part(entries, first, split_size);
        first = range.end;
        found.push(range);
    }
    found
}

/// Refuses more files than can be numbered.
///
/// # Errors
/// When there would be more.
pub(super) fn check_count(files: usize, split_size: u64) -> Result<()> {
    if files <= MOST_FILES {
        return Ok(());
    }
    let problem =
        format!("--split-size {split_size}B: makes {files} files, and a GGUF model has at most {MOST_FILES}");
    Err(RuntimeError::Request(problem).into())
}

/// Bytes that the headers of several files have at most, beyond that of one; together they have at most `bytes` and `tensors`.
pub(crate) fn more_headers_at_most(bytes: u64, tensors: usize, split_size: Option<u64>) -> u64 {
    // Of two files that follow each other, the values have more than `split_size` bytes.
    let files = split_size.map_or(0, |most| (2 * (bytes / most.max(1)) + 2).min(tensors as u64));
    MORE_HEADER * files
}

/// Keys of file `number` of `count`, in the order of llama-gguf-split, which knows the last of them last.
pub(super) fn split_pairs(number: usize, count: usize, tensors: usize) -> Pairs {
    vec![
        (NUMBER.to_owned(), Value::U16(number as u16)),
        (TENSORS.to_owned(), Value::I32(tensors as i32)),
        (COUNT.to_owned(), Value::U16(count as u16)),
    ]
}

/// The path of file `number` of `count`, where a single one would be `out`.
pub(super) fn part_path(out: &Path, number: usize, count: usize) -> PathBuf {
    if count == 1 {
        return out.to_owned();
    }
    out.with_file_name(part_name(&stem(out), number as u32, count as u32))
}

fn stem(out: &Path) -> String {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let end = name.len().saturating_sub(".gguf".len());
    match name.get(end..) {
        Some(last) if last.eq_ignore_ascii_case(".gguf") => name[..end].to_owned(),
        _ => name.into_owned(),
    }
}

/// Refuses the name of a part as that of the model.
///
/// # Errors
/// When it is one.
pub(super) fn check_name(out: &Path) -> Result<()> {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    match stem_of_part(&name) {
        Some(stem) => {
            let problem =
                format!("{}: --split-size numbers the files itself: give {stem}.gguf", out.display());
            Err(RuntimeError::Request(problem).into())
        }
        None => Ok(()),
    }
}

/// The files beside `out` that are called as one of several, or as the one file, of a model of this name.
pub(crate) fn files_there(out: &Path) -> Vec<PathBuf> {
    let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stem = stem(out);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let parts = entries.map(|entry| out.with_file_name(entry.file_name())).filter(|path| {
        path == out || path.file_name().and_then(|n| n.to_str()).and_then(stem_of_part) == Some(&stem)
    });
    let mut parts: Vec<PathBuf> = parts.collect();
    parts.sort();
    parts
}

#[cfg(test)]
mod tests {
    use qsf_runtime::ggml::GgmlType;

    use super::*;

    fn entries(bytes: &[u64]) -> Vec<Entry> {
        let entry =
            |&bytes: &u64| Entry { name: "x".into(), dims: vec![bytes / 4], ty: GgmlType::F32, bytes };
        bytes.iter().map(entry).collect()
    }

    #[test]
    fn a_file_takes_what_fits_by_its_padded_size_and_never_nothing() {
        let all = entries(&[32, 32, 4, 96, 400, 32]);
        // 4 bytes take 32.
        assert_eq!(ranges(&all, 96), [0..3, 3..4, 4..5, 5..6]);
        assert_eq!(ranges(&all, 95), [0..2, 2..3, 3..4, 4..5, 5..6]);
        assert_eq!(ranges(&all, 1), [0..1, 1..2, 2..3, 3..4, 4..5, 5..6]);
        assert_eq!(ranges(&all, 10_000).len(), 1);
        assert!(ranges(&[], 1).is_empty());
    }

    #[test]
    fn names_are_those_of_llama_gguf_split() {
        assert_eq!(part_path(Path::new("d/m.gguf"), 0, 3), Path::new("d/m-00001-of-00003.gguf"));
        assert_eq!(part_path(Path::new("m.q4.GGUF"), 11, 12), Path::new("m.q4-00012-of-00012.gguf"));
        assert_eq!(part_path(Path::new("m"), 0, 1), Path::new("m"));
        assert!(check_name(Path::new("m-00001-of-00003.gguf")).is_err());
        assert!(check_name(Path::new("m-1-of-3.gguf")).is_ok());
    }

    #[test]
    fn headers_take_no_more_than_is_left_for_them() {
        for (split_size, bytes) in [(64, vec![32; 100]), (100, vec![96, 32, 96, 32, 96]), (1, vec![4; 9])] {
            let all = entries(&bytes);
            let files = ranges(&all, split_size);
            let header =
                |range: Range<usize>, pairs: &Pairs| super::super::header::header(pairs, &all[range]).len();
            let one = header(0..all.len(), &Vec::new());
            let each =
                files.iter().map(|range| header(range.clone(), &split_pairs(0, files.len(), all.len())));
            let more = (each.sum::<usize>() - one) as u64;
            let values: u64 = all.iter().map(|entry| padded(entry.bytes)).sum();
            let most = more_headers_at_most(values, all.len(), Some(split_size));
            assert!(more <= most, "{split_size}: {more} {most}");
        }
    }
}
