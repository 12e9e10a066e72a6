//! Makes the checksums of files beside QSF files right again: of statistics, of parts of evaluations, and of saved bases.

use qsf_runtime::file_hash::sha256;

/// Repairs the checksums of a statistics file: those of header and records.
pub fn reseal_statistics(bytes: &mut [u8]) {
    let _ = reseal_records(bytes);
}

/// The file of a part of an evaluation that has these contents, with their hash.
pub fn sealed_part(contents: &[u8]) -> Vec<u8> {
    let line = format!("QSF-EVALUATION-PART 1 {}\n", sha256(contents));
    [line.as_bytes(), contents].concat()
}

/// The beginning of a saved base that says this, with its hash and length.
pub fn sealed_base(json: &[u8]) -> Vec<u8> {
    let line = format!("QSF-BASE-LOGPROBS 1 {} {:010}\n", sha256(json), json.len());
    [line.as_bytes(), json].concat()
}

fn reseal_records(bytes: &mut [u8]) -> Option<()> {
    let mut start = 0;
    let mut end = 48 + 40 * get32(bytes, 12)?.min(64) as usize;
    loop {
        let crc = crc32fast::hash(bytes.get(start..end)?);
        put32(bytes, end, crc)?;
        start = end + 4;
        let cols = get32(bytes, start + 12)? as usize;
        let body = match (bytes.get(start + 4)?, bytes.get(start + 5)?) {
            (254, _) => 8,
            (_, 1) => 16 * cols + cols.checked_mul(cols + 1)?.checked_mul(2)?,
            _ => 16 * cols,
        };
        end = start.checked_add(24)?.checked_add(body)?;
    }
}

fn get32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put32(bytes: &mut [u8], at: usize, value: u32) -> Option<()> {
    bytes.get_mut(at..)?.first_chunk_mut::<4>().map(|place| *place = value.to_le_bytes())
}
