//! Parts of an evaluation as files, and all of them as one evaluation.
//!
//! A file is a line `QSF-EVALUATION-PART 1 HASH`, with 1 the version and HASH the SHA-256 of what follows in lower-case
//! hexadecimal, and then an [`EvaluationPart`] as JSON. Floats are written so that reading gives the same bits.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use qsf_format::{JsonLimits, PartialFile, from_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::MIN_CTX;
use super::sums::{EvaluatedChunks, Evaluation, evaluation_of};
use crate::error::{Result, RuntimeError};
use crate::file_hash::sha256;

const MAGIC: &str = "QSF-EVALUATION-PART 1 ";
/// Most bytes of a file: parts of 20 million scored positions have less.
const MAX_BYTES: u64 = 1 << 30;

/// What a part of an evaluation is of, and its sums.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationPart {
    /// What must be the same in all parts, or their figures would not be those of one evaluation.
    pub mark: Mark,
    /// What may differ between machines, such as names of files.
    pub notes: BTreeMap<String, Value>,
    /// The sums.
    pub sums: EvaluatedChunks,
}

/// What a part belongs to: fingerprints and options by name.
pub type Mark = BTreeMap<String, Value>;

impl EvaluationPart {
    /// Writes the file `path`, which gets its name when it is whole.
    ///
    /// # Errors
    /// When the file exists and `force` is off, or the system refuses.
    pub fn write(&self, path: &Path, force: bool) -> Result<()> {
        let refused = |e: serde_json::Error| RuntimeError::Request(format!("a part cannot be written: {e}"));
        let json = serde_json::to_vec(self).map_err(refused)?;
        let (mut target, mut file) = PartialFile::create(path, force)?;
        let head = format!("{MAGIC}{}\n", sha256(&json));
        let written = file.write_all(head.as_bytes()).and_then(|()| file.write_all(&json));
        written.map_err(|e| RuntimeError::io(target.partial(), "write", e))?;
        target.publish(&file)?;
        Ok(())
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is no whole part.
    pub fn open(path: &Path) -> Result<EvaluationPart> {
        let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
        let mut bytes = Vec::new();
        let mut read = |most: u64| {
            let read = (&file).take(most).read_to_end(&mut bytes);
            read.map(|_| bytes == MAGIC.as_bytes()).map_err(|e| RuntimeError::io(path, "read", e))
        };
        // What is no part may have no end.
        if read(MAGIC.len() as u64)? {
            read(MAX_BYTES)?;
        }
        if bytes.len() as u64 > MAX_BYTES {
            let expected = format!("at most {MAX_BYTES} bytes");
            return Err(RuntimeError::bad_input(path, "the size of the file", expected, "more"));
        }
        EvaluationPart::parse(path, &bytes)
    }

    /// The part that these bytes are; `path` is for messages.
    ///
    /// # Errors
    /// When they are no whole part.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<EvaluationPart> {
        let refuse = |place: &str, expected: &str, found: String| {
            Err(RuntimeError::bad_input(path, place, expected, found))
        };
        let Some(rest) = bytes.strip_prefix(MAGIC.as_bytes()) else {
            let expected = "a part of an evaluation that qsf-eval --part of this version wrote";
            return refuse("the start of the file", expected, "other bytes".into());
        };
        let Some((hash, json)) = rest
            .split_first_chunk::<64>()
            .and_then(|(hash, rest)| Some((std::str::from_utf8(hash).ok()?, rest.strip_prefix(b"\n")?)))
        else {
            return refuse("the first line", "a hash of 64 digits", "none".into());
        };
        let found = sha256(json);
        if hash != found {
            return refuse("the contents", &format!("SHA-256 {}", hash.escape_default()), found);
        }
        let part = from_json::<EvaluationPart>(json, JsonLimits::LIST);
        let part = match part {
            Ok(part) => part,
            Err(error) => return refuse("the contents", "a part of an evaluation", error),
        };
        match contradiction(&part.sums) {
            Some(found) => refuse("the sums", "those of whole chunks", found),
            None => Ok(part),
        }
    }
}

