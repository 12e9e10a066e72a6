//! Several statistics files of one model as one: sums add up.

use std::path::Path;

use qsf_runtime::file_hash::hex;
use qsf_runtime::fingerprint::Hash;
use qsf_runtime::{Result, RuntimeError};

use super::header::StatsHeader;
use super::reader::StatsReader;
use super::writer::StatsWriter;
use crate::layer_stats::LayerStats;
use crate::statistics::Statistics;

/// Statistics files that are added up, layer by layer, in the order in which they are given: the same files in the same order
/// give the same bits.
pub struct MergedStats {
    readers: Vec<StatsReader>,
    header: StatsHeader,
}

impl MergedStats {
    /// Opens the files.
    ///
    /// # Errors
    /// When there are none, one is damaged, or two are of different models.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<MergedStats> {
        let readers =
            paths.iter().map(|path| StatsReader::open(path.as_ref())).collect::<Result<Vec<_>>>()?;
        let Some(first) = readers.first() else {
            return Err(RuntimeError::Request("no statistics file was named".into()));
        };
        let mut header = StatsHeader { model: first.header().model, texts: Vec::new() };
        for reader in &readers {
            if reader.header().model != header.model {
                let place = "the model that the statistics are of";
                let expected = format!("{}, as in {}", hex(&header.model), first.path().display());
                let found = hex(&reader.header().model);
                return Err(RuntimeError::bad_input(reader.path(), place, expected, found));
            }
            header.texts.extend(&reader.header().texts);
        }
        Ok(MergedStats { readers, header })
    }

    /// What the statistics are of.
    pub fn header(&self) -> &StatsHeader {
        &self.header
    }

    /// Refuses statistics of another model.
    ///
    /// # Errors
    /// Names the file, and both fingerprints, when the model is not that of `model`.
    pub fn check_model(&self, model: &Hash) -> Result<()> {
        match self.readers.first() {
            Some(first) if self.header.model != *model => {
                let place = "the model that the statistics are of";
                Err(RuntimeError::bad_input(first.path(), place, hex(model), hex(&self.header.model)))
            }
            _ => Ok(()),
        }
    }

    /// Every layer that a file has statistics of, and `None` for the head, in order.
    pub fn layers(&self) -> Vec<Option<u32>> {
        let mut layers: Vec<_> = self.readers.iter().flat_map(StatsReader::layers).collect();
        layers.sort_by_key(|layer| layer.unwrap_or(u32::MAX));
        layers.dedup();
        layers
    }

    /// The sums of all files for one layer, or the head.
    ///
    /// # Errors
    /// When a file is damaged, or two contradict each other.
    pub fn layer(&mut self, layer: Option<u32>) -> Result<LayerStats> {
        let mut all = LayerStats { layer, ..LayerStats::default() };
        let (mut influence, mut tokens) = (0.0, 0.0);
        for reader in &mut self.readers {
            let stats = reader.layer(layer)?;
            if let Some(found) = stats.influence {
                influence += found * reader.header().tokens() as f64;
                tokens += reader.header().tokens() as f64;
            }
            for (input, moments) in stats.inputs {
                let Some(sum) = all.inputs.get_mut(&input) else {
                    all.inputs.insert(input, moments);
                    continue;
                };
                if sum.cols() != moments.cols() {
                    let place = format!("input {input:?} of layer {layer:?}");
                    let columns = |cols| format!("{cols} columns");
                    let (expected, found) = (columns(sum.cols()), columns(moments.cols()));
                    return Err(RuntimeError::bad_input(reader.path(), place, expected, found));
                }
                sum.merge(&moments);
            }
        }
        all.influence = (tokens > 0.0).then(|| influence / tokens);
        Ok(all)
    }

    /// Everything at once, without the products where `diagonal` says that these are not needed.
    ///
    /// # Errors
    /// As [`MergedStats::layer`].
    pub fn statistics(&mut self, diagonal: bool) -> Result<Statistics> {
        let layers = self.layers().into_iter().map(|layer| {
            let mut stats = self.layer(layer)?;
            if diagonal {
                stats.inputs.values_mut().for_each(crate::moments::Moments::forget_products);
            }
            Ok(stats)
        });
        let layers = layers.collect::<Result<Vec<_>>>()?;
        Ok(Statistics::new(self.header.tokens(), layers))
    }

    /// Writes the sums into the file `out`.
    ///
    /// # Errors
    /// As [`MergedStats::layer`] and [`StatsWriter::create`].
    pub fn write(&mut self, out: &Path, force: bool) -> Result<()> {
        let mut writer = StatsWriter::create(out, force, &self.header)?;
        for layer in self.layers() {
            writer.layer(&self.layer(layer)?)?;
        }
        writer.finish()
    }
}
