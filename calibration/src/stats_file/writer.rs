//! Writing a statistics file, layer by layer.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use qsf_format::PartialFile;
use qsf_runtime::{Result, RuntimeError};

use super::header::StatsHeader;
use super::record::{Head, What, put_moments};
use crate::layer_stats::LayerStats;
use crate::moments::Detail;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// A statistics file in the making: it gets its name with [`StatsWriter::finish`].
pub struct StatsWriter {
    target: PartialFile,
    file: BufWriter<File>,
    crc: crc32fast::Hasher,
    tokens: u64,
}

impl StatsWriter {
    /// Starts the file `path`, written as `PATH.partial`.
    ///
    /// # Errors
    /// When `path` exists and `force` is off, or the system refuses.
    pub fn create(path: &Path, force: bool, header: &StatsHeader) -> Result<StatsWriter> {
        let (target, file) = PartialFile::create(path, force)?;
        let file = BufWriter::with_capacity(BUFFER, file);
        let (crc, tokens) = (crc32fast::Hasher::new(), header.tokens());
        let mut writer = StatsWriter { target, file, crc, tokens };
        writer.put(&header.to_bytes())?;
        Ok(writer)
    }

    /// Writes the statistics of the next layer; those of the head are the last.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn layer(&mut self, stats: &LayerStats) -> Result<()> {
        if let Some(influence) = stats.influence {
            let (layer, tokens) = (stats.layer, self.tokens);
            self.head(Head { layer, what: What::Influence, products: false, cols: 1, tokens })?;
            self.put(&influence.to_le_bytes())?;
            self.end_record()?;
        }
        for (input, moments) in &stats.inputs {
            let cols = u32::try_from(moments.cols()).map_err(|_| {
                RuntimeError::Request(format!("{} columns do not fit a statistics file", moments.cols()))
            })?;
            let products = moments.detail() == Detail::Full;
            let what = What::Input(*input);
            self.head(Head { layer: stats.layer, what, products, cols, tokens: moments.tokens() })?;
            put_moments(moments, |bytes| self.put(bytes))?;
            self.end_record()?;
        }
        Ok(())
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// When the system refuses, or a file of that name has come into being.
    pub fn finish(mut self) -> Result<()> {
        let tokens = self.tokens;
        self.head(Head { layer: None, what: What::End, products: false, cols: 0, tokens })?;
        self.end_record()?;
        let flushed = self.file.flush();
        flushed.map_err(|e| RuntimeError::io(self.target.partial(), "write", e))?;
        self.target.publish(self.file.get_ref())?;
        Ok(())
    }

    fn head(&mut self, head: Head) -> Result<()> {
        self.crc = crc32fast::Hasher::new();
        self.put(&head.to_bytes())
    }

    fn end_record(&mut self) -> Result<()> {
        let crc = std::mem::take(&mut self.crc).finalize();
        self.put(&crc.to_le_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        self.file.write_all(bytes).map_err(|e| RuntimeError::io(self.target.partial(), "write", e))
    }
}
