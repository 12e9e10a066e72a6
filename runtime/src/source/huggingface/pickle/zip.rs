//! The directory of a zip file whose entries are stored as they are, read in place. Written after PKWARE's APPNOTE.TXT
//! 6.3.10; section numbers below are its. Whatever two readers could understand differently is refused.

use std::ops::Range;
use std::path::Path;

use qsf_format::printable::quote;

use super::advice::RESAVE;
use crate::error::{Result, RuntimeError};

/// Bytes of the end record without its comment (4.3.16), of the zip64 locator (4.3.15) and end record (4.3.14).
const END_BYTES: usize = 22;
const LOCATOR_BYTES: usize = 20;
const END64_BYTES: usize = 56;
/// Bytes of the fixed part of an entry of the directory (4.3.12).
const ENTRY_BYTES: usize = 46;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR: u32 = 0x0706_4b50;

/// Stands for "see the zip64 field" (4.4.1.4).
const SEE_64: u32 = u32::MAX;
/// Id of that field (4.5.3).
const ZIP64: u16 = 1;

/// Bits of the flags (4.4.4) that change nothing about stored bytes: 1 and 2 are hints of a compressor, 11 says that the
/// name is UTF-8.
const HARMLESS_FLAGS: u16 = 1 << 1 | 1 << 2 | 1 << 11;
/// Size and checksum stand behind the data and may be 0 in the local header.
const SIZES_FOLLOW: u16 = 1 << 3;

/// The entries of a zip file.
#[derive(Debug)]
pub(super) struct Archive<'a> {
    path: &'a Path,
    file: &'a [u8],
    /// By name.
    entries: Vec<Entry<'a>>,
}

/// A stored file.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// Relative, with `/` between its parts.
    pub name: &'a str,
    /// Its bytes in the zip file; inside of it, and no other entry's.
    pub range: Range<usize>,
    crc: u32,
}

impl<'a> Archive<'a> {
    /// Reads the directory of `file` and compares it with what stands before each entry.
    ///
    /// # Errors
    /// The file is not a zip file, is damaged, or has an entry that is compressed, encrypted, hidden under another, or
    /// named like another or like a path out of the archive.
    pub fn read(path: &'a Path, file: &'a [u8]) -> Result<Archive<'a>> {
        let (directory, count) = find_directory(path, file)?;
        let mut rest = Cursor(&file[directory.clone()]);
        // `find_directory` has seen to it that so many entries fit.
        let mut entries = Vec::with_capacity(count);
        let mut taken = Vec::with_capacity(count);
        for i in 0..count {
            let (entry, whole) = read_entry(path, file, directory.start, i, &mut rest)?;
            taken.push(whole);
            entries.push(entry);
        }
        if !rest.0.is_empty() {
            let found = format!("{} bytes more", rest.0.len());
            return Err(damaged(path, format!("nothing after its {count} entries"), found));
        }
        check_tiling(path, taken, directory.start)?;
        entries.sort_unstable_by_key(|entry| entry.name);
        if let Some(two) = entries.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(damaged(path, "each name once", format!("{} twice", quote(two[0].name))));
        }
        Ok(Archive { path, file, entries })
    }

    /// All entries, by name.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// The entry of this name.
    pub fn find(&self, name: &str) -> Option<&Entry<'a>> {
        let at = self.entries.binary_search_by_key(&name, |entry| entry.name).ok()?;
        self.entries.get(at)
    }

    /// The bytes of a small entry, compared with its checksum. torch can be told not to compute checksums and writes 0
    /// then (`torch.serialization.set_crc32_options`).
    pub fn checked(&self, entry: &Entry<'a>) -> Result<&'a [u8]> {
        let bytes = &self.file[entry.range.clone()];
        let crc = crc32fast::hash(bytes);
        if entry.crc != 0 && entry.crc != crc {
            let (expected, found) = (format!("CRC32 {:08x}", entry.crc), format!("{crc:08x}"));
            return Err(RuntimeError::bad_input(self.path, place(entry.name), expected, found));
        }
        Ok(bytes)
    }
}

