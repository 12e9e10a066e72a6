//! What a RAM budget is spent on: first what must be, then larger steps and buffers, and with the rest weights stay in memory.

use std::fmt::Write;

use qsf_format::{ModelConfig, TensorKind};

use super::arena::REGION_ALIGN;
use super::budget::RamBudget;
use super::chunk_reader::{ReaderBytes, SLACK};
use super::embedding::EmbeddingRows;
use super::source::{Place, StreamSource};
use crate::decoder::{KvOptions, StateBytes};
use crate::error::{Result, RuntimeError, megabytes};
use crate::source::WeightSource;

/// What cannot be foreseen: the allocator's own, stacks, what libraries hold.
const RESERVE: u64 = 3_000_000;
/// Stack and working memory of a thread of the pool.
const PER_THREAD: u64 = 600_000;
/// Logits, and what a sampler sorts of them.
const PER_TOKEN_OF_VOCABULARY: u64 = 32;

/// Ways to spend less on reading, from the most comfortable: bytes of a piece, buffers, panels of the embedding that are kept.
const LADDER: [(usize, usize, usize); 7] = [
    (4 << 20, 2, 64),
    (2 << 20, 2, 32),
    (1 << 20, 2, 16),
    (512 << 10, 2, 8),
    (256 << 10, 2, 4),
    (128 << 10, 2, 2),
    (64 << 10, 1, 1),
];
/// Tokens of a step below which prompts are run only where the budget leaves nothing else: each step reads the whole file.
const LEAST_BATCH: usize = 32;

/// What a model shall be able to do.
#[derive(Debug, Clone)]
pub struct Need {
    /// Positions.
    pub context: usize,
    /// Tokens of the longest step that is of use.
    pub batch: usize,
    /// How keys and values are kept.
    pub kv: KvOptions,
    /// Layers that are left out.
    pub skipped: Vec<usize>,
    /// Threads that compute.
    pub threads: usize,
    /// Anonymous memory that is taken already.
    pub in_use: u64,
}

/// What memory is for.
#[derive(Debug, Clone)]
pub struct MemoryPlan {
    /// What was granted.
    pub budget: RamBudget,
    /// Positions.
    pub context: usize,
    /// Tokens of the longest step.
    pub batch: usize,
    /// Buffers that pieces are read into; none when nothing is streamed.
    pub buffers: usize,
    /// Bytes of such a buffer.
    pub buffer_bytes: usize,
    /// Aim for the size of a piece.
    pub piece_bytes: usize,
    /// Panels of the embedding that are kept; none when all of it is in memory.
    pub panels: usize,
    /// Whether the token embedding is in memory.
    pub embedding_resident: bool,
    /// Layers that are left out: their matrices are neither kept nor read.
    pub(super) skipped: Vec<usize>,
    /// For each other matrix, in the order of use, whether it is in memory.
    pub(super) resident: Vec<bool>,
    /// Names and bytes of everything.
    pub regions: Vec<(&'static str, u64)>,
    /// Stored bytes that every token reads.
    pub bytes_per_token: u64,
    /// Stored bytes of all matrices that a token is multiplied with.
    pub weight_bytes: u64,
}

impl MemoryPlan {
    /// Spends `budget` on `source`.
    ///
    /// # Errors
    /// [`RuntimeError::BudgetTooSmall`], which says what would be enough.
    pub fn new(source: &StreamSource, need: Need, budget: RamBudget) -> Result<MemoryPlan> {
        let costs = Costs { source, config: source.config(), need };
        let batches = || {
            std::iter::successors(Some(costs.need.batch.max(1)), |batch| (*batch > 1).then_some(batch / 2))
        };
        for least in [costs.need.batch.clamp(1, LEAST_BATCH), 1] {
            for rung in LADDER {
                for batch in batches().filter(|batch| *batch >= least) {
                    let (all, none) = (costs.total(rung, batch), costs.total(rung, 1));
                    // A long step is worth at most a quarter: what is in memory is of use for every token.
                    if all <= budget.0 && (all - none <= budget.0 / 4 || batch == least) {
                        return Ok(costs.plan(rung, batch, budget));
                    }
                }
            }
        }
        let least = costs.total(LADDER[LADDER.len() - 1], 1);
        Err(RuntimeError::BudgetTooSmall {
            path: source.path().to_owned(),
            budget: budget.0,
            context: costs.need.context,
            least,
        })
    }

