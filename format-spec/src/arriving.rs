//! A file that arrives in pieces, by requests for ranges of it, where there is no map of it: in a browser. First come the parts
//! that describe it, which are a few kilobytes; then, if they are wanted, the weights.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::alignment::TENSOR_HEADER_BYTES;
use crate::directory::{SectionTag, parse_directory};
use crate::error::{FormatError, Unread, reserve};
use crate::header::{FileHeader, HEADER_BYTES};
use crate::layer_index::INDEX_ENTRY_BYTES;
use crate::reader::QsfFile;

/// A request for less than this takes as long.
const LEAST: u64 = 64 << 10;
/// A request for more than this shows no progress for long.
const MOST: u64 = 4 << 20;
/// Sections that say nothing of the file by themselves, or too much.
const NOT_DESCRIBING: [SectionTag; 8] = [
    SectionTag::EMBEDDING,
    SectionTag::FINAL,
    SectionTag::POSITIONS,
    SectionTag::OUTLIERS,
    SectionTag::ROW_PARTS,
    SectionTag::TENSOR_CRCS,
    SectionTag::TOKENIZER,
    SectionTag::CHAT_TEMPLATE,
];

/// The bytes of a file that are there so far, in a place for all of them.
#[derive(Debug)]
pub struct ArrivingFile {
    path: PathBuf,
    bytes: Arc<Vec<u8>>,
    /// What is there: in ascending order, with gaps between.
    there: Vec<Range<u64>>,
}

/// What is wanted of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// What [`ArrivingFile::look`] needs.
    Description,
    /// All of it.
    All,
}

impl ArrivingFile {
    /// A file of which nothing is there yet. `name` stands for its path in messages.
    ///
    /// # Errors
    /// When there is not the memory for all of it.
    pub fn new(name: &Path, file_bytes: u64) -> Result<ArrivingFile, FormatError> {
        let len = usize::try_from(file_bytes).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        reserve(&mut bytes, len, "the file").map_err(|e| e.in_file(name))?;
        bytes.resize(len, 0);
        Ok(ArrivingFile { path: name.to_owned(), bytes: Arc::new(bytes), there: Vec::new() })
    }

    /// Bytes that are there.
    pub fn arrived_bytes(&self) -> u64 {
        self.there.iter().map(|range| range.end - range.start).sum()
    }

    /// The range to be read next; `None` when all is there that is wanted. What it has that is there already may be read again.
    ///
    /// # Errors
    /// When what is there is damaged.
    pub fn next_range(&self, wanted: Wanted) -> Result<Option<Range<u64>>, FormatError> {
        let parts = self.describing_parts().map_err(|e| e.in_file(&self.path))?;
        if let Some(missing) = parts.iter().find_map(|part| self.first_gap(part)) {
            let end = missing.end.max(missing.start + LEAST).min(missing.start + MOST).min(self.len());
            // What is near the end, which is most of it, comes in one go.
            let start = missing.start.min(end.saturating_sub(LEAST));
            return Ok(Some(start..end));
        }
        if wanted == Wanted::Description {
            return Ok(None);
        }
        let gap = self.first_gap(&(0..self.len()));
        Ok(gap.map(|gap| gap.start..gap.end.min(gap.start + MOST)))
    }