/// Every byte before the directory must belong to one entry. An entry inside of another could be two things at once, and a
/// gap is what is left where a header lies about its length.
fn check_tiling(path: &Path, mut entries: Vec<Range<usize>>, directory: usize) -> Result<()> {
    entries.sort_unstable_by_key(|entry| (entry.start, entry.end));
    entries.push(directory..directory);
    let mut end = 0;
    for entry in entries {
        if entry.start != end {
            let found = format!("one that ends at byte {end}, and the next at {}", entry.start);
            return Err(damaged(path, "entries one after the other", found));
        }
        end = entry.end;
    }
    Ok(())
}

fn place(name: &str) -> String {
    format!("zip entry {}", quote(name))
}

fn damaged(path: &Path, expected: impl ToString, found: impl ToString) -> RuntimeError {
    RuntimeError::bad_input(path, "zip directory", expected, found)
}

/// Where the entries of the directory are, and how many: they fit in there. The records at the end of a file must
/// follow each other without gap or comment, as torch writes them.
fn find_directory(path: &Path, file: &[u8]) -> Result<(Range<usize>, usize)> {
    let cut =
        |found: &str| damaged(path, "a complete zip file, its end record as the last thing in it", found);
    let no_end = || cut("none: the file is cut off, or has something behind it");
    let end_at = file.len().checked_sub(END_BYTES).ok_or_else(no_end)?;
    let mut end = Cursor(&file[end_at..]);
    if end.u32() != Some(END) {
        return Err(no_end());
    }
    let mut read =
        || Some((end.u16()?, end.u16()?, end.u16()?, end.u16()?, end.u32()?, end.u32()?, end.u16()?));
    let (disk, first_disk, here, count, bytes, offset, comment) = read().ok_or_else(no_end)?;
    if (disk, first_disk, comment) != (0, 0, 0) || here != count {
        return Err(cut("one of several volumes, or one with a comment"));
    }
    let mut directory = (u64::from(count), u64::from(bytes), u64::from(offset), end_at);
    if let Some((count64, bytes64, offset64, at)) = find_zip64(path, file, end_at)? {
        let same = (count == u16::MAX || u64::from(count) == count64)
            && (bytes == SEE_64 || u64::from(bytes) == bytes64)
            && (offset == SEE_64 || u64::from(offset) == offset64);
        if !same {
            return Err(damaged(path, "the same in both end records", "two directories"));
        }
        directory = (count64, bytes64, offset64, at);
    }
    let (count, bytes, offset, ends_at) = directory;
    let fits = count.checked_mul(ENTRY_BYTES as u64).is_some_and(|least| least <= bytes)
        && offset.checked_add(bytes) == Some(ends_at as u64);
    if !fits {
        let found = format!("{count} entries in {bytes} bytes at byte {offset}");
        return Err(damaged(path, format!("entries that end at byte {ends_at}"), found));
    }
    // Both are at most `ends_at`, a place in the file.
    Ok((offset as usize..ends_at, count as usize))
}

