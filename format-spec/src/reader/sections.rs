//! Sections that are read whole: META, texts, clusters, exits, adapters, outliers.

use super::file::QsfFile;
use crate::adapters::StoredAdapter;
use crate::bounded_json::{JsonLimits, check_json};
use crate::chunk::{Compression, zstd_at_most};
use crate::clusters::VocabClusters;
use crate::directory::SectionTag;
use crate::error::{Damage, FormatError, Unread, reserve};
use crate::exits::EarlyExits;
use crate::meta::{META_VERSION, Meta};
use crate::model_config::ModelConfig;
use crate::outliers::OutlierTable;
use crate::row_parts::RowPartTable;

/// A section (META, TOKN, CTPL, EVAL) may not hold more than this: far above any real tokenizer.
pub const MAX_SECTION_BYTES: usize = 1 << 28;
/// A compressed section may expand this many times, and to a mebibyte in any case. Tokenizers and templates of real models
/// shrink to between a half and a sixth (format-spec/SPEC.md, section 7), so a small hostile file cannot ask for more than
/// a real one of its size would.
const MAX_SECTION_EXPANSION: usize = 64;
/// What a section may expand to however small it is.
const SMALL_SECTION_BYTES: usize = 1 << 20;

/// The most that a compressed section of `stored_bytes` may hold.
pub(crate) fn most_raw_bytes(tag: SectionTag, stored_bytes: usize) -> usize {
    let most = if tag == SectionTag::META { JsonLimits::DESCRIPTION.bytes } else { MAX_SECTION_BYTES };
    stored_bytes.saturating_mul(MAX_SECTION_EXPANSION).max(SMALL_SECTION_BYTES).min(most)
}

