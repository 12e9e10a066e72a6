//! Matrices in buffers of the graphics processor.

use std::sync::Arc;

use qsf_format::panels::PANEL_ROWS;
use wgpu::{Buffer, BufferDescriptor, BufferUsages};

use super::device::Gpu;
use super::panels::{codes_of, panel_bytes, write_panels};
use super::wgsl::codes::PanelCodes;
use crate::error::{Result, RuntimeError};
use crate::tensor::Tensor;
use qsf_cpu::Isa;

/// Bytes that are handed to the driver at once: it copies them to memory of its own first.
const SLICE_BYTES: usize = 64 << 20;
/// Where matrices begin in a buffer. Panels of every type are a multiple of this, for their sixteen rows have whole bytes, so that there
/// is nothing between matrices.
const ALIGN: u64 = 16;
/// Buffers are as large as this, if the device allows it; a larger matrix has a larger one.
const BUFFER_BYTES: u64 = 1 << 30;
/// Matrices that stay together and have so many bytes get a buffer of their own: what they do not fit into would be left empty.
const OWN_BUFFER_BYTES: u64 = 64 << 20;

/// A matrix.
#[derive(Clone)]
pub struct GpuMatrix {
    /// Where it is.
    pub buffer: Arc<Buffer>,
    /// First word of its panels there.
    pub at: u32,
    /// Rows: outputs.
    pub rows: u32,
    /// Columns: inputs.
    pub cols: u32,
    /// Type.
    pub codes: PanelCodes,
    /// Its outliers.
    pub outliers: Option<GpuOutliers>,
}

/// Where outliers are.
#[derive(Clone)]
pub struct GpuOutliers {
    /// Starts of rows, and then columns.
    pub places: Arc<Buffer>,
    /// How many starts there are.
    pub starts: u32,
    /// First value in the buffer of vectors.
    pub weights: u32,
}

impl GpuMatrix {
    /// Superblocks of a panel.
    pub fn superblocks(&self) -> u32 {
        self.cols.div_ceil(self.codes.block().get() as u32)
    }

    /// Words of the panels of `rows` rows.
    pub fn words(&self, rows: u32) -> u32 {
        (panel_bytes(self.codes, rows as usize, self.cols as usize) / 4) as u32
    }

    /// Puts `below` under this matrix, where it follows in the buffer; else gives it back.
    pub fn join(&mut self, below: GpuMatrix) -> Option<GpuMatrix> {
        let fits = Arc::ptr_eq(&self.buffer, &below.buffer)
            && (self.codes, self.cols) == (below.codes, below.cols)
            && self.rows.is_multiple_of(PANEL_ROWS as u32)
            && self.at + self.words(self.rows) == below.at
            && self.outliers.is_none()
            && below.outliers.is_none();
        if !fits {
            return Some(below);
        }
        self.rows += below.rows;
        None
    }
}

/// Takes matrices up, and vectors along.
pub struct Uploader<'a> {
    gpu: &'a Gpu,
    isa: Isa,
    /// The buffer that matrices go to now, with the bytes that are taken.
    current: Option<(Arc<Buffer>, u64)>,
    /// The one that other matrices went to before a stack got a buffer of its own, and will go on with.
    kept: Option<(Arc<Buffer>, u64)>,
    /// Gains, biases and all else that is a list of floats.
    pub vectors: Vec<f32>,
    staged: usize,
    /// Bytes of the matrices that are still to come.
    left: u64,
}

impl<'a> Uploader<'a> {
    /// Nothing as yet; these are the matrices to come.
    pub fn new<'t>(gpu: &'a Gpu, isa: Isa, matrices: impl Iterator<Item = &'t Tensor>) -> Uploader<'a> {
        let bytes = |tensor: &Tensor| bytes_of(tensor) + ALIGN;
        Uploader {
            gpu,
            isa,
            current: None,
            kept: None,
            vectors: Vec::new(),
            staged: 0,
            left: matrices.map(bytes).sum(),
        }
    }

    /// Appends values to the vectors; where they begin there.
    pub fn vector(&mut self, values: &[f32]) -> u32 {
        let at = self.vectors.len() as u32;
        self.vectors.extend_from_slice(values);
        at
    }

    /// A matrix.
    ///
    /// # Errors
    /// When it is larger than a buffer can be.
    pub fn matrix(&mut self, tensor: &Tensor) -> Result<GpuMatrix> {
        Ok(GpuMatrix { outliers: self.outliers(&[tensor])?, ..self.panels(tensor)? })
    }

