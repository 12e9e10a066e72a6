//! A model by a plan: matrices into memory or onto the schedule, and the thread that reads started.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use qsf_format::{ModelConfig, RowParts, TensorId, TensorKind};

use super::plan::MemoryPlan;
use super::source::{Place, StreamSource, reader};
use crate::arena::{Arena, REGION_ALIGN, Region};
use crate::error::{Result, RuntimeError};
use crate::on_disk::chunk_reader::{ChunkReader, SLACK};
use crate::on_disk::embedding::EmbeddingRows;
use crate::on_disk::matrix::{Pieces, StreamedMatrix};
use crate::on_disk::piece_cache::PieceCache;
use crate::on_disk::pipeline::Pipeline;
use crate::on_disk::schedule::{Piece, Schedule};
use crate::source::WeightSource;
use crate::tensor::{Tensor, TensorBytes};
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
    /// Bytes and time of reading the kept weights.
    at_first: (u64, Duration),
}

impl StreamStatus {
    /// Time that tokens have waited for the disk.
    pub fn waited(&self) -> Duration {
        self.pipeline.as_ref().map_or(Duration::ZERO, |pipeline| pipeline.waited())
    }

    /// Bytes per second that are read and checked: for tokens so far, or else of the weights that stay; `None` where both are
    /// too few to tell.
    pub fn read_rate(&self) -> Option<f64> {
        let for_tokens = self.pipeline.as_ref().map(|pipeline| pipeline.read());
        let enough = for_tokens.into_iter().chain([self.at_first]).find(|(bytes, _)| *bytes >= RATE_BYTES);
        enough.map(|(bytes, time)| bytes as f64 / time.as_secs_f64())
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
        let panel = source.embedding().map_or(0, |place| EmbeddingRows::panel_bytes(&place.form));
        let mut arena = Arena::new(arena_bytes(&places, source, &plan, panel))?;
        let mut main_reader = reader(source.path(), source.io(), source.parts())?;
        let started = Instant::now();
        let mut weights = HashMap::new();
        let mut schedule = Schedule::default();
        let (mut streamed, mut experts) = (Vec::new(), Vec::new());
        for (place, resident) in places.iter().zip(&plan.resident) {
            if *resident {
                let tensor = read_tensor(&mut main_reader, place, &mut arena)?;
                weights.insert((place.id, place.number), Weight::Resident(tensor));
            } else if place.is_of_experts() {
                experts.push(*place);
            } else {
                streamed.push((*place, add_pieces(&mut schedule, place, plan.piece_bytes)));
            }
        }
        let id = TensorId::of_model(TensorKind::TokenEmbedding);
        let mut embedding = source.vector(id).cloned().map(Embedding::Resident);
        if let Some(place) = source.embedding().filter(|_| plan.embedding_resident) {
            embedding = Some(match weights.get(&(id, 0)) {
                Some(Weight::Resident(tensor)) => Embedding::Resident(tensor.clone()),
                _ => Embedding::Resident(read_tensor(&mut main_reader, place, &mut arena)?),
            });
        }
        let read = main_reader.bytes_read();
        let at_first = (read, started.elapsed());
        if embedding.is_none()
            && let Some(Place { form, part, .. }) = source.embedding()
        {
            let panels = cache(source, regions(&mut arena, "embedding rows", plan.panels, panel)?)?;
            let rows = EmbeddingRows::new(form.clone(), part.clone(), panels);
            embedding = Some(Embedding::OnDisk(Box::new(rows)));
        }
        plan.bytes_per_token = schedule.bytes_per_token() + plan.expert_bytes_per_token;
        let pipeline = if schedule.is_empty() {
            None
        } else {
            let buffers = regions(&mut arena, "buffers", plan.buffers, plan.buffer_bytes)?;
            Some(Arc::new(Pipeline::start(Arc::new(schedule), main_reader, buffers)?))
        };
        let mut add = |place: &Place, pieces: Pieces| {
            let rows = place.form.rows_per_piece(plan.piece_bytes);
            let matrix = StreamedMatrix::new(place.form.clone(), rows, pieces);
            weights.insert((place.id, place.number), Weight::Streamed(Box::new(matrix)));
        };
        if let Some(pipeline) = &pipeline {
            for (place, numbers) in streamed {
                add(place, Pieces::InTurn(numbers, pipeline.clone()));
            }
        }
        if !experts.is_empty() {
            let pieces = regions(&mut arena, "experts", plan.expert_pieces, plan.expert_piece_bytes)?;
            let pieces = Arc::new(cache(source, pieces)?);
            for place in experts {
                add(place, Pieces::OnDemand(place.part.clone(), pieces.clone()));
            }
        }
        for place in source.matrices(&skipped, true) {
            add(place, Pieces::LeftOut);
        }
        let parts = Parts { source, weights: Mutex::new(weights), embedding: Mutex::new(embedding) };
        let model = Model::assemble(&parts)?;
        Ok(StreamedModel { model, plan, status: StreamStatus { pipeline, at_first } })
    }
}

