//! Single kernels without a model: weight matrix times activations, for every type, from cache and from memory.

use std::time::Instant;

use qsf_format::{BlockSize, Layout, QuantType};
use serde::Serialize;

use super::machine::Caches;
use crate::decoder::{Activations, LEAST_WIDE_TOKENS};
use crate::error::{Result, RuntimeError};
use crate::linear::{Input, Products};
use crate::tensor::Tensor;
use qsf_cpu::{AlignedFloats, Cpu, Int8Rows, Int8x128Rows, KernelTable};

/// Columns of every matrix.
const COLS: usize = 2048;
/// Tokens that are multiplied at a time: decoding, that of some sequences together, a short prompt, a full step of a long one.
const TOKENS: [usize; 4] = [1, 8, 64, 512];
/// Rows are a multiple of this for each thread: whole panels.
const ROWS: usize = 16;
/// Least size of a matrix in memory.
const LEAST_BYTES: usize = 128 << 20;
/// Seconds that one test measures.
const SECONDS: f64 = 0.3;
/// Calls together take at least this long, so that reading the clock does not count.
const SAMPLE_SECONDS: f64 = 0.002;
/// A test of which a single call takes longer is left out.
const MOST_SECONDS: f64 = 5.0;

/// Where the weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Residence {
    /// Half of the second-level cache of each thread's core.
    Cache,
    /// Four times the last-level caches.
    Memory,
}

impl Residence {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Residence::Cache => "cache",
            Residence::Memory => "memory",
        }
    }
}

/// One kernel, number of tokens and place of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KernelTest {
    /// Type of the weights.
    #[serde(rename = "type")]
    pub quant: QuantType,
    /// Tokens multiplied at a time.
    pub tokens: usize,
    /// Where the weights are.
    pub weights_in: Residence,
    /// What they are multiplied with.
    #[serde(serialize_with = "name_of")]
    pub activations: Activations,
}

fn name_of<S: serde::Serializer>(activations: &Activations, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(activations.name())
}

/// What was measured of a [`KernelTest`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelRow {
    /// The test.
    #[serde(flatten)]
    pub test: KernelTest,
    /// Threads.
    pub threads: usize,
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Bytes of the weights.
    pub weight_bytes: usize,
    /// Of one call: the fastest of the samples.
    pub seconds: f64,
    /// 10^9 weights times tokens per second.
    pub gweights_per_second: f64,
    /// Weights read per second, in GB (10^9 bytes); each once per call.
    pub gb_per_second: f64,
    /// Weights times tokens per cycle and core, by the clock of [`clock_ghz`](super::clock_ghz).
    pub weights_per_cycle_and_core: f64,
}

/// Every test that these kernels can run and whose name contains `filter`.
pub fn kernel_tests(kernels: &KernelTable, filter: &str) -> Vec<KernelTest> {
    let mut tests = Vec::new();
    for quant in QuantType::ALL {
        let default = if quant.is_float() { Activations::F32 } else { Activations::Int8 };
        for tokens in TOKENS {
            for weights_in in [Residence::Cache, Residence::Memory] {
                let test = KernelTest { quant, tokens, weights_in, activations: default };
                tests.push(test);
                if kernels.wide(quant).is_some() && tokens >= LEAST_WIDE_TOKENS {
                    tests.push(KernelTest { activations: Activations::Int8Wide, ..test });
                }
            }
        }
    }
    tests.retain(|test| test.name().contains(filter));
    tests
}

impl KernelTest {
    /// `type/tokens/place`: `4bit/1/memory`; in wide groups `4bit/64/memory/int8-128`.
    pub fn name(&self) -> String {
        let wide = if self.activations == Activations::Int8Wide { "/int8-128" } else { "" };
        format!("{}/{}/{}{wide}", self.quant, self.tokens, self.weights_in.name())
    }