/// What is wrong with sums.
fn contradiction(sums: &EvaluatedChunks) -> Option<String> {
    let EvaluatedChunks { ctx, total, first, chunks, decoded, seconds } = sums;
    if *ctx < MIN_CTX {
        return Some(format!("chunks of {ctx} tokens"));
    }
    let end = first.checked_add(chunks.len()).filter(|end| end <= total);
    if end.is_none() || chunks.is_empty() {
        return Some(format!("{} chunks from {first} on, of {total}", chunks.len()));
    }
    let scored = ctx - 1 - ctx / 2;
    // So that no sum over all chunks can overflow.
    if scored.checked_mul(*total).is_none() {
        return Some(format!("{total} chunks of {ctx} tokens"));
    }
    let with_base = chunks[0].divergence.is_some();
    for (number, chunk) in (*first..).zip(chunks) {
        let divergence = chunk.divergence.as_ref();
        let compared = divergence.is_none_or(|d| {
            d.kl.len() == scored && d.same_top <= scored as u64 && d.kl.iter().all(|kl| *kl >= 0.0)
        });
        if chunk.count != scored || divergence.is_some() != with_base || !compared {
            return Some(format!("others, in chunk {number}"));
        }
    }
    let times = [Some(*seconds), decoded.map(|decoded| decoded.seconds)];
    times.into_iter().flatten().find(|time| *time < 0.0).map(|time| format!("a time of {time} s"))
}

/// All parts of an evaluation as one: the figures, to the bit those of one run, and the parts in the order of their chunks.
///
/// # Errors
/// When a file is no part, parts do not belong together, or a chunk is missing or comes twice.
pub fn join(paths: &[PathBuf]) -> Result<(Evaluation, Vec<EvaluationPart>)> {
    let mut parts = Vec::with_capacity(paths.len());
    for path in paths {
        parts.push((path.as_path(), EvaluationPart::open(path)?));
    }
    let Some((first, rest)) = parts.split_first() else {
        return Err(RuntimeError::Request("no part of an evaluation was named".into()));
    };
    for part in rest {
        belongs_to(first, part)?;
    }
    parts.sort_by_key(|(_, part)| part.sums.first);
    every_chunk_once(&parts)?;
    let sums: Vec<_> = parts.iter().map(|(_, part)| &part.sums).collect();
    let evaluation = evaluation_of(&sums)?;
    Ok((evaluation, parts.into_iter().map(|(_, part)| part).collect()))
}

type Named<'a> = (&'a Path, EvaluationPart);

/// # Errors
/// When `part` is of another evaluation than `first`.
fn belongs_to((first_path, first): &Named<'_>, (path, part): &Named<'_>) -> Result<()> {
    let facts = |part: &EvaluationPart| {
        let sums = &part.sums;
        let with_base = sums.chunks.iter().any(|chunk| chunk.divergence.is_some());
        let mut facts = part.mark.clone();
        facts.insert("tokens per chunk".into(), sums.ctx.into());
        facts.insert("number of chunks".into(), sums.total.into());
        facts.insert("comparison with a base".into(), with_base.into());
        facts.insert("decoding one by one".into(), sums.decoded.is_some().into());
        facts
    };
    let (expected, found) = (facts(first), facts(part));
    let Some(name) = expected.keys().chain(found.keys()).find(|name| expected.get(*name) != found.get(*name))
    else {
        return Ok(());
    };
    let value = |facts: &Mark| facts.get(name).map_or("none".to_owned(), Value::to_string);
    let expected = format!(
        "{}, as in {} (parts of one evaluation have the same model, base, text and options)",
        value(&expected),
        first_path.display()
    );
    Err(RuntimeError::bad_input(path, format!("its {name}"), expected, value(&found)))
}

