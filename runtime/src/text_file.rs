//! Text files, read piece by piece: how long a text is decides neither memory nor how much of it is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::content::lfs_pointer;
use crate::error::{Result, RuntimeError};
use crate::file_hash::hex;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// Most bytes of a text that is needed as a whole: a prompt within a template, a line of JSONL.
pub const MAX_WHOLE_BYTES: usize = 1 << 26;

/// Where a text comes from, a piece at a time.
pub trait TextSource {
    /// Appends the next piece, which is not empty, to `text`; false at the end.
    ///
    /// # Errors
    /// When the text cannot be read.
    fn read_piece(&mut self, text: &mut String) -> Result<bool>;

    /// What messages call it.
    fn path(&self) -> &Path;
}

/// A text in memory.
#[derive(Debug)]
pub struct TextInMemory<'a> {
    rest: &'a str,
    path: &'a Path,
}

impl<'a> TextInMemory<'a> {
    /// `path` is what messages call it.
    pub fn new(text: &'a str, path: &'a Path) -> TextInMemory<'a> {
        TextInMemory { rest: text, path }
    }
}

impl TextSource for TextInMemory<'_> {
    fn read_piece(&mut self, text: &mut String) -> Result<bool> {
        let (piece, rest) = self.rest.split_at(self.rest.floor_char_boundary(PIECE));
        text.push_str(piece);
        self.rest = rest;
        Ok(!piece.is_empty())
    }

    fn path(&self) -> &Path {
        self.path
    }
}

/// Texts of pipes, each by its path: they can be read once only, and are read by several parts of a program.
static PIPES: Mutex<BTreeMap<PathBuf, Arc<[u8]>>> = Mutex::new(BTreeMap::new());

/// What a text is read from.
#[derive(Debug)]
enum Bytes {
    File(File),
    Pipe(Cursor<Arc<[u8]>>),
}

impl Read for Bytes {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Bytes::File(file) => file.read(bytes),
            Bytes::Pipe(text) => text.read(bytes),
        }
    }
}

impl Seek for Bytes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Bytes::File(file) => file.seek(to),
            Bytes::Pipe(text) => text.seek(to),
        }
    }
}

/// A text file in UTF-8, hashed while it is read; of `-` and other pipes what comes from them.
#[derive(Debug)]
pub struct TextFile {
    file: Bytes,
    path: PathBuf,
    hash: Sha256,
    /// Bytes that have become text.
    offset: u64,
    /// Bytes that have not: the beginning of a character.
    pending: Vec<u8>,
    /// Whether it was opened in the middle of a line.
    cut: bool,
}

impl TextFile {
    /// Opens the text at `path`. A pipe is read to its end; stdin is `-`.
    ///
    /// # Errors
    /// When there is no such file, it is a directory or a disk, or a pipe has more than [`MAX_WHOLE_BYTES`].
    pub fn open(path: &Path) -> Result<TextFile> {
        TextFile::open_behind(Sha256::new(), path)
    }

    /// Opens the text at `path`, to be hashed behind the texts that `hash` has seen.
    ///
    /// # Errors
    /// As [`TextFile::open`].
    pub fn open_behind(hash: Sha256, path: &Path) -> Result<TextFile> {
        let file = open_bytes(path)?;
        Ok(TextFile { file, path: path.to_owned(), hash, offset: 0, pending: Vec::new(), cut: false })
    }

    /// Opens the text at `path` behind the first end of a line that is at byte `at` or behind it; behind 64 KiB without
    /// one, in the middle of a line. What is before it is not hashed and need not be UTF-8.
    ///
    /// # Errors
    /// As [`TextFile::open`].
    pub fn open_within(path: &Path, at: u64) -> Result<TextFile> {
        let mut file = TextFile::open(path)?;
        file.file.seek(SeekFrom::Start(at)).map_err(|e| RuntimeError::io(path, "read", e))?;
        let mut bytes = Vec::new();
        while bytes.len() < PIECE {
            let begin = bytes.len();
            bytes.resize(PIECE, 0);
            let n = file.read(&mut bytes[begin..])?;
            bytes.truncate(begin + n);
            if n == 0 {
                break;
            }
        }
        let end = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        // Bytes that go on with a character have the two highest bits 10 (RFC 3629).
        let inside = || bytes.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(bytes.len());
        let begin = end.unwrap_or_else(inside);
        (file.offset, file.cut) = (at + begin as u64, end.is_none() && !bytes.is_empty());
        file.pending = bytes.split_off(begin);
        Ok(file)
    }

