//! `--kernel --device gpu`: single kernels of a graphics processor.

use qsf_runtime::RuntimeError;
use qsf_runtime::gpu::{AdapterSummary, Gpu, GpuKernelBench, GpuKernelRow};
use qsf_runtime::progress::{Cancel, Progress};
use serde::Serialize;

use super::sheet::Sheet;
use super::{BenchArgs, OutputFormat};
use crate::console::print;
use crate::json_document::document;
use crate::progress::ProgressLine;

/// What was found; the fields are those of the JSON, described in docs/performance.md.
#[derive(Debug, Serialize)]
struct GpuKernelReport {
    version: &'static str,
    adapter: AdapterSummary,
    read_gb_per_second: f64,
    rows: Vec<GpuKernelRow>,
}

/// Measures the kernels whose names contain the filter and prints what was found.
///
/// # Errors
/// When the filter fits none, there is no device, its memory runs out or the user interrupts.
pub fn run_gpu_kernels(args: &BenchArgs, json: bool, cancel: &Cancel) -> anyhow::Result<()> {
    let filter = args.kernel.as_deref().unwrap_or_default();
    let bench = GpuKernelBench::new(Gpu::open(true)?)?;
    let tests = bench.tests(filter);
    if tests.is_empty() {
        let example =
            "expected a part of a name such as 4bit/1 or f16/512 (512 where there are matrix units)";
        return Err(RuntimeError::Request(format!("--kernel {filter}: {example}")).into());
    }
    let progress = ProgressLine::default();
    progress.begin("kernels", tests.len() as u64);
    let mut rows = Vec::new();
    for (quant, tokens) in tests {
        cancel.check()?;
        rows.push(bench.run(quant, tokens)?);
        progress.advance(1);
    }
    progress.end();
    let report = GpuKernelReport {
        version: env!("CARGO_PKG_VERSION"),
        adapter: bench.gpu().summary().clone(),
        read_gb_per_second: bench.read_gb_per_second,
        rows,
    };
    print(&match args.format_of(json) {
        OutputFormat::Table => report.text(),
        OutputFormat::Json => format!("{:#}\n", document("gpu_kernels", serde_json::to_value(&report)?)),
        OutputFormat::Csv => report.sheet().to_csv(),
        OutputFormat::Md => report.sheet().to_markdown(),
    })?;
    Ok(())
}

impl GpuKernelReport {
    fn text(&self) -> String {
        format!(
            "{} ({}), a plain sum reads {:.0} GB/s\n{}",
            self.adapter.name,
            self.adapter.backend,
            self.read_gb_per_second,
            self.sheet().to_table()
        )
    }

    fn sheet(&self) -> Sheet {
        let row = |row: &GpuKernelRow| {
            vec![
                format!("{}/{}", row.quant, row.tokens),
                row.kernel.to_owned(),
                format!("{} x {}", row.rows, row.cols),
                format!("{:.1}", row.gweights_per_second),
                format!("{:.1}", row.gb_per_second),
                format!("{:.1}", 100.0 * row.share_of_read),
            ]
        };
        let header = vec!["type/tokens", "kernel", "shape", "Gweights/s", "GB/s", "% of sum"];
        Sheet { header, text_columns: 2, rows: self.rows.iter().map(row).collect() }
    }
}
