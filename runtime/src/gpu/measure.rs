//! Single kernels without a model: weight matrix times activations for every type, beside how fast the device reads at all.

use std::sync::Arc;
use std::time::Instant;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{BUILT_IN, BlockSize, QuantType};
use serde::Serialize;
use wgpu::Buffer;

use super::device::Gpu;
use super::dispatch::{Bound, Dispatcher};
use super::kernels::Kernel;
use super::panels::panel_bytes;
use super::step::multiply::{TokenRows, Way, few, many};
use super::step::{Command, MANY, padded};
use super::weights::GpuMatrix;
use super::wgsl::codes::PanelCodes;
use super::wgsl::mat_vec::{MatVec, Output};
use super::wgsl::sum;
use crate::error::Result;

/// Columns of every matrix.
const COLS: usize = 4096;
/// Rows, where buffers can be so large: a vocabulary.
const ROWS: usize = 131_072;
/// Tokens that are multiplied at a time: decoding, a full step of a prompt.
const TOKENS: [usize; 2] = [1, 512];
/// Bytes that are added up to see how fast the device reads: more than its caches hold, where it has so much.
const SUM_BYTES: u64 = 300 << 20;
/// Seconds that one test measures.
const SECONDS: f64 = 0.3;
/// Calls together take at least this long, so that handing them over does not count.
const SAMPLE_SECONDS: f64 = 0.02;
/// Calls of a sample.
const MOST_CALLS: usize = 500;

/// What was measured of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuKernelRow {
    /// Type of the weights.
    #[serde(rename = "type")]
    pub quant: QuantType,
    /// Tokens multiplied at a time.
    pub tokens: usize,
    /// How: in floats, in integers, or on matrix units.
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
    /// That, as a share of what the plain sum reads.
    pub share_of_read: f64,
}

/// Measures kernels on a device.
pub struct GpuKernelBench {
    dispatcher: Dispatcher,
    /// GB (10^9 bytes) a second that a plain sum of words reads.
    pub read_gb_per_second: f64,
    filler: Vec<u32>,
}

