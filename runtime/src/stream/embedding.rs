//! The token embedding, of which only the rows of the tokens at hand are read. Rows that come again and again, such as those of
//! a space or a comma, are kept.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use qsf_format::panels::PANEL_ROWS;

use super::arena::Region;
use super::chunk_reader::{ChunkReader, SLACK};
use super::matrix::MatrixForm;
use super::part::StreamPart;
use crate::cpu::Isa;
use crate::error::{Result, RuntimeError};
use crate::source::{Tensor, TensorBytes};

/// An embedding on disk, and the panels of 16 rows of it that were used last.
pub struct EmbeddingRows {
    form: MatrixForm,
    part: StreamPart,
    cache: Mutex<Cache>,
}

struct Cache {
    reader: ChunkReader,
    /// Of each place: the panel in it, and when it was used last.
    places: Vec<Option<(usize, u64)>>,
    panels: Vec<Arc<Region>>,
    starts: Vec<usize>,
    clock: u64,
}

impl EmbeddingRows {
    /// Bytes of memory for one panel.
    pub fn panel_bytes(form: &MatrixForm) -> usize {
        form.row_bytes() * PANEL_ROWS + SLACK
    }

    /// An embedding with memory for as many panels as there are regions, each of [`EmbeddingRows::panel_bytes`].
    ///
    /// # Panics
    /// When there is no region.
    pub fn new(
        form: MatrixForm,
        part: StreamPart,
        reader: ChunkReader,
        panels: Vec<Region>,
    ) -> EmbeddingRows {
        assert!(!panels.is_empty(), "an embedding cache of nothing");
        let count = panels.len();
        let panels = panels.into_iter().map(Arc::new).collect();
        let cache = Cache { reader, places: vec![None; count], panels, starts: vec![0; count], clock: 0 };
        EmbeddingRows { form, part, cache: Mutex::new(cache) }
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
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let [token] = tokens {
            return self.row(&mut cache, isa, *token as usize, out);
        }
        // In the order of the file, so that no chunk is read twice for a prompt.
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_unstable_by_key(|&i| tokens[i]);
        for i in order {
            let row = &mut out[i * self.form.cols..][..self.form.cols];
            self.row(&mut cache, isa, tokens[i] as usize, row)?;
        }
        Ok(())
    }

    fn row(&self, cache: &mut Cache, isa: Isa, token: usize, out: &mut [f32]) -> Result<()> {
        let panel = token / PANEL_ROWS;
        let rows = panel * PANEL_ROWS..self.form.rows.min((panel + 1) * PANEL_ROWS);
        self.panel(cache, panel, &rows)?.decode_row(isa, token - rows.start, out);
        Ok(())
    }

    /// A panel, read if it is not there.
    fn panel(&self, cache: &mut Cache, panel: usize, rows: &Range<usize>) -> Result<Tensor> {
        cache.clock += 1;
        let clock = cache.clock;
        let found = cache.places.iter().position(|place| place.is_some_and(|(held, _)| held == panel));
        let bytes = self.form.row_bytes();
        let raw = rows.start * bytes..rows.end * bytes;
        let place = match found {
            Some(place) => place,
            None => {
                let oldest = |place: &usize| cache.places[*place].map_or(0, |(_, used)| used);
                let place = (0..cache.places.len()).min_by_key(oldest).unwrap_or(0);
                cache.places[place] = None;
                // The tensor over it was dropped when its row was decoded.
                let memory = Arc::get_mut(&mut cache.panels[place])
                    .ok_or_else(|| RuntimeError::Request("an embedding row is in use".into()))?;
                cache.starts[place] = cache.reader.read(&self.part, &raw, memory)?;
                place
            }
        };
        cache.places[place] = Some((panel, clock));
        let start = cache.starts[place];
        self.form.tensor(rows, TensorBytes::Region(cache.panels[place].clone(), start..start + raw.len()))
    }
}
