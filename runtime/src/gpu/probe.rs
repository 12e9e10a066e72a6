//! Whether matrix units compute what they should: drivers have been seen that compile their kernels wrongly, and prompts would
//! then be read as other prompts without a word.

use std::sync::Arc;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{BlockSize, QuantType};
use wgpu::{BufferDescriptor, BufferUsages, ErrorFilter};

use super::dispatch::{Bound, CopyBack, Dispatcher};
use super::step::multiply::{Way, many};
use super::weights::GpuMatrix;
use super::wgsl::codes::PanelCodes;
use super::wgsl::mat_mat::TILE;
use crate::error::Result;

/// Columns, more than a step of the kernel has.
const COLS: usize = 96;

/// Small whole numbers, which f16 has exactly, and so their products and sums.
fn weight(row: usize, column: usize) -> f32 {
    ((7 * row + 3 * column) % 11) as f32 - 5.0
}

fn input(token: usize, column: usize) -> f32 {
    ((5 * token + 2 * column) % 7) as f32 - 3.0
}

/// Multiplies a tile of small numbers with squares of this side, and looks at every product.
///
/// # Errors
/// When the device has no memory for it or does not answer.
pub fn matrix_units_are_right(dispatcher: &Dispatcher, square: usize) -> Result<bool> {
    Ok(products_are_right(dispatcher, square, false)? && products_are_right(dispatcher, square, true)?)
}

/// Whether all products of a tile are right; of inputs that f16 does not have where they are `large`.
fn products_are_right(dispatcher: &Dispatcher, square: usize, large: bool) -> Result<bool> {
    let gpu = &dispatcher.gpu;
    // Kernels that the driver refuses are no reason to stop.
    let scope = gpu.device.push_error_scope(ErrorFilter::Validation);
    let words = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
    let panel = |first: usize| {
        (0..COLS).flat_map(move |column| (0..PANEL_ROWS).map(move |row| weight(first + row, column)))
    };
    let weights = (0..TILE).step_by(PANEL_ROWS).flat_map(panel).collect();
    // By tokens, so that a factor of another is found out.
    let factor = |token: usize| if large { 2f32.powi(20 * (token % 3) as i32) } else { 1.0 };
    let input = |token: usize, column: usize| factor(token) * input(token, column);
    let inputs = (0..TILE).flat_map(|token| (0..COLS).map(move |column| input(token, column))).collect();
    let buffer = |values, name| Ok::<_, crate::RuntimeError>(Arc::new(gpu.buffer_of(&words(values), name)?));
    let (inputs, outputs) = (buffer(inputs, "probe")?, buffer(vec![0.0; TILE * TILE], "probe")?);
    let matrix = GpuMatrix {
        buffer: buffer(weights, "probe")?,
        at: 0,
        rows: TILE as u32,
        cols: COLS as u32,
        codes: PanelCodes { quant: QuantType::F32, block: BlockSize::B32 },
        outliers: None,
    };
    let way = Way { input: &inputs, input_stride: COLS, output: &outputs, output_stride: TILE, first: 0 };
    let factors = buffer((0..TILE).map(|token| 1.0 / factor(token)).collect(), "probe")?;
    let units = (square, large.then_some(&factors));
    let command = many(units, (&matrix, None), TILE, &way, &buffer(Vec::new(), "probe")?);
    let size = outputs.size();
    let read_back = gpu.device.create_buffer(&BufferDescriptor {
        label: Some("probe"),
        size,
        usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let back = CopyBack { from: &outputs, to: &read_back, bytes: size };
    let steps = dispatcher.submit(dispatcher.encode(vec![command], &Bound::default(), None, Some(back)));
    let mut found = vec![0; TILE * TILE];
    let read = dispatcher.read(&read_back, steps, &mut found);
    if pollster::block_on(scope.pop()).is_some() {
        return Ok(false);
    }
    read?;
    let expected = |token, row| (0..COLS).map(|c| input(token, c) * weight(row, c)).sum::<f32>();
    Ok(found.iter().enumerate().all(|(i, bits)| f32::from_bits(*bits) == expected(i / TILE, i % TILE)))
}