    /// All memory that the plan accounts for.
    pub fn total(&self) -> u64 {
        self.regions.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A map of the memory as text.
    pub fn describe(&self, read_rate: Option<f64>) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "RAM budget {}", megabytes(self.budget.0));
        for (name, bytes) in &self.regions {
            let _ = writeln!(out, "{:>12}  {name}", megabytes(*bytes));
        }
        let _ = writeln!(out, "{:>12}  in all", megabytes(self.total()));
        let kept = self.resident.iter().filter(|resident| **resident).count();
        let _ = writeln!(
            out,
            "context {} tokens, prompts in steps of {}; {kept} of {} matrices stay in memory",
            self.context,
            self.batch,
            self.resident.len()
        );
        let _ = write!(
            out,
            "reads {} of {} for every token",
            megabytes(self.bytes_per_token),
            megabytes(self.weight_bytes)
        );
        if let Some(rate) = read_rate.filter(|rate| *rate > 0.0 && self.bytes_per_token > 0) {
            let _ = write!(
                out,
                ": at most {:.2} tokens/s at the {:.0} MB/s that this file was just read with",
                rate / self.bytes_per_token as f64,
                rate / 1e6
            );
        }
        out.push('\n');
        out
    }
}

/// What things cost.
struct Costs<'a> {
    source: &'a StreamSource,
    config: &'a ModelConfig,
    need: Need,
}

/// Bytes of a region in an arena.
fn region(bytes: usize) -> u64 {
    bytes.next_multiple_of(REGION_ALIGN) as u64
}

/// Bytes of a matrix in memory.
fn kept_bytes(place: &Place) -> u64 {
    region(place.raw.len() + SLACK)
}

/// Whether a matrix cannot be streamed: experts are not used in an order that is known before.
fn is_pinned(place: &Place) -> bool {
    matches!(
        place.id.kind,
        TensorKind::ExpertGate | TensorKind::ExpertUp | TensorKind::ExpertDown | TensorKind::Router
    )
}