/// Count, bytes, offset and end of the directory as the zip64 records have it, where there are any.
fn find_zip64(path: &Path, file: &[u8], end_at: usize) -> Result<Option<(u64, u64, u64, usize)>> {
    let wrong = |found: &str| damaged(path, "a zip64 end record before the end record", found);
    let Some(locator_at) = end_at.checked_sub(LOCATOR_BYTES) else { return Ok(None) };
    let mut locator = Cursor(&file[locator_at..end_at]);
    if locator.u32() != Some(LOCATOR) {
        return Ok(None);
    }
    let located = (locator.u32(), locator.u64(), locator.u32());
    let at = locator_at.checked_sub(END64_BYTES).ok_or_else(|| wrong("nothing"))?;
    if located != (Some(0), Some(at as u64), Some(1)) {
        return Err(wrong("one elsewhere, or several volumes"));
    }
    let mut end = Cursor(&file[at..locator_at]);
    let (signature, size, _versions) = (end.u32(), end.u64(), end.u32());
    if (signature, size) != (Some(END64), Some(END64_BYTES as u64 - 12)) {
        return Err(wrong("another record, or one of another size"));
    }
    let mut read = || Some((end.u32()?, end.u32()?, end.u64()?, end.u64()?, end.u64()?, end.u64()?));
    let (disk, first_disk, here, count, bytes, offset) = read().ok_or_else(|| wrong("nothing"))?;
    if (disk, first_disk) != (0, 0) || here != count {
        return Err(wrong("one of several volumes"));
    }
    Ok(Some((count, bytes, offset, at)))
}

/// An entry of the directory (4.3.12).
struct Central<'a> {
    flags: u16,
    method: u16,
    crc: u32,
    stored: u64,
    size: u64,
    disk: u16,
    offset: u64,
    name: &'a [u8],
}

/// The `i`th entry, at `rest`, and all bytes that are its own: local header, data, descriptor.
fn read_entry<'a>(
    path: &Path,
    file: &'a [u8],
    limit: usize,
    i: usize,
    rest: &mut Cursor<'a>,
) -> Result<(Entry<'a>, Range<usize>)> {
    let central = read_central(rest)
        .ok_or_else(|| damaged(path, format!("entry {i}, complete"), "one that is cut off or malformed"))?;
    let name = str::from_utf8(central.name)
        .map_err(|_| damaged(path, format!("a name in UTF-8 for entry {i}"), "other bytes"))?;
    let wrong = |expected: &str, found: String| RuntimeError::bad_input(path, place(name), expected, found);
    let unsupported = |what: String| {
        RuntimeError::unsupported(path, what, format!("torch.save stores entries as they are; {RESAVE}"))
    };
    if !is_inside(name) {
        return Err(wrong("a relative name without \"..\"", quote(name)));
    }
    if central.method != 0 {
        return Err(unsupported(format!("compression (method {}) of {}", central.method, place(name))));
    }
    let others = central.flags & !(HARMLESS_FLAGS | SIZES_FOLLOW);
    if others != 0 {
        return Err(unsupported(format!(
            "encryption or another feature (flags {others:#x}) of {}",
            place(name)
        )));
    }
    if central.disk != 0 {
        return Err(unsupported(format!("another volume, with {},", place(name))));
    }
    if central.stored != central.size {
        let found = format!("{} stored", central.stored);
        return Err(wrong(&format!("{} bytes, as they are not compressed", central.size), found));
    }
    let start = usize::try_from(central.offset).ok().filter(|&start| start <= limit);
    let mut local = Cursor(start.and_then(|start| file.get(start..limit)).unwrap_or_default());
    let before = local.0.len();
    check_local(&mut local, &central)
        .map_err(|found| wrong("what the directory says before its data", found.to_owned()))?;
    let header = before - local.0.len();
    let size = usize::try_from(central.size).ok().filter(|&size| size <= local.0.len()).ok_or_else(|| {
        wrong(&format!("{} bytes of data", central.size), format!("{} before the directory", local.0.len()))
    })?;
    let mut behind = Cursor(&local.0[size..]);
    if central.flags & SIZES_FOLLOW != 0 && !skip_descriptor(&mut behind, &central) {
        return Err(wrong("the same size and checksum behind its data", "another descriptor".to_owned()));
    }
    // No sum is beyond `limit`.
    let start = limit - before;
    let range = start + header..start + header + size;
    Ok((Entry { name, crc: central.crc, range }, start..limit - behind.0.len()))
}

