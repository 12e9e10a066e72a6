//! Verification of a whole file: every checksum, every padding byte, every tensor (SPEC.md section 10).

use std::path::Path;

use crate::alignment::first_nonzero;
use crate::directory::SectionTag;
use crate::error::{Damage, FormatError, Unread};
use crate::model_config::{ModelConfig, PositionConfig};
use crate::outliers::OutlierTable;
use crate::reader::{QsfFile, TensorGroup, layer_place};
use crate::tensor_kind::{TensorId, TensorKind};

/// What a verification covered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Layers whose checksums hold.
    pub layers: usize,
    /// Tensors whose checksums hold.
    pub tensors: usize,
    /// Sections whose checksums hold.
    pub sections: usize,
    /// Parts under no checksum: only in plain files.
    pub unprotected: Vec<String>,
}

/// Opens and verifies a file.
///
/// # Errors
/// The first damage found.
pub fn verify(path: &Path) -> Result<Verification, FormatError> {
    verify_file(&QsfFile::open(path)?)
}

/// Verifies an open file: header, index and directory were checked when it was opened.
///
/// # Errors
/// The first damage found.
pub fn verify_file(file: &QsfFile) -> Result<Verification, FormatError> {
    // First, since it is soon read: what is no description of a model need not be decompressed. A model of a later version is
    // no damage, though, and says nothing of the rest.
    let meta = match file.meta() {
        Err(error @ FormatError::Unsupported { .. }) => Err(error),
        read => Ok(read?),
    };
    let (report, tied_head) = check_parts(file).map_err(|e| e.in_file(file.path()))?;
    if let Some(meta) = meta? {
        check_model_parts(file, &meta.model, tied_head).map_err(|damage| damage.in_file(file.path()))?;
    }
    Ok(report)
}

/// Everything but what META says of the model; and whether the head is the token embedding.
fn check_parts(file: &QsfFile) -> Result<(Verification, bool), Unread> {
    let mut report = Verification::default();
    check_padding(file)?;
    for section in file.sections() {
        file.checked(section)?;
        file.bytes().release(section.offset, section.offset + section.stored_bytes);
        report.sections += 1;
    }
    let at = |tag| file.section(tag).map_or(0, |s| s.offset);
    let mut outliers = file.read_outliers()?;
    let mut row_parts = file.read_row_parts()?;
    let stored = file.checked_section(SectionTag::TENSOR_CRCS)?;
    let mut crcs = TensorCrcs { stored, at: at(SectionTag::TENSOR_CRCS), next: 0 };
    for layer in 0..file.layers().len() {
        let (group, found) = file.check_layer(layer)?;
        let entry = &file.layers()[layer];
        crcs.check(&group, &found, entry.offset, &layer_place(layer))?;
        take_outliers(&mut outliers, Some(layer as u32), &group)?;
        row_parts.take(Some(layer as u32), &group.tensors.iter().collect::<Vec<_>>())?;
        report.tensors += group.tensors.len();
        report.layers += 1;
        file.bytes().release(entry.offset, entry.offset + entry.stored_bytes);
    }
    let (tied_head, last) = file.read_final()?;
    crcs.check(&last, &last.crcs(), at(SectionTag::FINAL), "final section")?;
    take_outliers(&mut outliers, None, &last)?;
    report.tensors += last.tensors.len();
    if let Some(positions) = file.read_positions()? {
        crcs.check(&positions, &positions.crcs(), at(SectionTag::POSITIONS), "section POSE")?;
        take_outliers(&mut outliers, None, &positions)?;
        report.tensors += positions.tensors.len();
    }
    crcs.check_all_used()?;
    let embedding = file.read_embedding_info()?;
    file.check_embedding(&embedding)?;
    let id = TensorId::of_model(TensorKind::TokenEmbedding);
    outliers.take(id, embedding.quant, embedding.rows, embedding.cols)?;
    outliers.check_all_taken()?;
    let embedding = embedding.entry(0..0);
    row_parts.take(None, &last.tensors.iter().chain([&embedding]).collect::<Vec<_>>())?;
    row_parts.check_all_taken()?;
    report.tensors += 1;
    for tag in [SectionTag::TOKENIZER, SectionTag::CHAT_TEMPLATE, SectionTag::EVALUATION] {
        file.read_section(tag)?;
    }
    file.read_clusters()?;
    file.read_early_exits()?;
    file.read_adapters()?;
    if file.is_plain() {
        if let Some(model) = file.header().plain_model(false, tied_head) {
            model.check().map_err(|e| Damage::new("file header", 0, "a possible model", e))?;
        }
        report.unprotected =
            ["layer index", "embedding section", "final section"].map(str::to_owned).to_vec();
    }
    Ok((report, tied_head))
}

