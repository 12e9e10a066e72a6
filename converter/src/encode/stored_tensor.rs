//! A tensor as it is stored, and what META says of it.

use std::sync::Arc;

use qsf_format::{BlockSize, CodeTables, EncodedTensor, Layout, Outliers, RowParts, TensorId, TensorKind};
use qsf_runtime::source::Tensor;

use crate::error::{ConvertError, Result};
use crate::plan::{TensorReport, TensorType};

/// The stored values of a tensor.
#[derive(Debug, Clone)]
pub(crate) struct TensorBlocks {
    pub kind: TensorKind,
    pub rows: u32,
    pub cols: u32,
    pub quant: TensorType,
    pub layout: Layout,
    pub data: Vec<u8>,
}

impl TensorBlocks {
    /// As a QSF file has them; `None` for a type that it cannot have.
    pub fn for_qsf(self) -> Option<EncodedTensor> {
        let TensorBlocks { kind, rows, cols, quant, layout, data } = self;
        Some(EncodedTensor { kind, part: 0, rows, cols, quant: quant.qsf()?, layout, data })
    }

    /// The tensor in memory, or some rows of it, with these weights apart, as a reader of the file will have it.
    ///
    /// # Errors
    /// When it is from a journal and has not the bytes of its shape.
    pub fn tensor(
        &self,
        id: TensorId,
        outliers: &Outliers,
        block: BlockSize,
        tables: &Arc<CodeTables>,
    ) -> Result<Tensor> {
        let TensorBlocks { rows, cols, quant, layout, ref data, .. } = *self;
        let (rows, cols, bytes) = (rows as usize, cols as usize, data.clone().into());
        let broken = |_| ConvertError::BrokenJournal { what: id.to_string() };
        let tensor = match quant {
            TensorType::Qsf(quant) => Tensor::with_layout(rows, cols, quant, block, layout, bytes)
                .map_err(broken)?
                .with_tables(tables),
            TensorType::Ggml(ty) => Tensor::of_ggml(ty, rows, cols, bytes).ok_or_else(|| broken(None))?,
            TensorType::Groups(ty) => Tensor::of_groups(ty, rows, cols, bytes).ok_or_else(|| broken(None))?,
        };
        if outliers.is_empty() {
            return Ok(tensor);
        }
        if outliers.rows() != tensor.rows() {
            return Err(broken(None));
        }
        Ok(tensor.with_outliers(Arc::new(outliers.clone()), 0))
    }
}

/// The parts of a matrix beside the first, and which rows are in which.
#[derive(Debug, Clone)]
pub(crate) struct StoredParts {
    pub rows: RowParts,
    /// From the second on.
    pub others: Vec<StoredPart>,
}

/// A part of a matrix.
#[derive(Debug, Clone)]
pub(crate) struct StoredPart {
    pub encoded: TensorBlocks,
    pub record: TensorReport,
}

impl StoredParts {
    /// The parts with their numbers, as a QSF file has them; `None` for a type that it cannot have.
    pub fn for_qsf(&self) -> Option<Vec<EncodedTensor>> {
        let numbered = (1..).zip(&self.others);
        numbered.map(|(part, t)| Some(EncodedTensor { part, ..t.encoded.clone().for_qsf()? })).collect()
    }

    /// What is reported of them.
    pub fn records(&self) -> impl Iterator<Item = &TensorReport> {
        self.others.iter().map(|part| &part.record)
    }
}

/// A tensor ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct StoredTensor {
    pub id: TensorId,
    pub encoded: TensorBlocks,
    /// What is stored apart from the blocks: no rows where nothing is.
    pub outliers: Outliers,
    /// Its parts from the second on, where its rows are in several types: all else here is of the first.
    pub split: Option<StoredParts>,
    pub record: TensorReport,
}

impl StoredTensor {
    /// The tensor in memory, as a reader of the file will have it.
    ///
    /// # Errors
    /// When it is from a journal and has not the bytes of its shape.
    pub fn tensor(&self, block: BlockSize, tables: &Arc<CodeTables>) -> Result<Tensor> {
        let first = self.encoded.tensor(self.id, &self.outliers, block, tables)?;
        let Some(split) = &self.split else { return Ok(first) };
        let none = Outliers::default();
        let others = split.others.iter().map(|part| part.encoded.tensor(self.id, &none, block, tables));
        let parts = std::iter::once(Ok(first)).chain(others).collect::<Result<Vec<Tensor>>>()?;
        let rows = &split.rows;
        let fits = parts.len() == rows.parts()
            && parts.iter().enumerate().all(|(i, part)| part.rows() == rows.rows_of(i));
        match fits {
            true => Ok(Tensor::of_parts(parts, rows.clone())),
            false => Err(ConvertError::BrokenJournal { what: self.id.to_string() }),
        }
    }

    /// What is reported of it, of each part for itself.
    pub fn records(&self) -> impl Iterator<Item = &TensorReport> {
        std::iter::once(&self.record).chain(self.split.iter().flat_map(StoredParts::records))
    }

    /// The least cosine of its parts; 0 where there is none.
    pub fn cosine_or_zero(&self) -> f64 {
        self.records().map(TensorReport::cosine_or_zero).fold(f64::INFINITY, f64::min)
    }
}
