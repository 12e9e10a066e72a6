//! What people give instead of a model, told by its first bytes: what it is, and what to give.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use qsf_format::human_bytes;

/// Bytes that are looked at.
pub const START: u64 = 512;
/// How a pointer of Git-LFS begins (<https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>).
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Ends of names that browsers and download tools give unfinished files.
const UNFINISHED: [&str; 6] = [".incomplete", ".part", ".partial", ".crdownload", ".download", ".aria2"];

/// What a file is that is no model; `None` where that cannot be told.
///
/// # Errors
/// When it cannot be read.
pub fn no_model(path: &Path) -> io::Result<Option<String>> {
    let mut start = Vec::new();
    File::open(path)?.take(START).read_to_end(&mut start)?;
    let told = told_by_start(&start);
    Ok(if told.is_some() { unfinished_name(path).or(told) } else { None })
}

/// What a file is that has the name of an unfinished one.
pub fn unfinished_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let is_unfinished = UNFINISHED.iter().any(|end| name.ends_with(end));
    is_unfinished.then(|| "a file that has not ended, by its name; download it again".into())
}

/// What a file that begins so is, where it is no model.
fn told_by_start(start: &[u8]) -> Option<String> {
    // A character may be cut at the end of what was read.
    let (text, is_utf8) = match str::from_utf8(start) {
        Ok(text) => (text, true),
        Err(e) => (str::from_utf8(&start[..e.valid_up_to()]).unwrap_or_default(), e.error_len().is_none()),
    };
    let is_text = is_utf8 && !text.contains(|c: char| c.is_control() && !c.is_whitespace());
    let trimmed = text.trim_start_matches('\u{feff}').trim_start();
    let begins = |mark: &[u8]| start.starts_with(mark);
    let what = match () {
        () if start.is_empty() => "an empty file; download it again",
        () if begins(b"QSF1") || begins(b"GGUF") => return None,
        () if begins(LFS) => return lfs_pointer(start),
        () if begins(b"QSF-BASE-LOGPROBS") => "log-probabilities of a base; pass them to qsf-eval as --base",
        () if begins(b"QSF-EVALUATION-PART") => "a part of an evaluation; pass it to qsf-eval as --join",
        () if begins(b"PK\x03\x04") => "a file of torch or an archive; pass the directory of the model",
        () if begins(b"\x80") => "a file of torch; pass the directory of the model",
        () if begins(b"\x1f\x8b") || begins(b"\x28\xb5\x2f\xfd") || begins(b"BZh") || begins(b"\xfd7zXZ") => {
            "a compressed file; unpack it first"
        }
        () if start.get(257..262) == Some(b"ustar") => "an archive; unpack it first",
        () if start.get(8) == Some(&b'{') && !begins(b"{") => {
            "weights alone (safetensors); pass the directory that they are in"
        }
        () if trimmed.starts_with("<!") || trimmed.to_ascii_lowercase().starts_with("<html") => {
            "a web page; download the file itself (its link has /resolve/ in it, not /blob/)"
        }
        () if trimmed.starts_with(['{', '[']) => {
            "JSON; pass the directory of the model, or its file of weights"
        }
        () if start.iter().all(|byte| *byte == 0) => "nothing but zeros; download it again",
        () if is_text => "text; pass the model itself",
        () => return None,
    };
    Some(what.into())
}

/// What a pointer of Git-LFS stands for; `None`: these are not the bytes of one.
pub fn lfs_pointer(start: &[u8]) -> Option<String> {
    if !start.starts_with(LFS) {
        return None;
    }
    let text = str::from_utf8(start).unwrap_or_default();
    let bytes = text.lines().find_map(|line| line.strip_prefix("size ")?.trim().parse::<u64>().ok());
    let of = bytes.map_or_else(String::new, |bytes| format!(" to a file of {}", human_bytes(bytes)));
    Some(format!("a Git-LFS pointer{of}; download the file itself: git lfs pull"))
}

/// What is said of a file that has fewer bytes than it says.
pub fn cut_short(bytes: u64) -> String {
    format!("{bytes} bytes: it was cut short; download or copy it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_give_is_told_by_its_first_bytes() {
        let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4400000000\n";
        assert_eq!(
            told_by_start(lfs).unwrap(),
            "a Git-LFS pointer to a file of 4.40 GB; download the file itself: git lfs pull"
        );
        let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
        for (start, says) in [
            (&b""[..], "an empty file"),
            (b"{\"a\": 1}", "JSON"),
            (b"\n [1]", "JSON"),
            (b"\x60\0\0\0\0\0\0\0{\"__metadata__\"", "safetensors"),
            (b"PK\x03\x04\0\0", "torch"),
            (b"QSF-BASE-LOGPROBS 1 ", "--base"),
            (b"\x80\x02\x8a\x0a", "torch"),
            (b"<!doctype html>", "a web page"),
            (b"<HTML>404", "a web page"),
            (b"\x1f\x8b\x08", "compressed"),
            (&tar, "archive"),
            (&[0; 64], "zeros"),
            (b"Once upon a time there was", "text"),
            (b"QSF1\x02\x00\xff\xfe\x00", ""),
            (b"\x12\x34\xff\x56", ""),
        ] {
            let told = told_by_start(start).unwrap_or_default();
            assert!(told.contains(says) && told.is_empty() == says.is_empty(), "{start:?}: {told}");
        }
    }
}
