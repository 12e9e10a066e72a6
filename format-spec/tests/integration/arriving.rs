//! Files that arrive in pieces.

use std::fs;
use std::path::Path;

use qsf_format::{ArrivingFile, Compression, FormatError, Wanted, verify, verify_file};

use crate::small_file;

/// Reads what is wanted, and gives how many requests that took.
fn read(file: &mut ArrivingFile, bytes: &[u8], wanted: Wanted) -> Result<usize, FormatError> {
    let mut requests = 0;
    while let Some(range) = file.next_range(wanted)? {
        let part = &bytes[range.start as usize..range.end as usize];
        assert!(!part.is_empty(), "a request for nothing");
        file.room(range.clone()).unwrap().copy_from_slice(part);
        file.arrived(range);
        requests += 1;
    }
    Ok(requests)
}

#[test]
fn a_file_is_described_by_a_part_of_it_and_the_rest_may_follow() {
    let dir = tempfile::tempdir().unwrap();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let path = dir.path().join(compression.name());
        small_file::write(&path, compression).unwrap();
        let bytes = fs::read(&path).unwrap();
        let mut file = ArrivingFile::new(&path, bytes.len() as u64).unwrap();
        read(&mut file, &bytes, Wanted::Description).unwrap();
        let meta = file.look(|file| file.meta()).unwrap();
        assert_eq!(meta, Some(small_file::meta()));
        read(&mut file, &bytes, Wanted::All).unwrap();
        assert_eq!(file.arrived_bytes(), bytes.len() as u64);
        assert_eq!(verify_file(&file.into_file().unwrap()).unwrap(), verify(&path).unwrap());
    }
}

#[test]
fn what_is_damaged_is_named_as_in_a_file_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.qsf");
    small_file::write(&path, Compression::Zstd).unwrap();
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 200) {
        let mut bytes = whole.clone();
        bytes[at] ^= 8;
        fs::write(&path, &bytes).unwrap();
        let mut file = ArrivingFile::new(Path::new(&path), bytes.len() as u64).unwrap();
        let arrived = read(&mut file, &bytes, Wanted::All).and_then(|_| verify_file(&file.into_file()?));
        let expected = verify(&path).map_err(|e| e.to_string());
        assert_eq!(arrived.map_err(|e| e.to_string()), expected, "byte {at}");
    }
}