/// Checks the outliers of the tensors of a part against their shapes.
fn take_outliers(outliers: &mut OutlierTable, layer: Option<u32>, group: &TensorGroup) -> Result<(), Damage> {
    group.tensors.iter().try_for_each(|tensor| outliers.take_of_entry(layer, tensor).map(|_| ()))
}

/// What META says of the model must be what the file holds.
fn check_model_parts(file: &QsfFile, model: &ModelConfig, tied_head: bool) -> Result<(), Damage> {
    if model.tied_head != tied_head {
        let at = file.header().final_offset;
        let expected = format!("tied_head {} as in META", model.tied_head);
        return Err(Damage::new("final section, head flag", at, expected, tied_head));
    }
    let learned = matches!(model.position, PositionConfig::Learned {});
    if learned && file.section(SectionTag::POSITIONS).is_none() {
        return Err(Damage::new("section directory", 0, "an entry POSE, for learned positions", "none"));
    }
    Ok(())
}

/// Every byte between the parts must be zero. A plain file does not say how long its final section and embedding are, so
/// there nothing is known to be padding.
fn check_padding(file: &QsfFile) -> Result<(), Damage> {
    if file.is_plain() {
        return Ok(());
    }
    let mut end = 0;
    for (start, next_end, name) in file.regions()? {
        if let Some(i) = first_nonzero(&file.bytes()[end as usize..start as usize]) {
            let at = end as usize + i;
            let found = format!("byte {:#04x}", file.bytes()[at]);
            return Err(Damage::new(format!("padding before {name}"), at as u64, "zero", found));
        }
        end = next_end;
    }
    Ok(())
}

/// Walks through section TCRC beside the tensors of the file.
struct TensorCrcs<'a> {
    stored: Option<&'a [u8]>,
    /// Where the section is in the file.
    at: u64,
    next: usize,
}

impl TensorCrcs<'_> {
    /// Checks the tensors of a part, of which `found` are the CRCs; its stored bytes begin at `stored_at`.
    fn check(
        &mut self,
        group: &TensorGroup,
        found: &[u32],
        stored_at: u64,
        place: &str,
    ) -> Result<(), Damage> {
        let Some(stored) = self.stored else { return Ok(()) };
        for (i, (tensor, found)) in group.tensors.iter().zip(found).enumerate() {
            let Some(crc) = stored.as_chunks::<4>().0.get(self.next) else {
                let found = format!("{} CRCs", self.next);
                return Err(Damage::new("section TCRC", self.at, "a CRC per tensor", found));
            };
            self.next += 1;
            let stored = u32::from_le_bytes(*crc);
            if stored != *found {
                let place = format!("{place}, tensor {i}");
                let expected = format!("CRC32 {stored:08x} as in section TCRC");
                return Err(group.damage(tensor, stored_at, &place, expected, format!("{found:08x}")));
            }
        }
        Ok(())
    }

    fn check_all_used(&self) -> Result<(), Damage> {
        match self.stored {
            Some(stored) if stored.len() != self.next * 4 => Err(Damage::new(
                "section TCRC",
                self.at,
                format!("{} CRCs of 4 bytes", self.next),
                format!("{} bytes", stored.len()),
            )),
            _ => Ok(()),
        }
    }
}
