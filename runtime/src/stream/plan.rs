//! What a RAM budget is spent on: first what must be, then larger steps and buffers, and with the rest weights stay in memory.
//! Where even the least does not fit, the context is shortened and then the key/value cache made coarser, as far as the user leaves
//! that open.

use std::fmt::Write;

use qsf_format::{ModelConfig, TensorKind};

use super::budget::RamBudget;
use super::source::{Place, StreamSource};
use crate::arena::REGION_ALIGN;
use crate::decoder::{KvOptions, StateBytes};
use crate::error::{Result, RuntimeError, megabytes};
use crate::memory;
use crate::on_disk::chunk_reader::{ReaderBytes, SLACK};
use crate::on_disk::embedding::EmbeddingRows;
use crate::source::WeightSource;
use qsf_cpu::{KvTypes, Slabs};

/// What cannot be foreseen: the allocator's own, stacks, what libraries hold.
const RESERVE: u64 = 3_000_000;
/// Stack and working memory of a thread of the pool.
const PER_THREAD: u64 = 600_000;
/// What a sampler sorts of logits.
const PER_TOKEN_OF_VOCABULARY: u64 = 28;

/// What is spent on reading.
#[derive(Clone, Copy)]
struct Rung {
    /// Bytes of a piece.
    piece: usize,
    /// Buffers for pieces.
    buffers: usize,
    /// Panels of the embedding that are kept.
    panels: usize,
}

/// Ways to spend less on reading, from the most comfortable.
const LADDER: [Rung; 7] = [
    Rung { piece: 4 << 20, buffers: 2, panels: 64 },
    Rung { piece: 2 << 20, buffers: 2, panels: 32 },
    Rung { piece: 1 << 20, buffers: 2, panels: 16 },
    Rung { piece: 512 << 10, buffers: 2, panels: 8 },
    Rung { piece: 256 << 10, buffers: 2, panels: 4 },
    Rung { piece: 128 << 10, buffers: 2, panels: 2 },
    Rung { piece: 64 << 10, buffers: 1, panels: 1 },
];
/// Tokens of a step below which prompts are run only where the budget leaves nothing else: each step reads the whole file.
const LEAST_BATCH: usize = 32;

/// What a model shall be able to do.
#[derive(Debug, Clone)]
pub struct Need {
    /// Positions.
    pub context: usize,
    /// Positions that will do where the budget has no room for more.
    pub least_context: usize,
    /// Tokens of the longest step that is of use.
    pub batch: usize,
    /// Positions whose logits are there at once.
    pub logit_rows: usize,
    /// How keys and values are kept.
    pub kv: KvOptions,
    /// Types that will do for them where the budget has no room for anything else, best first.
    pub smaller_kv: Vec<KvTypes>,
    /// Whether the head must be in memory: of a head by clusters, any rows may be needed.
    pub whole_head: bool,
    /// Layers that are left out.
    pub skipped: Vec<usize>,
    /// Threads that compute.
    pub threads: usize,
    /// The model that this one is compared with, step by step, and how its keys and values are kept.
    pub compared_with: Option<(ModelConfig, KvOptions)>,
}

/// Anonymous memory that a process has taken before it loads a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InUse {
    /// Bytes now.
    pub now: u64,
    /// The most so far: a budget below it was exceeded already.
    pub peak: u64,
}

impl InUse {
    /// Of this process, as the system says; `unknown` bytes where it does not.
    pub fn of_process(unknown: u64) -> InUse {
        let now = memory::anonymous().unwrap_or(unknown);
        InUse { now, peak: memory::peak_anonymous().unwrap_or(now) }
    }
}

