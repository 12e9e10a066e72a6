//! The final section and the learned positions, in runs of rows, and weights that are stored apart.

use super::file::QsfWriter;
use crate::alignment::{ALIGN, next_tensor_header};
use crate::chunk::Compression;
use crate::directory::SectionTag;
use crate::error::FormatError;
use crate::layout::Layout;
use crate::outliers::Outliers;
use crate::quant_type::QuantType;
use crate::row_parts::RowParts;
use crate::tensor_header::tensor_header_bytes;
use crate::tensor_kind::{TensorId, TensorKind};
use crate::tensor_number::tensor_number;

impl QsfWriter {
    /// Starts the final section: the flag byte says whether the head is the token embedding.
    ///
    /// # Errors
    /// When writing fails.
    pub fn begin_final(&mut self, tied_head: bool) -> Result<(), FormatError> {
        self.pad_to(self.at.next_multiple_of(ALIGN))?;
        self.begin_section();
        self.final_offset = self.at;
        self.put(&[if tied_head { 0xFF } else { 0 }])
    }

    /// Ends the final section. If a tensor of it lacks rows, [`finish`](Self::finish) will refuse.
    pub fn end_final(&mut self) {
        self.end_tensors("the final section");
        let section = self.end_section(SectionTag::FINAL, Compression::None);
        self.sections.push(section);
    }

    /// Starts the section of learned positions, which holds one tensor.
    ///
    /// # Errors
    /// When writing fails.
    pub fn begin_positions(&mut self) -> Result<(), FormatError> {
        self.pad_to(self.at.next_multiple_of(ALIGN))?;
        self.begin_section();
        Ok(())
    }

    /// Ends the section of learned positions. If its tensor lacks rows, [`finish`](Self::finish) will refuse.
    pub fn end_positions(&mut self) {
        self.end_tensors("the section of learned positions");
        let section = self.end_section(SectionTag::POSITIONS, Compression::None);
        self.sections.push(section);
    }

    /// Remembers an unfinished tensor: rows that come after the section has ended would complete it, but elsewhere.
    fn end_tensors(&mut self, part: &'static str) {
        if self.open_tensor.is_some() {
            self.cut_short.get_or_insert(part);
        }
    }

    /// Starts a tensor of the final section or of the positions; its rows follow by [`tensor_rows`](Self::tensor_rows).
    ///
    /// # Errors
    /// When writing fails, or rows of the tensor begun before are missing.
    pub fn begin_tensor(
        &mut self,
        kind: TensorKind,
        rows: u32,
        cols: u32,
        quant: QuantType,
        layout: Layout,
    ) -> Result<(), FormatError> {
        self.begin_part((kind, 0), rows, cols, quant, layout)
    }

    /// Starts a part of a matrix, with its number: 0 is the tensor of the kind itself.
    ///
    /// # Errors
    /// As [`begin_tensor`](Self::begin_tensor).
    pub fn begin_part(
        &mut self,
        (kind, part): (TensorKind, u8),
        rows: u32,
        cols: u32,
        quant: QuantType,
        layout: Layout,
    ) -> Result<(), FormatError> {
        if let Some(left) = self.open_tensor {
            let why = format!("the tensor begun before it still lacks {left} bytes");
            return Err(self.unwritable(kind.name(), &why));
        }
        let bytes = self.size_of(kind, quant, layout, rows, cols)?;
        let start = next_tensor_header(self.at - self.section_start)
            .ok_or_else(|| self.unwritable(kind.name(), "the file is too large"))?;
        self.pad_to(self.section_start + start)?;
        let header = tensor_header_bytes(kind, part, rows, cols, quant, layout);
        self.put(&header)?;
        self.tensor = crc32fast::Hasher::new();
        self.tensor.update(&header);
        self.open_tensor = Some(bytes);
        Ok(())
    }

    /// Appends encoded rows of the tensor begun last, as its type and layout say.
    ///
    /// # Errors
    /// When writing fails, or more rows come than were announced.
    pub fn tensor_rows(&mut self, rows: &[u8]) -> Result<(), FormatError> {
        let Some(left) = self.open_tensor.take() else {
            return Err(self.unwritable("tensor rows", "no tensor was begun"));
        };
        let Some(left) = left.checked_sub(rows.len() as u64) else {
            return Err(self.unwritable("tensor rows", "more rows than announced"));
        };
        self.put(rows)?;
        self.tensor.update(rows);
        if left == 0 {
            let crc = std::mem::take(&mut self.tensor).finalize();
            self.tensor_crcs.extend_from_slice(&crc.to_le_bytes());
        } else {
            self.open_tensor = Some(left);
        }
        Ok(())
    }

    /// Says which rows of the matrix `id` are in which of its parts.
    ///
    /// # Errors
    /// When that was said already.
    pub fn row_parts(&mut self, id: TensorId, parts: &RowParts) -> Result<(), FormatError> {
        match self.row_parts.insert(tensor_number(id), parts.to_bytes(id)) {
            Some(_) => Err(self.unwritable("section PART", &format!("rows of {id} come twice"))),
            None => Ok(()),
        }
    }

    /// Stores weights of the tensor `id` apart from its blocks. None of them: there is nothing to store.
    ///
    /// # Errors
    /// When the tensor had some already.
    pub fn outliers(&mut self, id: TensorId, outliers: &Outliers) -> Result<(), FormatError> {
        if outliers.is_empty() {
            return Ok(());
        }
        match self.outliers.insert(tensor_number(id), outliers.to_bytes(id)) {
            Some(_) => Err(self.unwritable("section OUTL", &format!("outliers of {id} come twice"))),
            None => Ok(()),
        }
    }
}
