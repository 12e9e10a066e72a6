//! The token embedding, of which only the rows of the tokens at hand are read. Rows that come again and again, such as those of
//! a space or a comma, are kept.

use qsf_format::panels::PANEL_ROWS;

use super::chunk_reader::SLACK;
use super::matrix::MatrixForm;
use super::part::StreamPart;
use super::piece_cache::PieceCache;
use crate::error::Result;
use qsf_cpu::Isa;

/// An embedding on disk, and the panels of 16 rows of it that were used last.
pub struct EmbeddingRows {
    form: MatrixForm,
    part: StreamPart,
    panels: PieceCache,
}

impl EmbeddingRows {
    /// Bytes of memory for one panel.
    pub fn panel_bytes(form: &MatrixForm) -> usize {
        form.row_bytes() * PANEL_ROWS + SLACK
    }

    /// An embedding that keeps panels in `panels`, whose places have [`EmbeddingRows::panel_bytes`].
    pub fn new(form: MatrixForm, part: StreamPart, panels: PieceCache) -> EmbeddingRows {
        EmbeddingRows { form, part, panels }
    }

    /// The rows of `tokens` as floats, tokens x `hidden` into `out`.
    ///
    /// # Errors
    /// When one cannot be read or is damaged.
    ///
    /// # Panics
    /// When a token is beyond the vocabulary, or `out` has another size.
    pub fn decode(&self, isa: Isa, tokens: &[u32], out: &mut [f32]) -> Result<()> {
        assert_eq!(out.len(), tokens.len() * self.form.cols, "rows of another size");
        if let [token] = tokens {
            return self.row(isa, *token as usize, out);
        }
        // In the order of the file, so that no chunk is read twice for a prompt.
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_unstable_by_key(|&i| tokens[i]);
        for i in order {
            let row = &mut out[i * self.form.cols..][..self.form.cols];
            self.row(isa, tokens[i] as usize, row)?;
        }
        Ok(())
    }

    fn row(&self, isa: Isa, token: usize, out: &mut [f32]) -> Result<()> {
        let first = token / PANEL_ROWS * PANEL_ROWS;
        let rows = first..self.form.rows.min(first + PANEL_ROWS);
        let panel = self.panels.piece(&self.part, &self.form.raw_of(&rows))?;
        self.form.tensor(&rows, panel)?.decode_row(isa, token - first, out);
        Ok(())
    }
}
