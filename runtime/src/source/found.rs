//! The tensors of a QSF file, collected part by part of the file.

use std::collections::HashMap;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{
    BlockSize, Damage, EmbeddingInfo, FileBytes, Layout, ModelConfig, OutlierTable, QsfFile, QuantType,
    RawBytes, RowPartTable, SplitMatrix, TensorEntry, TensorGroup, TensorId, TensorKind,
};

use super::TensorInfo;
use crate::error::{Result, RuntimeError};
use crate::tensor::{Tensor, TensorBytes};

/// Collects the tensors of a file.
pub(crate) struct Found<'a> {
    pub file: &'a QsfFile,
    pub config: &'a ModelConfig,
    /// What is stored apart from the blocks of tensors that were not found yet.
    pub outliers: OutlierTable,
    /// Which rows are in which part, of matrices that were not found yet.
    pub row_parts: RowPartTable,
    pub tensors: HashMap<TensorId, Tensor>,
    pub infos: Vec<TensorInfo>,
    /// Parts of matrices, without the first.
    parts: HashMap<(TensorId, u8), Tensor>,
}

impl<'a> Found<'a> {
    /// Nothing as yet.
    pub fn new(
        file: &'a QsfFile,
        config: &'a ModelConfig,
        outliers: OutlierTable,
        row_parts: RowPartTable,
    ) -> Found<'a> {
        let (tensors, parts) = (HashMap::new(), HashMap::new());
        Found { file, config, outliers, row_parts, tensors, infos: Vec::new(), parts }
    }

    /// All tensors, and what is known of each.
    ///
    /// # Errors
    /// When there are outliers, or parts, of tensors that the file has not.
    pub fn finish(self) -> Result<(HashMap<TensorId, Tensor>, Vec<TensorInfo>)> {
        let path = self.file.path();
        self.outliers.check_all_taken().map_err(|damage| damage.in_file(path))?;
        self.row_parts.check_all_taken().map_err(|damage| damage.in_file(path))?;
        Ok((self.tensors, self.infos))
    }

    pub fn add_embedding(&mut self, bytes: &RawBytes, info: &EmbeddingInfo) -> Result<()> {
        let len = bytes.as_slice().len();
        let id = TensorId::of_model(TensorKind::TokenEmbedding);
        self.add(id, info.rows, info.cols, info.quant, info.layout, tensor_bytes(bytes, 0..len))
    }

    /// The tensors of a part of the file; with those of the final section comes the `embedding`, which was added before.
    pub fn add_group(
        &mut self,
        layer: Option<u32>,
        group: &TensorGroup,
        embedding: Option<&TensorEntry>,
    ) -> Result<()> {
        self.file.check_kinds_known(layer, &group.tensors)?;
        let split = self.take_split(layer, group.tensors.iter().chain(embedding))?;
        for entry in &group.tensors {
            self.add_entry(layer, entry, &split, tensor_bytes(&group.bytes, entry.data.clone()))?;
        }
        split.into_iter().try_for_each(|matrix| self.join(layer, matrix))
    }

    /// The matrices in parts among these tensors.
    pub fn take_split<'t>(
        &mut self,
        layer: Option<u32>,
        tensors: impl Iterator<Item = &'t TensorEntry>,
    ) -> Result<Vec<SplitMatrix>> {
        let tensors: Vec<&TensorEntry> = tensors.collect();
        let found = self.row_parts.take(layer, &tensors);
        let found = found.map_err(|damage| damage.in_file(self.file.path()))?;
        for matrix in &found {
            self.check_shares(TensorId { layer, kind: matrix.kind }, matrix, &tensors)?;
        }
        Ok(found)
    }

    /// Puts the parts of a matrix together, all of which were added.
    pub fn join(&mut self, layer: Option<u32>, matrix: SplitMatrix) -> Result<()> {
        let id = TensorId { layer, kind: matrix.kind };
        let missing =
            || RuntimeError::bad_input(self.file.path(), id.to_string(), "all of its parts", "fewer");
        let first = self.tensors.remove(&id).ok_or_else(missing)?;
        let others = (1..matrix.rows.parts()).map(|part| self.parts.remove(&(id, part as u8)));
        let parts: Option<Vec<Tensor>> = std::iter::once(Some(first)).chain(others).collect();
        let parts = parts.ok_or_else(missing)?;
        if let Some(info) = self.infos.iter_mut().find(|info| info.id == id) {
            info.rows = matrix.rows.rows();
        }
        self.tensors.insert(id, Tensor::of_parts(parts, matrix.rows));
        Ok(())
    }

    /// Each expert is used as a matrix of its own, so all of its rows are in one part, and in whole panels there.
    fn check_shares(&self, id: TensorId, matrix: &SplitMatrix, tensors: &[&TensorEntry]) -> Result<()> {
        let Some(count) = self.config.stacked(id) else { return Ok(()) };
        let rows = matrix.rows.rows() / (count as usize).max(1);
        let panels = matrix.tensors.iter().any(|i| tensors[*i].layout == Layout::Panels16);
        let expected = if !matrix.rows.has_whole_shares(count as usize) {
            "all rows of an expert in one part"
        } else if panels && !rows.is_multiple_of(PANEL_ROWS) {
            "experts of whole panels of 16 rows (layout 3)"
        } else {
            return Ok(());
        };
        let found = format!("{rows} rows per expert");
        Err(RuntimeError::bad_input(self.file.path(), id.to_string(), expected, found))
    }

    /// One tensor with these bytes; some are parts of those that are `split`.
    pub fn add_entry(
        &mut self,
        layer: Option<u32>,
        entry: &TensorEntry,
        split: &[SplitMatrix],
        bytes: TensorBytes,
    ) -> Result<()> {
        if let Some((kind, part)) = entry.part_of {
            let id = TensorId { layer, kind };
            let tensor = self.tensor(id, entry.rows, entry.cols, entry.quant, entry.layout, bytes)?;
            self.parts.insert((id, part), tensor);
            return Ok(());
        }
        let Some(kind) = entry.kind else {
            // An optional kind of a later version. What it has apart from its blocks is passed over with it.
            let taken = self.outliers.take_of_entry(layer, entry);
            return taken.map(|_| ()).map_err(|damage| damage.in_file(self.file.path()).into());
        };
        let id = TensorId { layer, kind };
        if kind == TensorKind::FfnBiases {
            return self.add_joined_biases(id, entry.quant, &bytes);
        }
        if !split.iter().any(|matrix| matrix.kind == kind) {
            self.check_experts(entry, id)?;
        }
        self.add(id, entry.rows, entry.cols, entry.quant, entry.layout, bytes)
    }

    /// Kind 13 holds the up bias followed by the down bias.
    fn add_joined_biases(&mut self, id: TensorId, quant: QuantType, bytes: &TensorBytes) -> Result<()> {
        let (up, down) = (self.config.ffn, self.config.hidden);
        let width = |cols: u32| quant.row_bytes(BlockSize::B64, cols.into()).unwrap_or(u64::MAX) as usize;
        let all = bytes.as_slice();
        if !quant.is_float() || all.len() != width(up) + width(down) {
            return Err(RuntimeError::bad_input(
                self.file.path(),
                id.to_string(),
                format!("{up} + {down} floats"),
                format!("{} bytes of {quant}", all.len()),
            ));
        }
        let (first, second) = all.split_at(width(up));
        for (kind, cols, part) in
            [(TensorKind::FfnUpBias, up, first), (TensorKind::FfnDownBias, down, second)]
        {
            let bytes = part.to_vec().into();
            self.add(TensorId { kind, ..id }, 1, cols, quant, Layout::Rows, bytes)?;
        }
        Ok(())
    }

    /// Each expert is used as a matrix of its own, so none may end inside a panel.
    pub fn check_experts(&self, entry: &TensorEntry, id: TensorId) -> Result<()> {
        // A stack in a layer without experts, or of other rows than the configuration says, is refused later.
        let (Layout::Panels16, Some(count)) = (entry.layout, self.config.stacked(id)) else { return Ok(()) };
        let rows = entry.rows / count;
        if rows.is_multiple_of(PANEL_ROWS as u32) {
            return Ok(());
        }
        Err(RuntimeError::bad_input(
            self.file.path(),
            id.to_string(),
            "experts of whole panels of 16 rows (layout 3)",
            format!("{rows} rows per expert"),
        ))
    }

    fn add(
        &mut self,
        id: TensorId,
        rows: u32,
        cols: u32,
        quant: QuantType,
        layout: Layout,
        bytes: TensorBytes,
    ) -> Result<()> {
        let path = self.file.path();
        let shape = (rows as usize, cols as usize);
        let tensor = self.tensor(id, rows, cols, quant, layout, bytes)?;
        let outliers = self.outliers.take(id, quant, rows, cols).map_err(|damage| damage.in_file(path))?;
        let tensor = match outliers {
            Some(outliers) => tensor.with_outliers(outliers, 0),
            None => tensor,
        };
        let name = id.to_string();
        if self.tensors.insert(id, tensor).is_some() {
            return Err(RuntimeError::bad_input(path, name, "each tensor once", "a second one"));
        }
        self.infos.push(TensorInfo { id, name, rows: shape.0, cols: shape.1, stored: quant.into() });
        Ok(())
    }

    /// These bytes as a tensor without outliers.
    fn tensor(
        &self,
        id: TensorId,
        rows: u32,
        cols: u32,
        quant: QuantType,
        layout: Layout,
        bytes: TensorBytes,
    ) -> Result<Tensor> {
        let (block, found) = (self.file.header().block, bytes.len() as u64);
        let tensor = Tensor::with_layout(rows as usize, cols as usize, quant, block, layout, bytes);
        let tensor = tensor.map_err(|expected| {
            let expected = format!("{} bytes", expected.unwrap_or(u64::MAX));
            RuntimeError::from(Damage::new(id.to_string(), 0, expected, found).in_file(self.file.path()))
        })?;
        Ok(tensor.with_tables(self.file.tables()))
    }
}

/// A range of raw bytes, shared rather than copied.
fn tensor_bytes(raw: &RawBytes, range: std::ops::Range<usize>) -> TensorBytes {
    match raw {
        RawBytes::Owned(bytes) => TensorBytes::Owned(bytes.clone(), range),
        RawBytes::InFile(file, all) => {
            let range = all.start + range.start..all.start + range.end;
            match file {
                FileBytes::Mapped(map) => TensorBytes::Mapped(map.clone(), range),
                FileBytes::Memory(bytes) => TensorBytes::Owned(bytes.clone(), range),
            }
        }
    }
}