/// # Errors
/// When parts, which are in order, overlap or leave chunks out.
fn every_chunk_once(parts: &[Named<'_>]) -> Result<()> {
    let mut end = 0;
    let mut last: Option<&Path> = None;
    for (path, part) in parts {
        let range = part.sums.range();
        if let Some(last) = last.filter(|_| range.start < end) {
            let place = format!("chunks {} to {}", range.start, range.end - 1);
            let found =
                format!("chunk {}, which {} has too: name every part once", range.start, last.display());
            return Err(RuntimeError::bad_input(path, place, "chunks that no other part has", found));
        }
        if range.start > end {
            return Err(missing(last.unwrap_or(path), part.sums.total, end..range.start));
        }
        (end, last) = (range.end, Some(*path));
    }
    match parts.last() {
        Some((path, part)) if end < part.sums.total => {
            Err(missing(path, part.sums.total, end..part.sums.total))
        }
        _ => Ok(()),
    }
}

/// Chunks that no part has; `path` is one that there is.
fn missing(path: &Path, total: usize, chunks: std::ops::Range<usize>) -> RuntimeError {
    let place = format!("the evaluation of {total} chunks that it is a part of");
    let found = format!("none with chunks {} to {}: name that as well", chunks.start, chunks.end - 1);
    RuntimeError::bad_input(path, place, "all parts", found)
}

#[cfg(test)]
mod tests {
    use super::super::divergence::DivergenceSums;
    use super::super::sums::{ChunkSums, Decoded};
    use super::*;

    const CTX: usize = 16;
    const SCORED: usize = 7;

    /// A part of an evaluation of `total` chunks whose values are any.
    fn part(range: std::ops::Range<usize>, total: usize) -> EvaluationPart {
        let value = |i: usize| ((i * 7_919) % 2_003) as f64 / 331.0 + 1e-9 / 3.0;
        let chunk = |number: usize| {
            let kl = (0..SCORED).map(|i| value(number * SCORED + i)).collect();
            let divergence = DivergenceSums {
                kl,
                same_top: (number % SCORED) as u64,
                delta_p: -value(number),
                delta_p_squared: value(number + 1),
                base_nll: value(number + 2),
            };
            let (nll, nll_squared) = (value(number + 3), 2.0 * value(number + 4));
            ChunkSums { count: SCORED, nll, nll_squared, divergence: Some(divergence) }
        };
        let sums = EvaluatedChunks {
            ctx: CTX,
            total,
            first: range.start,
            chunks: range.clone().map(chunk).collect(),
            decoded: Some(Decoded { layers: 100 * range.len() as u64, seconds: 1.5 }),
            seconds: 0.1,
        };
        let mark = [("model".to_owned(), Value::from("abc")), ("device".to_owned(), Value::from("cpu"))];
        EvaluationPart { mark: mark.into(), notes: BTreeMap::new(), sums }
    }

    fn sealed(part: &EvaluationPart) -> Vec<u8> {
        let json = serde_json::to_vec(part).unwrap();
        [format!("{MAGIC}{}\n", sha256(&json)).as_bytes(), &json].concat()
    }

    fn files(parts: &[EvaluationPart]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..parts.len()).map(|i| dir.path().join(format!("{i}.part"))).collect();
        parts.iter().zip(&paths).for_each(|(part, path)| part.write(path, false).unwrap());
        (dir, paths)
    }

    #[test]
    fn parts_in_any_order_give_the_bits_of_one_run() {
        let whole = part(0..11, 11);
        let (_dir, paths) = files(&[part(4..5, 11), part(5..11, 11), part(0..4, 11)]);
        let (joined, parts) = join(&paths).unwrap();
        let mut expected = whole.sums.evaluation().unwrap();
        assert!((joined.seconds - 0.3).abs() < 1e-9);
        assert_eq!(joined.decoding.unwrap().layers_per_token, 100.0 / SCORED as f64);
        (expected.seconds, expected.decoding) = (joined.seconds, joined.decoding);
        assert_eq!(joined, expected);
        assert_eq!(parts.iter().map(|part| part.sums.first).collect::<Vec<_>>(), [0, 4, 5]);
        assert_eq!(EvaluationPart::open(&paths[0]).unwrap(), part(4..5, 11));
    }

    #[test]
    fn what_is_missing_or_twice_or_of_another_evaluation_is_named() {
        let other = |change: &dyn Fn(&mut EvaluationPart)| {
            let mut part = part(2..5, 5);
            change(&mut part);
            part
        };
        let first = || part(0..2, 5);
        let without_base = |part: &mut EvaluationPart| {
            part.sums.chunks.iter_mut().for_each(|chunk| chunk.divergence = None);
        };
        for (parts, says) in [
            (vec![first()], "chunks 2 to 4"),
            (vec![part(2..5, 5)], "chunks 0 to 1"),
            (vec![first(), part(3..5, 5)], "chunks 2 to 2"),
            (vec![first(), first(), part(2..5, 5)], "which"),
            (vec![first(), part(1..5, 5)], "chunk 1, which"),
            (vec![first(), part(2..6, 6)], "number of chunks"),
            (
                vec![first(), other(&|part| part.mark.insert("model".into(), "xyz".into()).map_or((), drop))],
                "its model",
            ),
            (vec![first(), other(&|part| drop(part.mark.remove("device")))], "its device"),
            (vec![first(), other(&|part| drop(part.mark.insert("base".into(), 1.into())))], "its base"),
            (vec![first(), other(&without_base)], "comparison with a base"),
            (vec![first(), other(&|part| part.sums.decoded = None)], "decoding one by one"),
        ] {
            let (_dir, paths) = files(&parts);
            let error = join(&paths).unwrap_err();
            assert_eq!(error.failure().exit_code(), 3, "{error}");
            assert!(error.to_string().contains(says), "{says}: {error}");
        }
        assert_eq!(join(&[]).unwrap_err().failure().exit_code(), 2);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_never_a_panic() {
        let path = Path::new("damaged.part");
        let good = sealed(&part(1..3, 4));
        assert_eq!(EvaluationPart::parse(path, &good).unwrap(), part(1..3, 4));
        for cut in 0..good.len() {
            assert!(EvaluationPart::parse(path, &good[..cut]).is_err(), "{cut} bytes");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            assert!(EvaluationPart::parse(path, &bytes).is_err(), "bit of byte {at}");
        }
    }

    #[test]
    fn sums_that_contradict_themselves_are_refused_whatever_their_hash() {
        let changes: [&dyn Fn(&mut EvaluatedChunks); 10] = [
            &|sums| sums.ctx = 0,
            // Without a base nothing else says how many positions there are.
            &|sums| {
                sums.ctx = usize::MAX;
                let scored = sums.ctx / 2;
                sums.chunks.iter_mut().for_each(|chunk| (chunk.count, chunk.divergence) = (scored, None));
            },
            &|sums| sums.first = usize::MAX,
            &|sums| sums.total = 2,
            &|sums| sums.chunks.clear(),
            &|sums| sums.chunks[0].count += 1,
            &|sums| sums.chunks[1].divergence = None,
            &|sums| sums.chunks[1].divergence.as_mut().unwrap().kl.truncate(1),
            &|sums| sums.chunks[1].divergence.as_mut().unwrap().same_top = u64::MAX,
            &|sums| sums.seconds = -1.0,
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut part = part(1..3, 4);
            change(&mut part.sums);
            let error = EvaluationPart::parse(Path::new("a.part"), &sealed(&part)).unwrap_err().to_string();
            assert!(error.contains("a.part") && error.contains("sums"), "{i}: {error}");
        }
    }
}