    /// Where in the file the next piece begins.
    pub fn begin(&self) -> u64 {
        self.offset
    }

    /// Whether it was [opened](TextFile::open_within) in the middle of a line.
    pub fn begins_within_a_line(&self) -> bool {
        self.cut
    }

    /// Bytes that were read so far, in pieces.
    pub fn bytes_read(&self) -> u64 {
        self.offset + self.pending.len() as u64
    }

    /// How long it is.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn size(&self) -> Result<u64> {
        match &self.file {
            Bytes::File(file) => {
                Ok(file.metadata().map_err(|e| RuntimeError::io(&self.path, "read", e))?.len())
            }
            Bytes::Pipe(text) => Ok(text.get_ref().len() as u64),
        }
    }

    /// The hash of the whole file, of which the rest is read for it. The rest need not be UTF-8.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn into_hash(mut self) -> Result<Sha256> {
        let mut bytes = vec![0; PIECE];
        while self.read(&mut bytes)? > 0 {}
        Ok(self.hash)
    }

    /// The hash of the whole file in hexadecimal.
    ///
    /// # Errors
    /// As [`TextFile::into_hash`].
    pub fn into_sha256(self) -> Result<String> {
        Ok(hex(&self.into_hash()?.finalize()))
    }

    /// The rest of the text, where it is short.
    ///
    /// # Errors
    /// When it cannot be read, is not UTF-8, or has more than [`MAX_WHOLE_BYTES`].
    pub fn into_text(mut self) -> Result<String> {
        let mut text = String::new();
        while self.read_piece(&mut text)? {
            if text.len() > MAX_WHOLE_BYTES {
                let expected =
                    format!("a text of at most {MAX_WHOLE_BYTES} bytes, as all of it is needed at once");
                return Err(RuntimeError::bad_input(&self.path, "the text", expected, "a longer one"));
            }
        }
        Ok(text)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        loop {
            match self.file.read(bytes) {
                Ok(n) => {
                    self.hash.update(&bytes[..n]);
                    return Ok(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(RuntimeError::io(&self.path, "read", e)),
            }
        }
    }

    /// A text that is none, and looks like one.
    fn refuse_pointer(&self) -> Result<()> {
        match lfs_pointer(&self.pending) {
            Some(found) => Err(RuntimeError::bad_input(&self.path, "the text", "the file itself", found)),
            None => Ok(()),
        }
    }

    /// Moves what is whole characters from `pending` to `text`; false where there is none yet.
    fn take_text(&mut self, text: &mut String) -> Result<bool> {
        let valid = match str::from_utf8(&self.pending) {
            Ok(all) => all.len(),
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            Err(e) => return Err(self.not_utf8(e.valid_up_to())),
        };
        text.push_str(str::from_utf8(&self.pending[..valid]).unwrap_or_default());
        self.pending.drain(..valid);
        self.offset += valid as u64;
        Ok(valid > 0)
    }

    fn not_utf8(&self, at: usize) -> RuntimeError {
        let place = format!("offset {}", self.offset + at as u64);
        RuntimeError::bad_input(&self.path, place, "UTF-8 text", format!("byte {:#04x}", self.pending[at]))
    }
}

impl TextSource for TextFile {
    fn read_piece(&mut self, text: &mut String) -> Result<bool> {
        if !self.pending.is_empty() && self.take_text(text)? {
            return Ok(true);
        }
        let mut bytes = vec![0; PIECE];
        loop {
            let n = self.read(&mut bytes)?;
            if n == 0 {
                return if self.pending.is_empty() { Ok(false) } else { Err(self.not_utf8(0)) };
            }
            self.pending.extend(&bytes[..n]);
            if self.offset == 0 {
                self.refuse_pointer()?;
            }
            if self.take_text(text)? {
                return Ok(true);
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

fn open_bytes(path: &Path) -> Result<Bytes> {
    if path == Path::new("-") {
        return pipe(path, &mut io::stdin().lock());
    }
    let found = std::fs::metadata(path).map_err(|e| RuntimeError::io(path, "read", e))?;
    let open = || File::open(path).map_err(|e| RuntimeError::io(path, "open", e));
    if found.is_file() {
        return Ok(Bytes::File(open()?));
    }
    if !is_pipe(&found) {
        let found = if found.is_dir() { "a directory" } else { "a device" };
        return Err(RuntimeError::bad_input(path, "the text", "a file or a pipe", found));
    }
    pipe(path, &mut open()?)
}

/// Whether something can be read to its end although it is no file. A device such as a terminal can, but not all can.
fn is_pipe(found: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = found.file_type();
        kind.is_fifo() || kind.is_socket() || kind.is_char_device()
    }
    #[cfg(not(unix))]
    {
        !found.is_dir()
    }
}

/// All that comes from a pipe, which is read at the first call.
fn pipe(path: &Path, from: &mut dyn Read) -> Result<Bytes> {
    let mut pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
    let text = match pipes.get(path) {
        Some(text) => text.clone(),
        None => {
            let mut bytes = Vec::new();
            let most = MAX_WHOLE_BYTES as u64;
            from.take(most + 1).read_to_end(&mut bytes).map_err(|e| RuntimeError::io(path, "read", e))?;
            if bytes.len() as u64 > most {
                let expected = format!("at most {most} bytes from a pipe");
                return Err(RuntimeError::bad_input(
                    path,
                    "the text",
                    expected,
                    "more; write it to a file first",
                ));
            }
            let text: Arc<[u8]> = bytes.into();
            pipes.insert(path.to_owned(), text.clone());
            text
        }
    };
    Ok(Bytes::Pipe(Cursor::new(text)))
}

/// Reads a short text file as a whole.
///
/// # Errors
/// Those of [`TextFile::open`] and [`TextFile::into_text`].
pub fn read_text(path: &Path) -> Result<String> {
    TextFile::open(path)?.into_text()
}

/// The lines of a text, without their ends.
#[derive(Debug)]
pub struct Lines<S> {
    source: S,
    /// What was read, of which `taken` bytes were given out.
    text: String,
    taken: usize,
    number: usize,
}

impl<S: TextSource> Lines<S> {
    /// The lines of `source` from where it stands.
    pub fn new(source: S) -> Lines<S> {
        Lines { source, text: String::new(), taken: 0, number: 0 }
    }

    /// The next line with its number, the first of which is 1.
    ///
    /// # Errors
    /// Those of the source, and when a line has more than [`MAX_WHOLE_BYTES`].
    pub fn next_line(&mut self) -> Result<Option<(usize, &str)>> {
        let mut searched = self.taken;
        let (from, to, next) = loop {
            if let Some(at) = self.text[searched..].find('\n') {
                break (self.taken, searched + at, searched + at + 1);
            }
            self.text.drain(..self.taken);
            (searched, self.taken) = (self.text.len(), 0);
            if searched > MAX_WHOLE_BYTES {
                let expected = format!("a line of at most {MAX_WHOLE_BYTES} bytes");
                let place = format!("line {}", self.number + 1);
                return Err(RuntimeError::bad_input(self.source.path(), place, expected, "a longer one"));
            }
            if !self.source.read_piece(&mut self.text)? {
                if self.text.is_empty() {
                    return Ok(None);
                }
                break (0, self.text.len(), self.text.len());
            }
        };
        self.taken = next;
        self.number += 1;
        let line = &self.text[from..to];
        Ok(Some((self.number, line.strip_suffix('\r').unwrap_or(line))))
    }

    /// The source, to which the rest of the text belongs.
    pub fn into_source(self) -> S {
        self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(path: &Path) -> Result<(String, Sha256)> {
        let mut file = TextFile::open(path)?;
        let mut text = String::new();
        while file.read_piece(&mut text)? {}
        Ok((text, file.into_hash()?))
    }

    #[test]
    fn a_text_in_pieces_is_the_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        // Characters of all lengths lie across the ends of pieces.
        for shift in 0..4 {
            let text = "a".repeat(shift) + &"a\u{e9}\u{20ac}\u{1f980}".repeat(3 * PIECE / 10);
            std::fs::write(&path, &text).unwrap();
            let (found, hash) = pieces(&path).unwrap();
            assert!(found == text, "{shift}");
            assert_eq!(hash.finalize(), Sha256::digest(&text));
            let mut memory = TextInMemory::new(&text, &path);
            let mut found = String::new();
            while memory.read_piece(&mut found).unwrap() {}
            assert!(found == text, "{shift}");
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(pieces(&path).unwrap().0, "");
    }

    #[test]
    fn the_first_bad_byte_is_named_wherever_it_stands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        for (length, bad) in [(2, &b"\xff"[..]), (PIECE - 1, b"\xe2\x82("), (2 * PIECE, b"\xe2\x82")] {
            std::fs::write(&path, [&vec![b'a'; length][..], bad].concat()).unwrap();
            let error = pieces(&path).unwrap_err().to_string();
            let expected = format!("offset {length}");
            assert!(error.contains(&expected) && error.contains(&format!("{:#04x}", bad[0])), "{error}");
        }
        assert!(pieces(dir.path()).unwrap_err().to_string().contains("a directory"));
    }

    #[test]
    fn the_hash_is_of_all_bytes_even_where_only_the_first_were_needed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let text = [&vec![b'a'; 3 * PIECE][..], b"\xff"].concat();
        std::fs::write(&path, &text).unwrap();
        let mut file = TextFile::open(&path).unwrap();
        assert!(file.read_piece(&mut String::new()).unwrap());
        let hash = TextFile::open_behind(file.into_hash().unwrap(), &path).unwrap().into_hash().unwrap();
        assert_eq!(hash.finalize(), Sha256::digest([&text[..], &text].concat()));
    }

    #[test]
    fn a_text_from_its_middle_on_begins_with_a_line_or_a_character() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let rest = |at| {
            let (mut file, mut text) = (TextFile::open_within(&path, at).unwrap(), String::new());
            while file.read_piece(&mut text).unwrap() {}
            text
        };
        // What is not asked for need not be text.
        std::fs::write(&path, b"\xff\xffone\ntwo\n\xe2\x82\xacthree").unwrap();
        assert_eq!(
            [rest(1), rest(5), rest(6)],
            ["two\n\u{20ac}three", "two\n\u{20ac}three", "\u{20ac}three"]
        );
        assert_eq!([rest(11), rest(13), rest(99)], ["three", "three", ""]);
        let long = format!("{}\n{}", "\u{20ac}".repeat(PIECE), "x".repeat(2 * PIECE));
        std::fs::write(&path, &long).unwrap();
        assert!(rest(1) == long[3..]);
        assert!(rest(3 * PIECE as u64 - 9) == long[3 * PIECE + 1..]);
    }

    #[test]
    fn lines_are_those_of_the_standard_library() {
        let long = "x".repeat(PIECE);
        for text in ["", "a", "a\n", "\n\na\r\nb\r", &format!("{long}\n{long}{long}\r\n\nc")] {
            let mut lines = Lines::new(TextInMemory::new(text, Path::new("text")));
            let mut found = Vec::new();
            while let Some((number, line)) = lines.next_line().unwrap() {
                found.push(line.to_owned());
                assert_eq!(number, found.len());
            }
            // The last line keeps a lone \r there.
            let expected: Vec<&str> =
                text.lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
            assert!(found == expected, "{found:.99?}");
        }
    }
}
