//! Where the statistics of the unchanged model come from: the calibration text, or files that were made of texts before.

use std::path::PathBuf;

use qsf_calibration::{
    Detail, LayerStats, MergedStats, StatsHeader, StatsWriter, TextMark, for_each_layer, hex,
    model_fingerprint, text_fingerprint,
};
use qsf_runtime::source::WeightSource;

use crate::error::{ConvertError, Result};
use crate::job::Tools;

/// Statistics to read, and where to write what is collected.
pub(crate) struct StatsFiles {
    read: Option<MergedStats>,
    write: Option<PathBuf>,
    /// Replace what is there.
    force: bool,
}

impl StatsFiles {
    /// Opens the files to read, which must be of this model.
    pub fn open(
        source: &dyn WeightSource,
        read: &[PathBuf],
        write: Option<PathBuf>,
        force: bool,
    ) -> Result<StatsFiles> {
        let mut files = StatsFiles { read: None, write, force };
        if !read.is_empty() {
            let merged = MergedStats::open(read)?;
            merged.check_model(&model_fingerprint(source)?)?;
            files.read = Some(merged);
        }
        Ok(files)
    }

    /// Fingerprints of the texts that the files to read are of; `None` without such files.
    pub fn texts(&self) -> Option<Vec<String>> {
        self.read.as_ref().map(|merged| merged.header().texts.iter().map(|text| hex(&text.hash)).collect())
    }

    /// Whether statistics are to be written, so that they have to be collected whatever a journal has.
    pub fn writes(&self) -> bool {
        self.write.is_some()
    }

    /// Hands the statistics to `visit`, layer by layer, those of the head last.
    pub fn for_each_layer(
        &mut self,
        source: &dyn WeightSource,
        tools: &Tools<'_>,
        mut visit: impl FnMut(LayerStats) -> Result<()>,
    ) -> Result<()> {
        if let Some(merged) = &mut self.read {
            for layer in (0..source.config().layers).map(Some).chain([None]) {
                tools.cancel.check()?;
                visit(merged.layer(layer)?)?;
            }
            return Ok(());
        }
        let Tools { cpu, tokens, progress, cancel } = *tools;
        let mut writer = match &self.write {
            Some(path) => {
                let texts = vec![TextMark { hash: text_fingerprint(tokens), tokens: tokens.len() as u64 }];
                let header = StatsHeader { model: model_fingerprint(source)?, texts };
                Some(StatsWriter::create(path, self.force, &header)?)
            }
            None => None,
        };
        for_each_layer::<ConvertError>(source, cpu, tokens, Detail::Full, progress, cancel, |stats| {
            if let Some(writer) = &mut writer {
                writer.layer(&stats)?;
            }
            visit(stats)
        })?;
        if let Some(writer) = writer {
            writer.finish()?;
            // They are there; whoever needs them again collects what it needs.
            self.write = None;
        }
        Ok(())
    }
}
