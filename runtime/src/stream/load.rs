//! A model by a plan: matrices into memory or onto the schedule, and the thread that reads started.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use qsf_format::{ModelConfig, TensorId, TensorKind};

use super::arena::{Arena, REGION_ALIGN, Region};
use super::chunk_reader::{ChunkReader, SLACK};
use super::embedding::EmbeddingRows;
use super::matrix::StreamedMatrix;
use super::pipeline::Pipeline;
use super::plan::MemoryPlan;
use super::schedule::{Piece, Schedule};
use super::source::{Place, StreamSource, reader};
use crate::error::{Result, RuntimeError};
use crate::source::{Tensor, TensorBytes, WeightSource};
use crate::weights::{Embedding, Model, ModelParts, Weight};

/// A model whose weights are partly on disk.
pub struct StreamedModel {
    /// The model.
    pub model: Model,
    /// What its memory is for, with what each token reads.
    pub plan: MemoryPlan,
    /// How reading goes.
    pub status: StreamStatus,
}

/// How the reading of a streamed model goes.
#[derive(Clone)]
pub struct StreamStatus {
    pipeline: Option<Arc<Pipeline>>,
    /// Bytes per second while the kept weights were read; `None` when there were too few to tell.
    pub read_rate: Option<f64>,
}

impl StreamStatus {
    /// Time that tokens have waited for the disk.
    pub fn waited(&self) -> Duration {
        self.pipeline.as_ref().map_or(Duration::ZERO, |pipeline| pipeline.waited())
    }
}

/// Bytes from which on a rate of reading means something.
const RATE_BYTES: u64 = 4_000_000;

impl StreamedModel {
    /// Reads what stays in memory, and begins to read ahead what does not.
    ///
    /// # Errors
    /// When weights cannot be read or are damaged, or memory or threads are refused.
    pub fn load(source: &StreamSource, mut plan: MemoryPlan) -> Result<StreamedModel> {
        // The plan is changed below.
        let skipped = plan.skipped.clone();
        let places: Vec<&Place> = source.matrices(&skipped, false).collect();
        let panel = EmbeddingRows::panel_bytes(&source.embedding().form);
        let mut arena = Arena::new(arena_bytes(&places, source, &plan, panel))?;
        let mut main_reader = reader(source.path(), source.io(), source.parts())?;
        let started = Instant::now();
        let mut weights = HashMap::new();
        let mut schedule = Schedule::default();
        let mut streamed = Vec::new();
        for (place, resident) in places.iter().zip(&plan.resident) {
            if *resident {
                let tensor = read_tensor(&mut main_reader, place, &mut arena)?;
                weights.insert(place.id, Weight::Resident(tensor));
            } else {
                streamed.push((*place, add_pieces(&mut schedule, place, plan.piece_bytes)));
            }
        }
        let mut embedding = None;
        if plan.embedding_resident {
            embedding = Some(match weights.get(&source.embedding().id) {
                Some(Weight::Resident(tensor)) => Embedding::Resident(tensor.clone()),
                _ => Embedding::Resident(read_tensor(&mut main_reader, source.embedding(), &mut arena)?),
            });
        }
        let read = main_reader.bytes_read();
        let seconds = started.elapsed().as_secs_f64();
        let read_rate = (read >= RATE_BYTES).then(|| read as f64 / seconds);
        let embedding = match embedding {
            Some(embedding) => embedding,
            None => {
                let panels = regions(&mut arena, "embedding rows", plan.panels, panel)?;
                let reader = reader(source.path(), source.io(), source.parts())?;
                let (form, part) = (source.embedding().form.clone(), source.embedding().part.clone());
                Embedding::OnDisk(Box::new(EmbeddingRows::new(form, part, reader, panels)))
            }
        };
        plan.bytes_per_token = schedule.bytes_per_token();
        let pipeline = if schedule.is_empty() {
            None
        } else {
            let buffers = regions(&mut arena, "buffers", plan.buffers, plan.buffer_bytes)?;
            Some(Arc::new(Pipeline::start(Arc::new(schedule), main_reader, buffers)?))
        };
        // No layer that is left out is ever asked for its rows.
        let left_out = source.matrices(&skipped, true).map(|place| (place, 0..0));
        for (place, pieces) in streamed.into_iter().chain(left_out) {
            let rows = place.form.rows_per_piece(plan.piece_bytes);
            let matrix = StreamedMatrix::new(place.form.clone(), rows, pieces, pipeline.clone());
            weights.insert(place.id, Weight::Streamed(Box::new(matrix)));
        }
        let parts = Parts { source, weights: Mutex::new(weights), embedding: Mutex::new(Some(embedding)) };
        let model = Model::assemble(&parts)?;
        Ok(StreamedModel { model, plan, status: StreamStatus { pipeline, read_rate } })
    }
}