/// What memory is for.
#[derive(Debug, Clone)]
pub struct MemoryPlan {
    /// What was granted.
    pub budget: RamBudget,
    /// Positions.
    pub context: usize,
    /// How keys and values are kept.
    pub kv: KvOptions,
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
    /// Pieces of experts that are kept, as long as no others are used; none where experts are in memory.
    pub expert_pieces: usize,
    /// Bytes of such a piece.
    pub expert_piece_bytes: usize,
    /// Bytes of the experts that are not in memory and a token is multiplied with.
    pub expert_bytes_per_token: u64,
    /// Layers that are left out: their matrices are neither kept nor read.
    pub(super) skipped: Vec<usize>,
    /// For each other matrix, in the order of use, whether it is in memory.
    pub(super) resident: Vec<bool>,
    /// Names and bytes of everything.
    pub regions: Vec<(&'static str, u64)>,
    /// Stored bytes that every token reads, if none of its experts is kept.
    pub bytes_per_token: u64,
    /// Bytes of all matrices that a token is multiplied with.
    pub weight_bytes: u64,
}

impl MemoryPlan {
    /// Spends `budget` on `source`, in a process that has taken `in_use` so far.
    ///
    /// # Errors
    /// [`RuntimeError::BudgetTooSmall`], which says what would be enough.
    pub fn new(source: &StreamSource, need: Need, budget: RamBudget, in_use: InUse) -> Result<MemoryPlan> {
        let mut costs = Costs { source, config: source.config(), need, in_use: in_use.now };
        let contexts = contexts(&costs.need);
        let wanted = costs.need.kv;
        let smaller_kv = std::mem::take(&mut costs.need.smaller_kv);
        for types in std::iter::once(wanted.types).chain(smaller_kv) {
            for &context in &contexts {
                (costs.need.kv, costs.need.context) = (KvOptions { types, ..wanted }, context);
                if let Some(plan) = costs.fit(budget).filter(|_| in_use.peak <= budget.0) {
                    return Ok(plan);
                }
            }
        }
        Err(RuntimeError::BudgetTooSmall {
            path: source.path().to_owned(),
            budget: budget.0,
            context: costs.need.context,
            least: costs.total(LADDER[LADDER.len() - 1], 1).max(in_use.peak).saturating_add(memory::SPREAD),
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
            "context {} tokens ({}), prompts in steps of {}; {kept} of {} matrices stay in memory",
            self.context,
            self.kv.types,
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
                ": at most {:.2} tokens/s at the {:.0} MB/s that this file is read with here and now",
                rate / self.bytes_per_token as f64,
                rate / 1e6
            );
        }
        out.push('\n');
        out
    }
}

/// Numbers of positions from the one that is wanted down to the least that will do, each about half of the one before.
fn contexts(need: &Need) -> Vec<usize> {
    let least = need.least_context.min(need.context);
    let halved = |context: &usize| (*context > least).then(|| (context / 2).max(least));
    std::iter::successors(Some(need.context), halved).collect()
}

/// What things cost.
struct Costs<'a> {
    source: &'a StreamSource,
    config: &'a ModelConfig,
    need: Need,
    in_use: u64,
}

/// Bytes of a region in an arena.
fn region(bytes: usize) -> u64 {
    bytes.next_multiple_of(REGION_ALIGN) as u64
}

/// Bytes of a matrix in memory.
fn kept_bytes(place: &Place) -> u64 {
    region(place.raw().len() + SLACK)
}