    /// Measures on the threads of `cpu`, with the clock at `clock` GHz. `None` where a single call would take longer
    /// than a few seconds.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn run(&self, cpu: &Cpu, clock: f64) -> Result<Option<KernelRow>> {
        let caches = Caches::detect();
        let bytes = match self.weights_in {
            Residence::Cache => caches.second / 2 * cpu.threads(),
            Residence::Memory => caches.last.saturating_mul(4).max(LEAST_BYTES),
        };
        self.run_sized(cpu, clock, bytes)
    }

    fn run_sized(&self, cpu: &Cpu, clock: f64, bytes: usize) -> Result<Option<KernelRow>> {
        let threads = cpu.threads();
        let row_bytes = self.quant.row_bytes(BLOCK, COLS as u64).unwrap_or(u64::MAX) as usize;
        let step = ROWS * threads;
        let rows = (bytes / row_bytes / step * step).max(step);
        let weight = weights(self.quant, rows)?;
        let x: Vec<f32> = (0..self.tokens * COLS).map(|i| ((i * 7_919) % 2_003) as f32 / 1e3 - 1.0).collect();
        let (mut int8, mut wide) = (Int8Rows::new(), Int8x128Rows::new());
        let input = match self.activations {
            Activations::F32 => Input::float(&x, COLS),
            Activations::Int8 => {
                int8.quantize(cpu, &x, self.tokens, COLS);
                Input::with_int8(&x, COLS, &int8)
            }
            Activations::Int8Wide => {
                wide.quantize(cpu, &x, self.tokens, COLS);
                Input::with_wide(&x, COLS, &wide)
            }
        };
        let mut out = AlignedFloats::zeros(self.tokens * rows, "results")?;
        let call = |rows: usize, out: &mut [f32], calls: usize| {
            let part = weight.slice_rows(0..rows);
            let started = Instant::now();
            for _ in 0..calls {
                cpu.linear(std::hint::black_box(&part), None, &input, out);
            }
            started.elapsed().as_secs_f64() / calls as f64
        };
        // A small part tells whether the whole is bearable.
        let few = step.min(rows);
        call(few, &mut out[..self.tokens * few], 1);
        if call(few, &mut out[..self.tokens * few], 1) * (rows / few) as f64 > MOST_SECONDS {
            return Ok(None);
        }
        let once = call(rows, &mut out, 1);
        let calls = (SAMPLE_SECONDS / once).ceil().max(1.0) as usize;
        let mut seconds = f64::INFINITY;
        let started = Instant::now();
        let mut samples = 0;
        while samples < 3 || started.elapsed().as_secs_f64() < SECONDS {
            seconds = seconds.min(call(rows, &mut out, calls));
            samples += 1;
        }
        let work = (rows * COLS * self.tokens) as f64;
        let kernels = cpu.kernels().entries().filter(|entry| entry.quant == self.quant);
        let path = self.activations.name();
        Ok(Some(KernelRow {
            test: *self,
            threads,
            kernel: kernels
                .filter(|entry| entry.path == path)
                .map(|entry| entry.kernel)
                .next()
                .unwrap_or("-"),
            rows,
            cols: COLS,
            weight_bytes: rows * row_bytes,
            seconds,
            gweights_per_second: work / seconds / 1e9,
            gb_per_second: (rows * row_bytes) as f64 / seconds / 1e9,
            weights_per_cycle_and_core: work / seconds / 1e9 / (clock * threads as f64),
        }))
    }
}

const BLOCK: BlockSize = BlockSize::B64;

/// A matrix of `rows` rows in the order that files have it in.
fn weights(quant: QuantType, rows: usize) -> Result<Tensor> {
    let refused = |bytes: u64| RuntimeError::OutOfMemory { what: "weights of a kernel test".into(), bytes };
    let len = quant.tensor_bytes(BLOCK, rows as u64, COLS as u64).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len as usize).map_err(|_| refused(len))?;
    // Whatever number ends with one of these bytes is neither infinite nor subnormal, which some processors multiply twenty times
    // as slowly.
    let pattern: Vec<u8> =
        (0..4099_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 & 0x2F | 0x10).collect();
    while bytes.len() < len as usize {
        bytes.extend_from_slice(&pattern[..pattern.len().min(len as usize - bytes.len())]);
    }
    let layout = if quant.is_float() { Layout::Rows } else { Layout::Panels16 };
    Tensor::with_layout(rows, COLS, quant, BLOCK, layout, bytes.into())
        .map_err(|expected| refused(expected.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsf_cpu::Isa;

    #[test]
    fn a_filter_chooses_types_tokens_and_places() {
        let kernels = KernelTable::of(Isa::best());
        let names =
            |filter: &str| kernel_tests(kernels, filter).iter().map(KernelTest::name).collect::<Vec<_>>();
        assert_eq!(names("4bit/1/"), ["4bit/1/cache", "4bit/1/memory"]);
        let wide = names("/int8-128");
        assert_eq!(names("").len(), QuantType::ALL.len() * 4 * 2 + wide.len());
        assert_eq!(kernels.has_wide(), wide.contains(&"t2/512/cache/int8-128".to_owned()));
        assert_eq!(names("no such"), Vec::<String>::new());
    }

    #[test]
    fn every_type_is_measured_in_numbers_that_fit_together() {
        let cpu = Cpu::with_threads(Isa::best(), 2).unwrap();
        for test in kernel_tests(cpu.kernels(), "64/cache") {
            let row = test.run_sized(&cpu, 2.0, 100_000).unwrap().unwrap();
            assert!(row.rows.is_multiple_of(32) && row.kernel != "-", "{row:?}");
            let weights = (row.rows * row.cols) as f64;
            assert!((row.gweights_per_second * 1e9 * row.seconds / (64.0 * weights) - 1.0).abs() < 1e-9);
            assert!((row.gb_per_second * 1e9 * row.seconds / row.weight_bytes as f64 - 1.0).abs() < 1e-9);
            assert!((row.weights_per_cycle_and_core * 4.0 / row.gweights_per_second - 1.0).abs() < 1e-9);
        }
    }
}
