//! `--stats-only` and `--merge-stats`: statistics files, and nothing converted.

use qsf_calibration::tokens_of_part;
use qsf_converter::{
    Calibration, ConvertError, StatisticsFile, calibrate, collect_statistics, merge_statistics,
    predict_statistics_peak, tell_parts, write_calibration, writing_bytes,
};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{RuntimeError, WorkPart};
use serde_json::{Value, json};

use super::args::ConvertArgs;
use super::choose::text_tokens;
use super::model::open_model;
use super::outputs::check_outputs;
use super::ram::Ram;
use crate::json_document::document;

/// What is said of a statistics file that was written.
const STATISTICS_FILE: &str = "statistics_file";

/// What `--stats-only` takes, for whoever has to find a machine for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatisticsDemand {
    /// Peak of resident memory, of a process such as this.
    pub bytes: u64,
    /// Tokens that go through the model.
    pub tokens: usize,
}

/// Does what `--stats-only` or `--merge-stats` asks for, and gives what `--json` prints; `None` without either flag.
///
/// # Errors
/// When model, text or a file cannot be read or written, or the user interrupts.
pub fn statistics_json(
    args: &ConvertArgs,
    cpu: impl FnOnce() -> anyhow::Result<Cpu>,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Option<Value>> {
    let Some(out) = args.stats_out.as_deref().filter(|_| args.stats_only || !args.merge_stats.is_empty())
    else {
        return Ok(None);
    };
    let path = out.display().to_string();
    if !args.merge_stats.is_empty() {
        check_outputs(args, None, None)?;
        let header = merge_statistics(&args.merge_stats, out, args.force)?;
        let (tokens, texts) = (header.tokens(), header.texts.len());
        let members = json!({ "path": path, "tokens": tokens, "texts": texts, "part": null });
        return Ok(Some(document(STATISTICS_FILE, members)));
    }
    let cpu = cpu()?;
    let (_, source) = open_model(args, None, progress, cancel)?;
    let source = source.as_ref();
    check_outputs(args, Some(source), None)?;
    let mut text = calibrate(source, &args.calibration, text_tokens(args, source), args.chat_template)?;
    let part = args.stats_part.unwrap_or(WorkPart::ALL);
    let ram = Ram::of(args);
    ram.check(|| {
        bytes_of_statistics(source, &text, tokens_of_part(source.config(), &text.tokens, part)?.len())
    })?;
    write_calibration(source, &mut text, &cpu, progress, cancel)?;
    tell_parts(&text, progress);
    let tokens = tokens_of_part(source.config(), &text.tokens, part)?;
    let file = StatisticsFile { path: out, force: args.force };
    ram.watch(cancel, || Ok(collect_statistics(source, tokens, file, &cpu, progress, cancel)?))?;
    let part = args.stats_part.map(|part| part.to_string());
    let members = json!({ "path": path, "tokens": tokens.len(), "texts": 1, "part": part });
    Ok(Some(document(STATISTICS_FILE, members)))
}

/// A line for people of what [`statistics_json`] found.
pub(super) fn statistics_line(found: &Value) -> String {
    let field = |name: &str| found[name].as_str().unwrap_or_default();
    let of = match (field("part"), found["texts"].as_u64()) {
        ("", Some(texts)) if texts > 1 => format!(" of {texts} texts"),
        ("", _) => String::new(),
        (part, _) => format!(", part {part} of the text"),
    };
    format!("{}: statistics of {} tokens{of}\n", field("path"), found["tokens"])
}

/// What `--stats-only` with these flags takes.
///
/// # Errors
/// When model or text cannot be read, or the text has fewer sequences than parts.
pub fn statistics_demand(
    args: &ConvertArgs,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<StatisticsDemand> {
    if !args.stats_only {
        return Err(RuntimeError::Request("expected --stats-only".into()).into());
    }
    let (_, source) = open_model(args, None, progress, cancel)?;
    let source = source.as_ref();
    let text = calibrate(source, &args.calibration, text_tokens(args, source), args.chat_template)?;
    let tokens =
        tokens_of_part(source.config(), &text.tokens, args.stats_part.unwrap_or(WorkPart::ALL))?.len();
    Ok(StatisticsDemand { bytes: bytes_of_statistics(source, &text, tokens)?, tokens })
}

/// Peak of resident memory of collecting statistics of `tokens` tokens of `text`.
fn bytes_of_statistics(
    source: &dyn WeightSource,
    text: &Calibration,
    tokens: usize,
) -> Result<u64, ConvertError> {
    let collecting = predict_statistics_peak(source, tokens)?;
    Ok(if text.written.is_some() { collecting.max(writing_bytes(source)?) } else { collecting })
}