impl Costs<'_> {
    /// The matrices that a token is multiplied with.
    fn matrices(&self) -> impl Iterator<Item = &Place> {
        self.source.matrices(&self.need.skipped, false)
    }

    /// Everything but weights that may be streamed, with steps of `batch` tokens.
    fn total(&self, rung: Rung, batch: usize) -> u64 {
        let regions = self.regions(rung, batch);
        // A hostile file may describe a model of any size.
        let pinned = self.matrices().filter(|place| self.is_pinned(place)).map(kept_bytes).sum();
        regions.iter().map(|(_, bytes)| *bytes).fold(pinned, u64::saturating_add)
    }

    /// Whether a matrix must be in memory.
    fn is_pinned(&self, place: &Place) -> bool {
        self.need.whole_head && matches!(place.id.kind, TensorKind::Head | TensorKind::TokenEmbedding)
    }

    /// Room for the largest piece, of experts or of other matrices, when pieces are of about `piece` bytes; 0 without any.
    fn buffer_bytes(&self, piece: usize, experts: bool) -> usize {
        let places = self.matrices().filter(|place| place.is_of_experts() == experts);
        places.map(|place| self.piece_bytes(place, piece) + SLACK).max().unwrap_or(0)
    }

    /// Bytes of the largest piece of a matrix; one of experts is cut at each of them.
    fn piece_bytes(&self, place: &Place, piece: usize) -> usize {
        let rows = place.form.rows_per_piece(piece).min(place.form.rows / self.experts_in(place).0);
        rows * place.form.row_bytes()
    }

    /// How many experts, or heads, a matrix has rows of, and how many of them a token uses.
    fn experts_in(&self, place: &Place) -> (usize, usize) {
        let count = self.config.stacked(place.id).unwrap_or(1).max(1) as usize;
        let of_heads = matches!(place.id.kind, TensorKind::AttnKUp | TensorKind::AttnVUp);
        let experts = place.id.layer.filter(|_| !of_heads).and_then(|layer| self.config.experts(layer));
        // A part has some of the experts, and about that share of those that are used.
        let of_part = |of_all: usize| (of_all * place.form.rows).div_ceil(place.all_rows.max(1)).max(1);
        match experts {
            Some(experts) if count > 1 => (of_part(count), of_part(experts.used as usize)),
            _ => (count, count),
        }
    }

    fn reader_bytes(&self) -> u64 {
        let bytes = ReaderBytes::of(self.source.parts());
        region(bytes.stored) + region(bytes.border)
    }

    fn regions(&self, rung: Rung, batch: usize) -> Vec<(&'static str, u64)> {
        let Rung { piece, buffers, panels } = rung;
        let state = StateBytes::of(self.config, self.need.context, batch, self.need.kv);
        let other = RESERVE + PER_THREAD * self.need.threads as u64 + Slabs::ahead(state.kv);
        let panel =
            self.source.embedding().map_or(0, |place| region(EmbeddingRows::panel_bytes(&place.form)));
        let logits = (self.need.logit_rows * size_of::<f32>()) as u64;
        let readers = 2 + u64::from(self.has_experts());
        let compared = self.need.compared_with.as_ref().map_or(0, |(config, kv)| {
            StateBytes::of(config, self.need.context, batch, *kv).total()
                + u64::from(config.vocab).saturating_mul(logits)
        });
        vec![
            ("program, tokenizer, norms and biases so far", self.in_use),
            ("threads and reserve", other),
            ("logits and sampling", (PER_TOKEN_OF_VOCABULARY + logits) * u64::from(self.config.vocab)),
            ("key/value cache", state.kv),
            ("activations", state.activations),
            ("rotary tables and attention", state.tables),
            ("state of the model compared with", compared),
            ("chunks being read", readers * self.reader_bytes()),
            ("embedding rows", panels as u64 * panel),
            ("buffers of streamed weights", buffers as u64 * region(self.buffer_bytes(piece, false))),
            ("expert being used", region(self.buffer_bytes(piece, true))),
        ]
    }

    /// The most comfortable plan for this context and cache.
    fn fit(&self, budget: RamBudget) -> Option<MemoryPlan> {
        let longest = self.need.batch.clamp(1, self.need.context.max(1));
        let batches = || std::iter::successors(Some(longest), |batch| (*batch > 1).then_some(batch / 2));
        for least in [longest.min(LEAST_BATCH), 1] {
            for rung in LADDER {
                for batch in batches().filter(|batch| *batch >= least) {
                    let (all, none) = (self.total(rung, batch), self.total(rung, 1));
                    // A long step is worth at most a quarter: what is in memory is of use for every token.
                    if all <= budget.0 && (all - none <= budget.0 / 4 || batch == least) {
                        return Some(self.plan(rung, batch, budget));
                    }
                }
            }
        }
        None
    }

    fn has_experts(&self) -> bool {
        self.matrices().any(Place::is_of_experts)
    }

    fn plan(&self, rung: Rung, batch: usize, budget: RamBudget) -> MemoryPlan {
        let Rung { piece, buffers, panels } = rung;
        let mut regions = self.regions(rung, batch);
        let left = budget.0 - self.total(rung, batch);
        let matrices: Vec<&Place> = self.matrices().collect();
        let mut resident: Vec<bool> = matrices.iter().map(|place| self.is_pinned(place)).collect();
        let left = keep_most_used(&matrices, &mut resident, left);
        let all = |experts: bool| {
            let mut places =
                matrices.iter().zip(&resident).filter(|(place, _)| place.is_of_experts() == experts);
            places.all(|(_, resident)| *resident)
        };
        let (all_experts, all_others) = (all(true), all(false));
        // Of a tied head, and in parts, it is in memory anyway.
        let embedding = self.source.embedding().filter(|_| !self.config.tied_head).map_or(0, kept_bytes);
        let in_parts = self.source.embedding().is_none();
        let embedding_resident = in_parts || (all_experts && all_others && embedding <= left);
        let kept = matrices.iter().zip(&resident).filter(|(_, resident)| **resident);
        let mut kept: u64 = kept.map(|(place, _)| kept_bytes(place)).sum();
        if embedding_resident {
            kept += embedding;
        }
        regions.push(("weights that stay", kept));
        let mut plan = MemoryPlan {
            budget,
            context: self.need.context,
            kv: self.need.kv,
            batch,
            buffers: if all_others { 0 } else { buffers },
            buffer_bytes: self.buffer_bytes(piece, false),
            piece_bytes: piece,
            panels: if embedding_resident { 0 } else { panels },
            embedding_resident,
            expert_pieces: 0,
            expert_piece_bytes: self.buffer_bytes(piece, true),
            expert_bytes_per_token: 0,
            skipped: self.need.skipped.clone(),
            resident,
            regions: Vec::new(),
            bytes_per_token: 0,
            weight_bytes: matrices.iter().map(|place| self.bytes_per_token(place)).sum::<u64>()
                + self.source.split_bytes(),
        };
        if !all_experts {
            // The one piece that must be is a region of its own already.
            let more = left / region(plan.expert_piece_bytes);
            let experts = matrices.iter().filter(|place| place.is_of_experts());
            let pieces: u64 = experts.clone().map(|place| self.pieces(place, piece)).sum();
            plan.expert_pieces = (1 + more).min(pieces) as usize;
            plan.expert_bytes_per_token = experts.map(|place| self.bytes_per_token(place)).sum();
            let more = (plan.expert_pieces as u64 - 1) * region(plan.expert_piece_bytes);
            regions.push(("experts used last", more));
        }
        regions.retain(|(_, bytes)| *bytes > 0);
        plan.regions = regions;
        plan
    }

    /// Bytes of a matrix that a token is multiplied with.
    fn bytes_per_token(&self, place: &Place) -> u64 {
        let (count, used) = self.experts_in(place);
        (place.raw().len() / count * used) as u64
    }

    /// Pieces that a matrix of experts has when they are of about `piece` bytes.
    fn pieces(&self, place: &Place, piece: usize) -> u64 {
        let experts = self.experts_in(place).0;
        (place.form.rows / experts).div_ceil(place.form.rows_per_piece(piece)) as u64 * experts as u64
    }
}

/// Keeps what every token is multiplied with, then experts if all of them fit; what is left then.
fn keep_most_used(matrices: &[&Place], resident: &mut [bool], left: u64) -> u64 {
    let (experts, others): (Vec<usize>, Vec<usize>) =
        (0..matrices.len()).partition(|i| matrices[*i].is_of_experts());
    let streamed: Vec<usize> = others.iter().copied().filter(|i| !resident[*i]).collect();
    let left = keep_evenly(matrices, &streamed, resident, left);
    let bytes: u64 = experts.iter().map(|i| kept_bytes(matrices[*i])).sum();
    if experts.is_empty() || bytes > left || others.iter().any(|i| !resident[*i]) {
        return left;
    }
    experts.iter().for_each(|i| resident[*i] = true);
    left - bytes
}

/// Keeps of the matrices `streamed` what fits, and says what is left then. Whole layers, spread evenly, so that the disk has
/// something to do while they are computed; and of one more layer as much as fits.
fn keep_evenly(matrices: &[&Place], streamed: &[usize], resident: &mut [bool], mut left: u64) -> u64 {
    let cost = |i: &usize| kept_bytes(matrices[*i]);
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
    left
}