impl Costs<'_> {
    /// The matrices that a token is multiplied with.
    fn matrices(&self) -> impl Iterator<Item = &Place> {
        self.source.matrices(&self.need.skipped, false)
    }

    /// Everything but weights that may be streamed, with steps of `batch` tokens.
    fn total(&self, rung: (usize, usize, usize), batch: usize) -> u64 {
        let regions = self.regions(rung, batch);
        // A hostile file may describe a model of any size.
        regions.iter().map(|(_, bytes)| *bytes).fold(self.pinned(), u64::saturating_add)
    }

    fn pinned(&self) -> u64 {
        self.matrices().filter(|place| is_pinned(place)).map(kept_bytes).sum()
    }

    fn buffer_bytes(&self, piece: usize) -> usize {
        let pieces =
            self.matrices().filter(|place| !is_pinned(place)).map(|place| place.form.piece_bytes(piece));
        pieces.max().unwrap_or(0) + SLACK
    }

    fn reader_bytes(&self) -> u64 {
        let bytes = ReaderBytes::of(self.source.parts());
        region(bytes.stored) + region(bytes.border)
    }

    fn regions(
        &self,
        (piece, buffers, panels): (usize, usize, usize),
        batch: usize,
    ) -> Vec<(&'static str, u64)> {
        let state = StateBytes::of(self.config, self.need.context, batch, self.need.kv);
        let other = RESERVE + PER_THREAD * self.need.threads as u64;
        let panel = region(EmbeddingRows::panel_bytes(&self.source.embedding().form));
        vec![
            ("program, tokenizer, norms and biases so far", self.need.in_use),
            ("threads and reserve", other),
            ("logits and sampling", PER_TOKEN_OF_VOCABULARY * u64::from(self.config.vocab)),
            ("key/value cache", state.kv),
            ("activations", state.activations),
            ("rotary tables and attention", state.tables),
            ("chunks being read", 2 * self.reader_bytes()),
            ("embedding rows", panels as u64 * panel),
            ("buffers of streamed weights", buffers as u64 * region(self.buffer_bytes(piece))),
        ]
    }

    fn plan(
        &self,
        (piece, buffers, panels): (usize, usize, usize),
        batch: usize,
        budget: RamBudget,
    ) -> MemoryPlan {
        let mut regions = self.regions((piece, buffers, panels), batch);
        let left = budget.0 - self.total((piece, buffers, panels), batch);
        let matrices: Vec<&Place> = self.matrices().collect();
        let (resident, left) = choose_resident(&matrices, left);
        let all = resident.iter().all(|resident| *resident);
        let embedding = self.source.embedding();
        let tied = self.config.tied_head;
        let embedding_resident = all && (tied || kept_bytes(embedding) <= left);
        let kept = matrices.iter().zip(&resident).filter(|(_, resident)| **resident);
        let mut kept: u64 = kept.map(|(place, _)| kept_bytes(place)).sum();
        if embedding_resident && !tied {
            kept += kept_bytes(embedding);
        }
        regions.push(("weights that stay", kept));
        let weight_bytes = matrices.iter().map(|place| place.raw.len() as u64).sum();
        MemoryPlan {
            budget,
            context: self.need.context,
            batch,
            buffers: if all { 0 } else { buffers },
            buffer_bytes: self.buffer_bytes(piece),
            piece_bytes: piece,
            panels: if embedding_resident { 0 } else { panels },
            embedding_resident,
            skipped: self.need.skipped.clone(),
            resident,
            regions,
            bytes_per_token: 0,
            weight_bytes,
        }
    }
}

/// Which matrices stay in memory, and what is left then. Whole layers, spread evenly, so that the disk has something to do
/// while they are computed; and of one more layer as much as fits.
fn choose_resident(matrices: &[&Place], mut left: u64) -> (Vec<bool>, u64) {
    let mut resident: Vec<bool> = matrices.iter().map(|place| is_pinned(place)).collect();
    let cost = |i: &usize| kept_bytes(matrices[*i]);
    let streamed: Vec<usize> = (0..matrices.len()).filter(|i| !resident[*i]).collect();
    let layers: Vec<&[usize]> =
        streamed.chunk_by(|a, b| matrices[*a].id.layer == matrices[*b].id.layer).collect();
    let all: u64 = streamed.iter().map(cost).sum();
    let mut take = |group: &[usize], left: &mut u64| {
        let bytes = group.iter().map(cost).sum::<u64>();
        let fits = bytes <= *left;
        if fits {
            *left -= bytes;
            group.iter().for_each(|i| resident[*i] = true);
        }
        fits
    };
    // The i-th layer is one of those when the share of i + 1 layers is a whole one more than that of i.
    let share = if all == 0 { 0.0 } else { (left as f64 / all as f64).min(1.0) };
    let whole = |layers: usize| (layers as f64 * share + 1e-9).floor();
    let mut rest = Vec::new();
    for (i, layer) in layers.iter().enumerate() {
        if whole(i + 1) <= whole(i) || !take(layer, &mut left) {
            rest.push(*layer);
        }
    }
    rest.retain(|layer| !take(layer, &mut left));
    if let Some(layer) = rest.first() {
        for matrix in layer.chunks(1) {
            if !take(matrix, &mut left) {
                break;
            }
        }
    }
    (resident, left)
}