    /// A matrix; where no buffer can have all of it, its first rows, and as many pieces of the others as it takes.
    ///
    /// # Errors
    /// When it is larger than a buffer can be by sixteen rows alone.
    pub fn pieces(&mut self, tensor: &Tensor) -> Result<(GpuMatrix, Vec<GpuMatrix>)> {
        let (rows, most) = (tensor.rows(), self.gpu.max_buffer_bytes());
        let panel = panel_bytes(codes_of(tensor), PANEL_ROWS.min(rows), tensor.cols()) as u64;
        let panels = usize::try_from(most / panel.max(1)).unwrap_or(usize::MAX);
        if panels >= rows.div_ceil(PANEL_ROWS) {
            return Ok((self.matrix(tensor)?, Vec::new()));
        }
        if panels == 0 {
            return Err(self.too_large(panel));
        }
        let mut starts = (0..rows).step_by(panels * PANEL_ROWS);
        let mut next = || starts.next().map(|at| tensor.slice_rows(at..rows.min(at + panels * PANEL_ROWS)));
        let first = next().unwrap_or_else(|| tensor.clone());
        let first = self.matrix(&first)?;
        let mut below = Vec::new();
        while let Some(piece) = next() {
            below.push(self.matrix(&piece)?);
        }
        Ok((first, below))
    }

    /// A matrix without its outliers.
    ///
    /// # Errors
    /// When it is larger than a buffer can be.
    pub fn panels(&mut self, tensor: &Tensor) -> Result<GpuMatrix> {
        let (codes, bytes) = (codes_of(tensor), bytes_of(tensor));
        let (buffer, offset) = self.place(bytes)?;
        let mut at = offset;
        write_panels(tensor, self.isa, |panels| {
            if self.gpu.summary().shared_memory {
                // Nothing else is mapped here, and the range is inside of the buffer.
                if let Ok(mut view) = buffer.slice(at..at + panels.len() as u64).get_mapped_range_mut() {
                    view.copy_from_slice(panels);
                }
                at += panels.len() as u64;
                return;
            }
            for slice in panels.chunks(SLICE_BYTES) {
                self.gpu.queue.write_buffer(&buffer, at, slice);
                at += slice.len() as u64;
                self.staged += slice.len();
                if self.staged >= SLICE_BYTES {
                    // What was copied is given back.
                    self.gpu.queue.submit([]);
                    self.staged = 0;
                }
            }
        });
        self.left = self.left.saturating_sub(bytes + ALIGN);
        Ok(GpuMatrix {
            buffer,
            at: (offset / 4) as u32,
            rows: tensor.rows() as u32,
            cols: tensor.cols() as u32,
            codes,
            outliers: None,
        })
    }