impl GpuKernelBench {
    /// Opens the device's measurements with that of its memory.
    ///
    /// # Errors
    /// When its memory runs out or it does not answer.
    pub fn new(gpu: Gpu) -> Result<GpuKernelBench> {
        // No half among these bytes is infinite or not a number: their exponents are small.
        let filler = (0..1 << 18).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 3) & 0x2f2f_2f2f).collect();
        let mut bench =
            GpuKernelBench { dispatcher: Dispatcher::new(gpu, BUILT_IN), read_gb_per_second: 0.0, filler };
        let bytes = SUM_BYTES.min(bench.dispatcher.gpu.max_buffer_bytes() / 16 * 16);
        let words = bench.filled(bytes)?;
        let mut fastest = f64::INFINITY;
        for groups in [1024, 2048, 4096] {
            let sums =
                Arc::new(bench.dispatcher.gpu.empty_buffer(4 * (groups * sum::THREADS) as u64, "sums")?);
            let command = Command {
                kernel: Kernel::Sum,
                buffers: vec![words.clone(), sums],
                job: vec![(bytes / 16) as u32, 0],
                groups: (groups as u32, 1, 1),
            };
            fastest = fastest.min(bench.seconds(&command)?);
        }
        bench.read_gb_per_second = bytes as f64 / fastest / 1e9;
        Ok(bench)
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.dispatcher.gpu
    }

    /// Types and numbers of tokens whose names, as in `4bit/1`, contain `filter`.
    pub fn tests(&self, filter: &str) -> Vec<(QuantType, usize)> {
        let on_units = self.dispatcher.gpu.abilities().square.is_some();
        let all = QuantType::ALL.into_iter().flat_map(|quant| TOKENS.map(|tokens| (quant, tokens)));
        // Without matrix units, many tokens are four at a time over and over.
        all.filter(|(_, tokens)| *tokens < MANY || on_units)
            .filter(|(quant, tokens)| format!("{quant}/{tokens}").contains(filter))
            .collect()
    }

    /// Measures the kernel of a type for so many tokens.
    ///
    /// # Errors
    /// When the device's memory runs out or it does not answer.
    pub fn run(&self, quant: QuantType, tokens: usize) -> Result<GpuKernelRow> {
        let gpu = &self.dispatcher.gpu;
        let abilities = gpu.abilities();
        let codes = PanelCodes { quant, block: BlockSize::B64 };
        let panel = panel_bytes(codes, PANEL_ROWS, COLS);
        let outputs_fit = gpu.max_buffer_bytes() as usize / (4 * tokens);
        let rows =
            ROWS.min(gpu.max_buffer_bytes() as usize / panel * PANEL_ROWS).min(outputs_fit) / PANEL_ROWS;
        let rows = rows.max(1) * PANEL_ROWS;
        let weight_bytes = panel_bytes(codes, rows, COLS);
        let matrix = GpuMatrix {
            buffer: self.filled(weight_bytes as u64)?,
            at: 0,
            rows: rows as u32,
            cols: COLS as u32,
            codes,
            outliers: None,
        };
        let inputs: Vec<u32> = (0..tokens * padded(COLS))
            .map(|i| (((i * 7_919) % 2_003) as f32 / 1e3 - 1.0).to_bits())
            .collect();
        let way = Way {
            input: &Arc::new(gpu.buffer_of(&inputs, "inputs")?),
            input_stride: padded(COLS),
            output: &Arc::new(gpu.empty_buffer(4 * (tokens * rows) as u64, "outputs")?),
            output_stride: rows,
            first: 0,
        };
        let vectors = Arc::new(gpu.buffer_of(&[], "vectors")?);
        let command = match abilities.square {
            Some(square) if tokens >= MANY => many((square, None), (&matrix, None), tokens, &way, &vectors),
            _ => {
                let rows = TokenRows { input: 0, output: 0, count: tokens };
                few(abilities, (&matrix, None), rows, Output::Store, &way, &vectors)
            }
        };
        let seconds = self.seconds(&command)?;
        let gb_per_second = weight_bytes as f64 / seconds / 1e9;
        Ok(GpuKernelRow {
            quant,
            tokens,
            kernel: match command.kernel {
                Kernel::MatVec(MatVec { integers: true, .. }) => "integers",
                Kernel::MatVec(_) => "floats",
                _ => "matrix units",
            },
            rows,
            cols: COLS,
            weight_bytes,
            seconds,
            gweights_per_second: (rows * COLS * tokens) as f64 / seconds / 1e9,
            gb_per_second,
            share_of_read: gb_per_second / self.read_gb_per_second,
        })
    }

    /// A buffer of so many bytes that are not all alike.
    fn filled(&self, bytes: u64) -> Result<Arc<Buffer>> {
        let gpu = &self.dispatcher.gpu;
        let buffer = gpu.empty_buffer(bytes, "weights of a kernel test")?;
        let filler: Vec<u8> = self.filler.iter().flat_map(|word| word.to_le_bytes()).collect();
        for at in (0..bytes).step_by(filler.len()) {
            gpu.queue.write_buffer(&buffer, at, &filler[..filler.len().min((bytes - at) as usize)]);
            gpu.queue.submit([]);
        }
        Ok(Arc::new(buffer))
    }

    /// Seconds of a call, the fastest of some samples of many calls.
    fn seconds(&self, command: &Command) -> Result<f64> {
        let sample = |calls: usize| -> Result<f64> {
            let commands = vec![command.clone(); calls];
            let started = Instant::now();
            let pass = self.dispatcher.encode(commands, &Bound::default(), None, None);
            self.dispatcher.wait(self.dispatcher.submit(pass))?;
            Ok(started.elapsed().as_secs_f64() / calls as f64)
        };
        // The first call makes the kernel.
        sample(1)?;
        let calls = ((SAMPLE_SECONDS / sample(2)?).ceil() as usize).clamp(1, MOST_CALLS);
        let (mut fastest, mut samples) = (f64::INFINITY, 0);
        let started = Instant::now();
        while samples < 3 || started.elapsed().as_secs_f64() < SECONDS {
            fastest = fastest.min(sample(calls)?);
            samples += 1;
        }
        Ok(fastest)
    }
}