fn arena_bytes(places: &[&Place], source: &StreamSource, plan: &MemoryPlan, panel: usize) -> usize {
    let page = |bytes: usize| bytes.next_multiple_of(REGION_ALIGN);
    let kept = places.iter().zip(&plan.resident).filter(|(_, resident)| **resident);
    let kept: usize = kept.map(|(place, _)| page(place.raw().len() + SLACK)).sum();
    let table = source.embedding().filter(|_| plan.embedding_resident && !source.config().tied_head);
    let embedding = table.map_or(0, |place| page(place.raw().len() + SLACK));
    let experts = plan.expert_pieces * page(plan.expert_piece_bytes);
    kept + embedding + plan.panels * page(panel) + plan.buffers * page(plan.buffer_bytes) + experts
}

/// A cache of pieces with a reader of its own.
fn cache(source: &StreamSource, places: Vec<Region>) -> Result<PieceCache> {
    Ok(PieceCache::new(reader(source.path(), source.io(), source.parts())?, places))
}

fn regions(arena: &mut Arena, name: &'static str, count: usize, bytes: usize) -> Result<Vec<Region>> {
    (0..count).map(|_| arena.take(name, bytes)).collect()
}

/// A matrix in memory.
fn read_tensor(reader: &mut ChunkReader, place: &Place, arena: &mut Arena) -> Result<Tensor> {
    let mut region = arena.take("weights", place.raw().len() + SLACK)?;
    let start = reader.read(&place.part, &place.raw(), &mut region)?;
    let bytes = TensorBytes::Region(Arc::new(region), start..start + place.raw().len());
    place.form.tensor(&(0..place.form.rows), bytes)
}

/// Puts a matrix on the schedule; the numbers of its pieces.
fn add_pieces(schedule: &mut Schedule, place: &Place, piece_bytes: usize) -> Range<usize> {
    let step = place.form.rows_per_piece(piece_bytes);
    let first = schedule.len();
    for row in (0..place.form.rows).step_by(step) {
        let rows = row..place.form.rows.min(row + step);
        schedule.push(Piece { part: place.part.clone(), raw: place.form.raw_of(&rows) });
    }
    first..schedule.len()
}

/// What was prepared, each part to be taken once.
struct Parts<'a> {
    source: &'a StreamSource,
    /// By the number of a part, where a matrix is in parts.
    weights: Mutex<HashMap<(TensorId, u8), Weight>>,
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
        let weight = self.weights.lock().unwrap_or_else(PoisonError::into_inner).remove(&(id, 0));
        // A matrix of one row was read with the vectors.
        let vector = || self.source.vector(id).cloned().map(Weight::Resident);
        weight.or_else(vector).ok_or_else(|| self.missing(id))
    }

    fn stack(&self, id: TensorId, count: usize) -> Result<Vec<Weight>> {
        let (parts, whole) = match self.source.split(id) {
            Some(rows) => (rows.parts(), Some(rows)),
            None => (1, None),
        };
        let part = |number: usize| {
            let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
            weights.remove(&(id, number as u8)).ok_or_else(|| self.missing(id))
        };
        let parts = (0..parts).map(part).collect::<Result<Vec<Weight>>>()?;
        let rows = whole.map_or_else(|| parts[0].rows(), RowParts::rows) / count.max(1);
        let matrix = |i: usize| {
            let (part, first) = whole.map_or((0, i * rows), |whole| whole.place(i * rows));
            parts[part].slice_rows(first..first + rows).ok_or_else(|| self.missing(id))
        };
        (0..count).map(matrix).collect()
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