    /// The outliers of these matrices, their rows behind each other.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn outliers(&mut self, tensors: &[&Tensor]) -> Result<Option<GpuOutliers>> {
        if !tensors.iter().any(|tensor| tensor.has_outliers()) {
            return Ok(None);
        }
        let (mut places, mut columns) = (vec![0u32], Vec::new());
        let weights = self.vectors.len() as u32;
        for (tensor, row) in
            tensors.iter().flat_map(|tensor| (0..tensor.rows()).map(move |row| (tensor, row)))
        {
            let (cols, values) = tensor.outliers(row);
            columns.extend(cols.iter().map(|col| u32::from(*col)));
            self.vectors.extend_from_slice(values);
            places.push(columns.len() as u32);
        }
        let starts = places.len() as u32;
        places.extend(columns);
        Ok(Some(GpuOutliers { places: self.list(&places, "outliers")?, starts, weights }))
    }

    /// Numbers in a buffer of their own.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub fn list(&self, numbers: &[u32], name: &'static str) -> Result<Arc<Buffer>> {
        Ok(Arc::new(self.gpu.buffer_of(numbers, name)?))
    }

    /// All matrices are there; the vectors.
    pub fn finish(mut self) -> Vec<f32> {
        self.hand_over();
        self.current = self.kept.take();
        self.hand_over();
        std::mem::take(&mut self.vectors)
    }

    /// The buffer at hand is for the device from now on.
    fn hand_over(&mut self) {
        if let Some((buffer, _)) = self.current.take()
            && self.gpu.summary().shared_memory
        {
            buffer.unmap();
        }
    }

    /// How often a buffer can have as much as these matrices take.
    ///
    /// # Errors
    /// When it cannot have them once.
    pub fn most_together(&self, tensors: &[&Tensor]) -> Result<usize> {
        let bytes: u64 = tensors.iter().map(|tensor| bytes_of(tensor)).sum();
        match self.gpu.max_buffer_bytes() / bytes.max(1) {
            0 => Err(self.too_large(bytes)),
            most => Ok(usize::try_from(most).unwrap_or(usize::MAX)),
        }
    }

    /// Makes sure that these matrices, which come next, follow each other.
    ///
    /// # Errors
    /// When all together are larger than a buffer can be.
    pub fn keep_together(&mut self, tensors: &[&Tensor]) -> Result<()> {
        let bytes = tensors.iter().map(|tensor| bytes_of(tensor)).sum();
        if bytes >= OWN_BUFFER_BYTES {
            match self.kept {
                // That of the stack before is full.
                Some(_) => self.hand_over(),
                None => self.kept = self.current.take(),
            }
            self.current = Some((self.new_buffer(bytes)?, 0));
            return Ok(());
        }
        let (buffer, at) = self.place(bytes)?;
        self.current = Some((buffer, at));
        Ok(())
    }

    /// Room for `bytes`, in the buffer at hand or a new one.
    fn place(&mut self, bytes: u64) -> Result<(Arc<Buffer>, u64)> {
        if let Some((buffer, used)) = &mut self.current
            && *used + bytes <= buffer.size()
        {
            let at = *used;
            *used = (at + bytes).next_multiple_of(ALIGN);
            return Ok((buffer.clone(), at));
        }
        self.hand_over();
        if let Some(kept) = self.kept.take() {
            self.current = Some(kept);
            return self.place(bytes);
        }
        let size = BUFFER_BYTES.min(self.gpu.max_buffer_bytes()).min(self.left).max(bytes);
        let buffer = self.new_buffer(size)?;
        self.current = Some((buffer.clone(), bytes.next_multiple_of(ALIGN)));
        Ok((buffer, 0))
    }

    /// A buffer of so many bytes.
    fn new_buffer(&self, bytes: u64) -> Result<Arc<Buffer>> {
        if bytes > self.gpu.max_buffer_bytes() {
            return Err(self.too_large(bytes));
        }
        Ok(Arc::new(self.gpu.weights_buffer(bytes.next_multiple_of(4))?))
    }

    /// What must be in one buffer is not.
    fn too_large(&self, bytes: u64) -> RuntimeError {
        let most = self.gpu.max_buffer_bytes();
        let what = format!(
            "weights that must be in one buffer of the GPU, which has {most} bytes at most (convert the model to a smaller type, \
             or use --device cpu)"
        );
        RuntimeError::OutOfMemory { what, bytes }
    }
}

/// Bytes of a matrix there.
pub fn bytes_of(tensor: &Tensor) -> u64 {
    panel_bytes(codes_of(tensor), tensor.rows(), tensor.cols()) as u64
}

impl Gpu {
    /// A buffer of `bytes`, zeros at first.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub(super) fn empty_buffer(&self, bytes: u64, name: &'static str) -> Result<Buffer> {
        self.new_buffer(bytes, name, BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC)
    }

    /// A buffer for weights, mapped where the device has one memory with the processor.
    fn weights_buffer(&self, bytes: u64) -> Result<Buffer> {
        let usage =
            if self.summary().shared_memory { BufferUsages::MAP_WRITE } else { BufferUsages::COPY_DST };
        self.new_buffer(bytes, "weights", BufferUsages::STORAGE | usage)
    }

    fn new_buffer(&self, bytes: u64, name: &'static str, usage: BufferUsages) -> Result<Buffer> {
        let most = self.max_buffer_bytes();
        if bytes > most {
            let what = format!("{name} on the GPU, whose buffers have {most} bytes at most");
            return Err(RuntimeError::OutOfMemory { what, bytes });
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let size = bytes.max(16).next_multiple_of(4);
        let buffer = self.device.create_buffer(&BufferDescriptor {
            label: Some(name),
            size,
            usage,
            mapped_at_creation: usage.contains(BufferUsages::MAP_WRITE),
        });
        match pollster::block_on(scope.pop()) {
            None => Ok(buffer),
            Some(_) => Err(RuntimeError::OutOfMemory { what: format!("{name} on the GPU"), bytes }),
        }
    }

    /// A buffer of these words.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub(super) fn buffer_of(&self, words: &[u32], name: &'static str) -> Result<Buffer> {
        let buffer = self.empty_buffer(4 * words.len() as u64, name)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (slice, bytes) in bytes.chunks(SLICE_BYTES).enumerate() {
            self.queue.write_buffer(&buffer, (slice * SLICE_BYTES) as u64, bytes);
            self.queue.submit([]);
        }
        Ok(buffer)
    }
}
