//! The head of a statistics file: what the statistics are of.

use std::io::Read;

use qsf_runtime::fingerprint::Hash;

use super::record::Malformed;

const MAGIC: [u8; 8] = *b"QSFSTATS";
const VERSION: u32 = 1;
/// Most texts of a file: a number beyond it is damage.
const MAX_TEXTS: u32 = 1 << 20;

/// What statistics are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsHeader {
    /// [Fingerprint](qsf_runtime::fingerprint::model_fingerprint) of the model.
    pub model: Hash,
    /// The texts whose sums are added up.
    pub texts: Vec<TextMark>,
}

/// A text that went through the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextMark {
    /// [Fingerprint](qsf_runtime::fingerprint::text_fingerprint) of its tokens.
    pub hash: Hash,
    /// How many they are.
    pub tokens: u64,
}

impl StatsHeader {
    /// Tokens of all texts.
    pub fn tokens(&self) -> u64 {
        self.texts.iter().fold(0, |sum, text| sum.saturating_add(text.tokens))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.texts.len() as u32).to_le_bytes());
        bytes.extend(self.model);
        for text in &self.texts {
            bytes.extend(text.hash);
            bytes.extend(text.tokens.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn read(from: &mut impl Read) -> Result<StatsHeader, Malformed> {
        let mut start = [0; 48];
        from.read_exact(&mut start)?;
        let (magic, rest) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Malformed::new("the start of the file", "QSFSTATS", "other bytes"));
        }
        let field = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let (version, texts) = (field(0), field(4));
        if version != VERSION {
            return Err(Malformed::new("the version of the file", VERSION, version));
        }
        if texts > MAX_TEXTS {
            return Err(Malformed::new("the number of texts", format!("at most {MAX_TEXTS}"), texts));
        }
        let mut hash = crc32fast::Hasher::new();
        hash.update(&start);
        let mut header = StatsHeader { model: [0; 32], texts: Vec::new() };
        header.model.copy_from_slice(&rest[8..]);
        for _ in 0..texts {
            // One by one: a file that says more than it has takes no memory for that.
            let mut mark = TextMark { hash: [0; 32], tokens: 0 };
            let mut tokens = [0; 8];
            from.read_exact(&mut mark.hash)?;
            from.read_exact(&mut tokens)?;
            hash.update(&mark.hash);
            hash.update(&tokens);
            mark.tokens = u64::from_le_bytes(tokens);
            header.texts.push(mark);
        }
        let mut crc = [0; 4];
        from.read_exact(&mut crc)?;
        let (stored, found) = (u32::from_le_bytes(crc), hash.finalize());
        if stored != found {
            let hex = |crc| format!("CRC {crc:08x}");
            return Err(Malformed::new("the header", hex(stored), hex(found)));
        }
        Ok(header)
    }
}