    /// The place for the bytes of a range; `None` when it is not inside the file.
    pub fn room(&mut self, range: Range<u64>) -> Option<&mut [u8]> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        Arc::get_mut(&mut self.bytes)?.get_mut(range)
    }

    /// Takes note that the bytes of a range are in their place.
    pub fn arrived(&mut self, range: Range<u64>) {
        let range = range.start.min(self.len())..range.end.min(self.len());
        if range.is_empty() {
            return;
        }
        self.there.push(range);
        self.there.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(self.there.len());
        for range in self.there.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.there = joined;
    }

    /// Shows the file to `look` while only the parts that describe it need be there: its header, index and directory, META, EVAL,
    /// clusters, exits, adapters and the list of the embedding's chunks. All else reads as zeros.
    ///
    /// # Errors
    /// When it is damaged in these parts, or `look` fails.
    pub fn look<T, E: From<FormatError>>(
        &mut self,
        look: impl FnOnce(&QsfFile) -> Result<T, E>,
    ) -> Result<T, E> {
        look(&QsfFile::from_memory(&self.path, self.bytes.clone())?)
    }

    /// The file, when all of it is there.
    ///
    /// # Errors
    /// When its header, layer index or directory is damaged.
    pub fn into_file(self) -> Result<QsfFile, FormatError> {
        QsfFile::from_memory(&self.path, self.bytes)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// What of a range is missing first.
    fn first_gap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut start = range.start;
        for there in &self.there {
            if there.start <= start {
                start = start.max(there.end);
            } else {
                break;
            }
        }
        let next = self.there.iter().map(|there| there.start).find(|at| *at > start).unwrap_or(range.end);
        (start < range.end).then(|| start..next.min(range.end))
    }

    fn is_there(&self, range: &Range<u64>) -> bool {
        self.first_gap(range).is_none()
    }

    /// The parts that describe the file, as far as it is known where they are.
    fn describing_parts(&self) -> Result<Vec<Range<u64>>, Unread> {
        let file_bytes = self.len();
        let header_range = 0..file_bytes.min(HEADER_BYTES as u64);
        let header_is_there = self.is_there(&header_range);
        let mut parts = vec![header_range];
        if !header_is_there {
            return Ok(parts);
        }
        let header = FileHeader::parse(&self.bytes, file_bytes)?;
        // Where a part would leave the file, whoever parses the file says so.
        let inside =
            |start: u64, bytes: u64| start.min(file_bytes)..start.saturating_add(bytes).min(file_bytes);
        parts.push(inside(header.index_offset, u64::from(header.layers) * INDEX_ENTRY_BYTES as u64));
        parts.push(inside(header.embedding_offset, TENSOR_HEADER_BYTES));
        let Some(at) = header.directory_offset else { return Ok(parts) };
        let directory = inside(at, u64::MAX);
        // First, so that a file whose directory is damaged is not read any further.
        parts.insert(1, directory.clone());
        if self.is_there(&directory) {
            let sections = parse_directory(&self.bytes, at)?;
            let describing = sections.iter().filter(|section| !NOT_DESCRIBING.contains(&section.tag));
            parts.extend(describing.map(|section| inside(section.offset, section.stored_bytes)));
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_of(bytes: u64) -> ArrivingFile {
        ArrivingFile::new(Path::new("a.qsf"), bytes).unwrap()
    }

    #[test]
    fn ranges_join_and_gaps_between_them_are_found() {
        let mut file = nothing_of(100);
        file.arrived(10..20);
        file.arrived(40..50);
        file.arrived(15..30);
        file.arrived(90..200);
        assert_eq!(file.there, [10..30, 40..50, 90..100]);
        assert_eq!(file.arrived_bytes(), 40);
        let gaps = [0..100, 10..30, 10..31, 25..45, 50..90, 60..70, 95..100, 30..30];
        let found = gaps.map(|range| file.first_gap(&range));
        let expected =
            [Some(0..10), None, Some(30..31), Some(30..40), Some(50..90), Some(60..70), None, None];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_header_comes_first_and_what_is_no_file_ends_there() {
        let mut file = nothing_of(10 << 20);
        assert_eq!(file.next_range(Wanted::Description).unwrap(), Some(0..LEAST));
        file.arrived(0..LEAST);
        let error = file.next_range(Wanted::All).unwrap_err().to_string();
        assert!(error.starts_with("a.qsf: damaged at offset 0 in ") && error.contains("QSF1"), "{error}");
        // A file of a few bytes is no reason to ask for more.
        let mut short = nothing_of(7);
        assert_eq!(short.next_range(Wanted::Description).unwrap(), Some(0..7));
        short.arrived(0..7);
        assert!(short.next_range(Wanted::Description).is_err());
        assert!(nothing_of(0).next_range(Wanted::Description).is_err());
    }

    #[test]
    fn bytes_have_room_only_inside_of_the_file() {
        let mut file = nothing_of(10);
        assert_eq!(file.room(8..10).unwrap().len(), 2);
        assert!(file.room(8..11).is_none());
        assert!(file.room(u64::MAX - 1..u64::MAX).is_none());
        assert!(file.room(Range { start: 5, end: 3 }).is_none());
    }

    #[test]
    fn a_size_beyond_all_memory_is_an_error() {
        let error = ArrivingFile::new(Path::new("a.qsf"), u64::MAX).unwrap_err();
        assert_eq!(error.failure(), crate::Failure::OutOfSpace);
    }
}
