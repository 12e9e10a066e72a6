//! `--kernel`: single kernels with each of the numbers of threads.

use qsf_runtime::RuntimeError;
use qsf_runtime::bench::{KernelRow, clock_ghz, kernel_tests};
use qsf_runtime::cpu::{Isa, KernelTable};
use qsf_runtime::progress::{Cancel, Progress};
use serde::Serialize;

#[cfg(feature = "gpu")]
use super::gpu_kernel::run_gpu_kernels as on_gpu;
use super::sheet::Sheet;
use super::{BenchArgs, OutputFormat};
use crate::compute::ComputeArgs;
use crate::console::print;
use crate::json_document::document;
#[cfg(not(feature = "gpu"))]
use crate::model_args::built_without;
use crate::model_args::{Device, DeviceArgs};
use crate::progress::ProgressLine;

/// What `--kernel` found; the fields are those of the JSON, described in docs/performance.md.
#[derive(Debug, Serialize)]
struct KernelReport {
    version: &'static str,
    isa: &'static str,
    clock_ghz: f64,
    rows: Vec<KernelRow>,
}

/// Measures the kernels whose names contain the filter and prints what was found.
///
/// # Errors
/// When the filter fits none, there is no such device, memory runs out or the user interrupts.
pub fn run_kernels(
    args: &BenchArgs,
    device: DeviceArgs,
    compute: &ComputeArgs,
    json: bool,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    if device.device == Device::Gpu {
        if !compute.threads.is_empty() || compute.pin {
            let of_cpu =
                "--threads and --pin: not with --kernel --device gpu, which the processor only waits for";
            return Err(RuntimeError::Request(of_cpu.into()).into());
        }
        return on_gpu(args, json, cancel);
    }
    let filter = args.kernel.as_deref().unwrap_or_default();
    let tests = kernel_tests(KernelTable::of(Isa::from_env()?), filter);
    if tests.is_empty() {
        let example = "expected a part of a name such as 4bit/1/cache or f16/512/memory";
        return Err(RuntimeError::Request(format!("--kernel {filter}: {example}")).into());
    }
    let progress = ProgressLine::default();
    let clock_ghz = clock_ghz();
    let (mut rows, mut isa) = (Vec::new(), "");
    for threads in compute.counts()? {
        let cpu = compute.cpu(threads)?;
        isa = cpu.isa().name();
        progress.begin("kernels", tests.len() as u64);
        for test in &tests {
            cancel.check()?;
            match test.run(&cpu, clock_ghz)? {
                Some(row) => rows.push(row),
                None => progress.note(&format!("{} left out: a single call takes too long", test.name())),
            }
            progress.advance(1);
        }
        progress.end();
    }
    let report = KernelReport { version: env!("CARGO_PKG_VERSION"), isa, clock_ghz, rows };
    print(&match args.format_of(json) {
        OutputFormat::Table => report.text(),
        OutputFormat::Json => format!("{:#}\n", document("kernels", serde_json::to_value(&report)?)),
        OutputFormat::Csv => report.full_sheet().to_csv(),
        OutputFormat::Md => report.sheet().to_markdown(),
    })?;
    Ok(())
}

#[cfg(not(feature = "gpu"))]
fn on_gpu(_: &BenchArgs, _: bool, _: &Cancel) -> anyhow::Result<()> {
    Err(built_without().into())
}

impl KernelReport {
    fn text(&self) -> String {
        format!("{}, {:.2} GHz as measured\n{}", self.isa, self.clock_ghz, self.sheet().to_table())
    }

    fn sheet(&self) -> Sheet {
        let row = |row: &KernelRow| {
            vec![
                row.test.name(),
                row.kernel.to_owned(),
                row.threads.to_string(),
                format!("{} x {}", row.rows, row.cols),
                format!("{:.2}", row.gweights_per_second),
                format!("{:.2}", row.gb_per_second),
                format!("{:.2}", row.weights_per_cycle_and_core),
            ]
        };
        let header = vec![
            "type/tokens/from",
            "kernel",
            "threads",
            "shape",
            "Gweights/s",
            "GB/s",
            "weights/cycle/core",
        ];
        Sheet { header, text_columns: 2, rows: self.rows.iter().map(row).collect() }
    }

    fn full_sheet(&self) -> Sheet {
        let row = |row: &KernelRow| {
            vec![
                self.isa.to_owned(),
                row.test.quant.to_string(),
                row.kernel.to_owned(),
                row.test.weights_in.name().to_owned(),
                row.test.tokens.to_string(),
                row.threads.to_string(),
                row.rows.to_string(),
                row.cols.to_string(),
                row.weight_bytes.to_string(),
                row.seconds.to_string(),
                row.gweights_per_second.to_string(),
                row.gb_per_second.to_string(),
                row.weights_per_cycle_and_core.to_string(),
            ]
        };
        let header = vec![
            "isa",
            "type",
            "kernel",
            "weights_in",
            "tokens",
            "threads",
            "rows",
            "cols",
            "weight_bytes",
            "seconds",
            "gweights_per_second",
            "gb_per_second",
            "weights_per_cycle_and_core",
        ];
        Sheet { header, text_columns: 4, rows: self.rows.iter().map(row).collect() }
    }
}