fn arena_bytes(places: &[&Place], source: &StreamSource, plan: &MemoryPlan, panel: usize) -> usize {
    let page = |bytes: usize| bytes.next_multiple_of(REGION_ALIGN);
    let kept = places.iter().zip(&plan.resident).filter(|(_, resident)| **resident);
    let kept: usize = kept.map(|(place, _)| page(place.raw.len() + SLACK)).sum();
    let table = plan.embedding_resident && !source.config().tied_head;
    let embedding = if table { page(source.embedding().raw.len() + SLACK) } else { 0 };
    kept + embedding + plan.panels * page(panel) + plan.buffers * page(plan.buffer_bytes)
}

fn regions(arena: &mut Arena, name: &'static str, count: usize, bytes: usize) -> Result<Vec<Region>> {
    (0..count).map(|_| arena.take(name, bytes)).collect()
}

/// A matrix in memory.
fn read_tensor(reader: &mut ChunkReader, place: &Place, arena: &mut Arena) -> Result<Tensor> {
    let mut region = arena.take("weights", place.raw.len() + SLACK)?;
    let start = reader.read(&place.part, &place.raw, &mut region)?;
    let bytes = TensorBytes::Region(Arc::new(region), start..start + place.raw.len());
    place.form.tensor(&(0..place.form.rows), bytes)
}

/// Puts a matrix on the schedule; the numbers of its pieces.
fn add_pieces(schedule: &mut Schedule, place: &Place, piece_bytes: usize) -> std::ops::Range<usize> {
    let (step, row_bytes) = (place.form.rows_per_piece(piece_bytes), place.form.row_bytes());
    let first = schedule.len();
    for row in (0..place.form.rows).step_by(step) {
        let end = place.form.rows.min(row + step);
        let raw = place.raw.start + row * row_bytes..place.raw.start + end * row_bytes;
        schedule.push(Piece { part: place.part.clone(), raw });
    }
    first..schedule.len()
}

/// What was prepared, each part to be taken once.
struct Parts<'a> {
    source: &'a StreamSource,
    weights: Mutex<HashMap<TensorId, Weight>>,
    embedding: Mutex<Option<Embedding>>,
}

impl ModelParts for Parts<'_> {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn config(&self) -> &ModelConfig {
        self.source.config()
    }

    fn embedding(&self) -> Result<Embedding> {
        let embedding = self.embedding.lock().unwrap_or_else(PoisonError::into_inner).take();
        embedding.ok_or_else(|| self.missing(TensorId::of_model(TensorKind::TokenEmbedding)))
    }

    fn matrix(&self, id: TensorId) -> Result<Weight> {
        let weight = self.weights.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        // A matrix of one row was read with the vectors.
        let vector = || self.source.vector(id).cloned().map(Weight::Resident);
        weight.or_else(vector).ok_or_else(|| self.missing(id))
    }

    fn tensor(&self, id: TensorId) -> Result<Option<Tensor>> {
        Ok(self.source.vector(id).cloned())
    }
}

impl Parts<'_> {
    fn missing(&self, id: TensorId) -> RuntimeError {
        RuntimeError::bad_input(self.source.path(), id.to_string(), "this matrix", "none")
    }
}