impl QsfFile {
    /// A section's content, checked and decompressed.
    ///
    /// # Errors
    /// When it is damaged, or holds more than a section of its size may.
    pub fn section_bytes(&self, tag: SectionTag) -> Result<Option<Vec<u8>>, FormatError> {
        self.read_section(tag).map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_section(&self, tag: SectionTag) -> Result<Option<Vec<u8>>, Unread> {
        let Some(section) = self.section(tag) else { return Ok(None) };
        let stored = self.checked(section)?;
        let place = format!("section {tag}");
        if section.compression != Compression::None {
            let most = most_raw_bytes(tag, stored.len());
            return zstd_at_most(stored, most, &place, section.offset).map(Some);
        }
        let mut raw = Vec::new();
        reserve(&mut raw, stored.len(), &place)?;
        raw.extend_from_slice(stored);
        Ok(Some(raw))
    }

    /// META, checked against the header. `None` in a plain file.
    ///
    /// # Errors
    /// When it is missing from a file with a directory, damaged, of another version, or contradicts the header; as
    /// [`FormatError::Unsupported`] when `model` has a field or value that is not known.
    pub fn meta(&self) -> Result<Option<Meta>, FormatError> {
        let in_file = |damage: Damage| damage.in_file(&self.path);
        let json = self.meta_json().map_err(|e| e.in_file(&self.path))?;
        let Some((json, at)) = json else { return Ok(None) };
        // Within limits, as meta_json has checked.
        let meta: Meta =
            serde_json::from_slice(&json).map_err(|e| match serde_json::from_slice::<ModelOnly>(&json) {
                Err(of_model) if is_unknown(&of_model) => {
                    FormatError::needs_newer(&self.path, format!("the model in META, with {of_model},"))
                }
                _ => in_file(Damage::new("section META", at, META_JSON, e)),
            })?;
        let check = || {
            meta.model.check().map_err(|e| Damage::new("section META, model", at, "a possible model", e))?;
            self.header.check_against(&meta.model)
        };
        check().map_err(in_file)?;
        Ok(Some(meta))
    }

    /// The text of META in this version, and where the section is. `None` in a plain file.
    fn meta_json(&self) -> Result<Option<(Vec<u8>, u64)>, Unread> {
        if self.is_plain() {
            return Ok(None);
        }
        let at = self.section(SectionTag::META).map_or(0, |s| s.offset);
        let Some(json) = self.read_section(SectionTag::META)? else {
            return Err(Damage::new("section directory", at, "an entry META", "none").into());
        };
        check_json(&json, JsonLimits::DESCRIPTION)
            .map_err(|found| Damage::new("section META", at, "a description of ordinary size", found))?;
        // The version first: a later schema may not parse as this one.
        let version: MetaVersion =
            serde_json::from_slice(&json).map_err(|e| Damage::new("section META", at, META_JSON, e))?;
        if version.version != META_VERSION {
            let expected = format!("version {META_VERSION}");
            return Err(Damage::new("section META", at, expected, version.version).into());
        }
        Ok(Some((json, at)))
    }

    /// The vocabulary clusters, where the file has some.
    ///
    /// # Errors
    /// When they are damaged, or not those of a vocabulary and of hidden states as the header has them.
    pub fn clusters(&self) -> Result<Option<VocabClusters>, FormatError> {
        self.read_clusters().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_clusters(&self) -> Result<Option<VocabClusters>, Damage> {
        let Some(section) = self.section(SectionTag::CLUSTERS) else { return Ok(None) };
        let parsed = VocabClusters::parse(self.checked(section)?, self.header.vocab, self.header.hidden);
        parsed.map(Some).map_err(|(at, expected, found)| {
            Damage::new("section CLUS", section.offset + at as u64, expected, found)
        })
    }

    /// The classifiers for leaving the model early, where the file has some.
    ///
    /// # Errors
    /// When they are damaged, or not those of layers and of hidden states as the header has them.
    pub fn early_exits(&self) -> Result<Option<EarlyExits>, FormatError> {
        self.read_early_exits().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_early_exits(&self) -> Result<Option<EarlyExits>, Damage> {
        let Some(section) = self.section(SectionTag::EXITS) else { return Ok(None) };
        let parsed = EarlyExits::parse(self.checked(section)?, self.header.layers, self.header.hidden);
        parsed.map(Some).map_err(|(at, expected, found)| {
            Damage::new("section EXIT", section.offset + at as u64, expected, found)
        })
    }

    /// What is added to the model, where the file has adapters.
    ///
    /// # Errors
    /// When they are damaged.
    pub fn adapters(&self) -> Result<Vec<StoredAdapter>, FormatError> {
        self.read_adapters().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_adapters(&self) -> Result<Vec<StoredAdapter>, Damage> {
        let Some(section) = self.section(SectionTag::ADAPTERS) else { return Ok(Vec::new()) };
        StoredAdapter::parse(self.checked(section)?, self.header.layers).map_err(|(at, expected, found)| {
            Damage::new("section LORA", section.offset + at as u64, expected, found)
        })
    }

    /// The weights that are stored apart from the blocks of their matrices.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn outliers(&self) -> Result<OutlierTable, FormatError> {
        self.read_outliers().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_outliers(&self) -> Result<OutlierTable, Damage> {
        let Some(section) = self.section(SectionTag::OUTLIERS) else { return Ok(OutlierTable::default()) };
        let table = OutlierTable::parse(self.checked(section)?, section.offset)?;
        table.check_whole(&self.read_row_parts()?)?;
        Ok(table)
    }

    /// Which rows of matrices are in which part.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn row_parts(&self) -> Result<RowPartTable, FormatError> {
        self.read_row_parts().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_row_parts(&self) -> Result<RowPartTable, Damage> {
        let Some(section) = self.section(SectionTag::ROW_PARTS) else { return Ok(RowPartTable::default()) };
        RowPartTable::parse(self.checked(section)?, section.offset)
    }
}

/// What is expected of META.
const META_JSON: &str = "JSON as SPEC.md section 8 describes";

/// Whether JSON is sound and says something that this version does not know. serde has no other way to tell.
fn is_unknown(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    error.is_data() && (text.starts_with("unknown field") || text.starts_with("unknown variant"))
}

/// What an unknown field or value must not be in, as it would change results.
#[derive(serde::Deserialize)]
struct ModelOnly {
    #[serde(rename = "model")]
    _model: ModelConfig,
}

#[derive(serde::Deserialize)]
struct MetaVersion {
    version: u32,
}
