//! Where the statistics of the unchanged model come from: the calibration text, or files that were made of texts before.

use std::path::{Path, PathBuf};

use qsf_calibration::{Detail, LayerStats, MergedStats, StatsHeader, StatsWriter, TextMark, for_each_layer};
use qsf_format::FormatError;
use qsf_runtime::RuntimeError;
use qsf_runtime::file_hash::hex;
use qsf_runtime::fingerprint::{model_fingerprint, text_fingerprint};
use qsf_runtime::source::WeightSource;
use serde_json::{Map, Value, json};

use crate::error::{ConvertError, Result};
use crate::imatrix::{ImatrixWriter, ModelImatrix, is_imatrix};
use crate::options::ConvertOptions;
use crate::session::Session;

/// Statistics to read, and where to write what is collected.
pub(crate) struct StatsFiles {
    read: Option<Known>,
    /// Fingerprints of the texts of the files that the user gave to read.
    texts: Option<Vec<String>>,
    write: Option<PathBuf>,
    /// Replace what is there.
    force: bool,
}

/// Statistics that are there.
enum Known {
    Sums(MergedStats),
    /// Of llama.cpp.
    Imatrix(ModelImatrix),
}

impl Known {
    fn layer(&mut self, layer: Option<u32>) -> Result<LayerStats> {
        match self {
            Known::Sums(merged) => Ok(merged.layer(layer)?),
            Known::Imatrix(imatrix) => Ok(imatrix.layer(layer)),
        }
    }
}

/// A file of statistics to write, in the form that its name asks for.
enum Writer {
    Sums(StatsWriter),
    Imatrix(ImatrixWriter),
}

impl Writer {
    fn layer(&mut self, stats: &LayerStats) -> Result<()> {
        match self {
            Writer::Sums(writer) => writer.layer(stats)?,
            Writer::Imatrix(writer) => writer.layer(stats),
        }
        Ok(())
    }
}

/// Whether statistics are written as an importance matrix of llama.cpp.
fn as_imatrix(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
}

impl StatsFiles {
    /// Opens the files to read, which must be of this model. A file to write that is there already, of this model and these
    /// tokens, is whole: an earlier run that was stopped later wrote it, and it is read instead.
    pub fn open(
        source: &dyn WeightSource,
        read: &[PathBuf],
        write: Option<PathBuf>,
        tokens: &[u32],
        force: bool,
    ) -> Result<StatsFiles> {
        let mut files = StatsFiles { read: None, texts: None, write, force };
        let imatrix = read.iter().find(|path| is_imatrix(path));
        if let Some(path) = imatrix {
            if read.len() > 1 || !tokens.is_empty() {
                let problem = format!(
                    "{}: an importance matrix of llama.cpp takes the place of all texts and statistics: leave out --calibration, \
                     targets of size and other statistics",
                    path.display()
                );
                return Err(RuntimeError::Request(problem).into());
            }
            let found = ModelImatrix::open(source, path)?;
            files.texts = Some(vec![found.sha256.clone()]);
            files.read = Some(Known::Imatrix(found));
        } else if !read.is_empty() {
            let merged = MergedStats::open(read)?;
            merged.check_model(&model_fingerprint(source)?)?;
            files.texts = Some(merged.header().texts.iter().map(|text| hex(&text.hash)).collect());
            files.read = Some(Known::Sums(merged));
        }
        if let Some(path) = files.write.as_ref().filter(|path| as_imatrix(path)) {
            // That llama.cpp has names for the model is known before the work.
            ImatrixWriter::create(path, force, source)?;
        } else if let Some(path) = files.write.as_ref().filter(|path| !force && path.exists()) {
            let there = MergedStats::open(&[path]).ok();
            let Some(there) =
                there.filter(|there| header(source, tokens).is_ok_and(|h| h == *there.header()))
            else {
                return Err(FormatError::Exists { path: path.clone() }.into());
            };
            files.read = Some(Known::Sums(there));
            files.write = None;
        }
        Ok(files)
    }

    /// Fingerprints of the texts that the files of `--stats-in` are of; `None` without such files.
    pub fn texts(&self) -> Option<&[String]> {
        self.texts.as_deref()
    }

    /// `options` as META has them.
    pub fn recorded(&self, options: &ConvertOptions) -> Map<String, Value> {
        let mut recorded = options.normalised();
        recorded.insert("statistics".into(), json!(self.texts()));
        recorded
    }

    /// Whether statistics are to be written, so that they have to be collected whatever a journal has.
    pub fn writes(&self) -> bool {
        self.write.is_some()
    }

    /// Hands the statistics to `visit`, layer by layer, those of the head last.
    pub fn for_each_layer(
        &mut self,
        source: &dyn WeightSource,
        session: &Session<'_>,
        mut visit: impl FnMut(LayerStats) -> Result<()>,
    ) -> Result<()> {
        if let Some(merged) = &mut self.read {
            for layer in (0..source.config().layers).map(Some).chain([None]) {
                session.cancel.check()?;
                visit(merged.layer(layer)?)?;
            }
            return Ok(());
        }
        let Session { cpu, tokens, progress, cancel } = *session;
        let mut writer = match &self.write {
            Some(path) if as_imatrix(path) => {
                Some(Writer::Imatrix(ImatrixWriter::create(path, self.force, source)?))
            }
            Some(path) => {
                Some(Writer::Sums(StatsWriter::create(path, self.force, &header(source, tokens)?)?))
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
            match writer {
                Writer::Sums(writer) => writer.finish()?,
                Writer::Imatrix(writer) => {
                    writer.finish(vec![hex(&text_fingerprint(tokens))], tokens.len())?;
                }
            }
            // They are there; whoever needs them again collects what it needs.
            self.write = None;
        }
        Ok(())
    }

    /// The statistics of a layer, of files that are read.
    pub fn layer(&mut self, layer: u32) -> Result<LayerStats> {
        self.read.as_mut().map_or(Ok(LayerStats::default()), |known| known.layer(Some(layer)))
    }

    /// What the head reads in the unchanged model, of files that are read.
    ///
    /// # Errors
    /// When they are damaged.
    pub fn head(&mut self) -> Result<LayerStats> {
        self.read.as_mut().map_or(Ok(LayerStats::default()), |known| known.layer(None))
    }
}

/// What statistics of a text are known by.
fn header(source: &dyn WeightSource, tokens: &[u32]) -> Result<StatsHeader> {
    let texts = vec![TextMark { hash: text_fingerprint(tokens), tokens: tokens.len() as u64 }];
    Ok(StatsHeader { model: model_fingerprint(source)?, texts })
}