/// Whether a name stays in the archive wherever it is unpacked. Nothing is unpacked here: such an archive was made to
/// harm another reader.
fn is_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('\\')
        && !name.contains(char::is_control)
        && name
            .split('/')
            .enumerate()
            .all(|(i, part)| part != ".." && part != "." && (i > 0 || !part.is_empty()))
}

fn read_central<'a>(rest: &mut Cursor<'a>) -> Option<Central<'a>> {
    if rest.u32()? != CENTRAL {
        return None;
    }
    let (_made_by, _needed) = (rest.u16()?, rest.u16()?);
    let (flags, method, _time, crc) = (rest.u16()?, rest.u16()?, rest.u32()?, rest.u32()?);
    let (stored, size) = (rest.u32()?, rest.u32()?);
    let (name_bytes, extra_bytes, comment_bytes) = (rest.u16()?, rest.u16()?, rest.u16()?);
    let (disk, _attributes, _more_attributes, offset) = (rest.u16()?, rest.u16()?, rest.u32()?, rest.u32()?);
    let name = rest.take(name_bytes.into())?;
    let mut extra = Cursor(rest.take(extra_bytes.into())?);
    rest.take(comment_bytes.into())?;
    let mut wide = None;
    while !extra.0.is_empty() {
        let (id, bytes) = (extra.u16()?, extra.u16()?);
        let field = extra.take(bytes.into())?;
        if id == ZIP64 && wide.replace(Cursor(field)).is_some() {
            return None;
        }
    }
    // The field has the values that do not fit, in this order, and no other (4.5.3).
    let mut wide = wide.unwrap_or(Cursor(&[]));
    let mut widened = |value: u32| if value == SEE_64 { wide.u64() } else { Some(value.into()) };
    let (size, stored, offset) = (widened(size)?, widened(stored)?, widened(offset)?);
    wide.0.is_empty().then_some(Central { flags, method, crc, stored, size, disk, offset, name })
}

/// Reads up to the data. Extra fields are skipped: torch pads with one, and its zip64 field has what the directory
/// needs.
fn check_local(local: &mut Cursor, central: &Central) -> Result<(), &'static str> {
    if local.u32() != Some(LOCAL) {
        return Err("no header of an entry");
    }
    let mut read = || {
        let (_needed, flags, method, _time) = (local.u16()?, local.u16()?, local.u16()?, local.u32()?);
        let (crc, stored, size) = (local.u32()?, local.u32()?, local.u32()?);
        let (name_bytes, extra_bytes) = (local.u16()?, local.u16()?);
        let name = local.take(name_bytes.into())?;
        local.take(extra_bytes.into())?;
        Some((flags, method, crc, [stored, size], name))
    };
    let (flags, method, crc, sizes, name) = read().ok_or("a header that is cut off")?;
    if (flags, method) != (central.flags, central.method) {
        return Err("other flags or another compression");
    }
    if name != central.name {
        return Err("another name");
    }
    let follows = flags & SIZES_FOLLOW != 0;
    if crc != central.crc && !(follows && crc == 0) {
        return Err("another checksum");
    }
    let same = |size: u32| u64::from(size) == central.size || size == SEE_64 || (follows && size == 0);
    if sizes.into_iter().all(same) { Ok(()) } else { Err("another size") }
}

/// Reads the descriptor behind the data (4.3.9): checksum and sizes again, with 4 or 8 bytes each.
fn skip_descriptor(behind: &mut Cursor, central: &Central) -> bool {
    if (behind.u32(), behind.u32()) != (Some(DESCRIPTOR), Some(central.crc)) {
        return false;
    }
    let (mut narrow, mut wide) = (*behind, *behind);
    let same = Some(central.size);
    if (wide.u64(), wide.u64()) == (same, same) {
        *behind = wide;
        return true;
    }
    let is_narrow = (narrow.u32().map(u64::from), narrow.u32().map(u64::from)) == (same, same);
    *behind = narrow;
    is_narrow
}

/// Reads little-endian numbers from the front.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
