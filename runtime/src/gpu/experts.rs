//! Mixtures of experts in buffers of the graphics processor.
//!
//! Matrices of a layer's experts follow each other, so that a kernel finds those of any expert by its number. Where a buffer cannot have
//! all, some experts are in the next one. Experts of one type follow each other, then those of the next.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::{Experts, ModelConfig};
use wgpu::Buffer;

use super::linears::{GpuLinear, GpuLowRank, linear, norm, not_there, resident};
use super::mlp::{GpuMlp, function};
use super::weights::{GpuMatrix, Uploader};
use super::wgsl::activation::Function;
use super::wgsl::route::MOST_GROUPS;
use crate::error::{Result, RuntimeError};
use crate::tensor::Tensor;
use crate::weights::{BesideFeedForward, Linear, Mixture, Shared};

/// The experts of a layer.
pub struct GpuExperts {
    /// How much a token wants each.
    pub router: GpuLinear,
    /// Where what is added to their scores begins among the vectors.
    pub choice_bias: Option<u32>,
    /// Where factors of their weights begin.
    pub factors: Option<u32>,
    /// What is before the function.
    pub inner: GpuInner,
    /// What is between.
    pub function: Function,
    /// Down projections.
    pub down: GpuStack,
    /// What all tokens go through besides.
    pub shared: Option<GpuShared>,
    /// What is of experts beside a feed-forward only.
    pub beside: Option<GpuBeside>,
}

/// What experts multiply their inputs with.
pub enum GpuInner {
    /// Of each expert the gate and then the up projection, which one kernel multiplies and puts together.
    Joined(GpuStack),
    /// Gates, where there are some, and up projections, each by themselves.
    Apart(Option<GpuStack>, GpuStack),
}

/// Matrices of all experts.
pub struct GpuStack {
    /// That of the first. Outliers are those of all, their rows behind each other.
    pub matrix: GpuMatrix,
    /// Where they are.
    pub pieces: Vec<StackPiece>,
    /// Where each expert is among those of the pieces, unless they are in order.
    pub places: Option<Arc<Buffer>>,
    /// Where biases begin, those of all experts behind each other.
    pub bias: Option<u32>,
    /// What adapters add to the first; the others have the same rank, and follow.
    pub update: Option<GpuLowRank>,
}

/// Matrices of some experts, of one type and in one buffer.
pub struct StackPiece {
    /// The first matrix there.
    pub first: GpuMatrix,
    /// Words from one expert's to the next.
    pub words: u32,
    /// Whose they are, by their places.
    pub experts: Range<u32>,
}

/// What all tokens go through.
pub struct GpuShared {
    /// How much it counts, where that depends on the token.
    pub router: Option<GpuLinear>,
    /// All of it.
    pub mlp: GpuMlp,
}

/// Norms of experts beside a feed-forward: where their gains begin.
pub struct GpuBeside {
    /// Of what the router reads.
    pub router_norm: u32,
    /// Of what the experts read.
    pub expert_norm: u32,
    /// Of what the feed-forward gives.
    pub post_side_norm: u32,
    /// Of what the experts give together.
    pub post_expert_norm: u32,
}

/// Refuses mixtures of experts that the kernels there do not compute.
pub fn check_experts(experts: &Experts) -> Result<()> {
    // What the others do is said in `wgsl::route`.
    match experts.groups {
        Some(groups) if groups.count > MOST_GROUPS => Err(unlike("in more than 1024 groups")),
        _ => Ok(()),
    }
}

impl GpuExperts {
    /// Takes a mixture up.
    pub fn upload(
        uploader: &mut Uploader<'_>,
        config: &ModelConfig,
        mixture: &Mixture,
    ) -> Result<GpuExperts> {
        let Mixture { router, choice_bias, experts, shared, beside } = mixture;
        let between = experts.first().map(|expert| expert.function).ok_or_else(|| unlike("that are none"))?;
        if matches!(between, qsf_cpu::Function::Xielu { .. }) {
            return Err(unlike("with xIELU"));
        }
        let of_each = |part: fn(&crate::weights::Mlp) -> Option<&Linear>| -> Vec<&Linear> {
            experts.iter().filter_map(part).collect()
        };
        let (gates, ups) = (of_each(|expert| expert.gate.as_ref()), of_each(|expert| Some(&expert.up)));
        Ok(GpuExperts {
            router: linear(uploader, router)?,
            choice_bias: choice_bias.as_ref().map(|bias| uploader.vector(bias)),
            factors: beside.as_ref().map(|beside| uploader.vector(&beside.scale)),
            inner: GpuInner::upload(uploader, &gates, &ups)?,
            function: function(between),
            down: GpuStack::upload(uploader, &of_each(|expert| Some(&expert.down)), 1)?,
            shared: match shared {
                Some(Shared { router, mlp: of_all }) => Some(GpuShared {
                    router: router.as_ref().map(|router| linear(uploader, router)).transpose()?,
                    mlp: GpuMlp::upload(uploader, of_all)?,
                }),
                None => None,
            },
            beside: beside.as_ref().map(|beside| GpuBeside::upload(uploader, config, beside)),
        })
    }
}

impl GpuBeside {
    fn upload(uploader: &mut Uploader<'_>, config: &ModelConfig, beside: &BesideFeedForward) -> GpuBeside {
        let BesideFeedForward { router_norm, expert_norm, post_side_norm, post_expert_norm, scale: _ } =
            beside;
        let mut gains = |of| norm(uploader, config, of);
        GpuBeside {
            router_norm: gains(router_norm),
            expert_norm: gains(expert_norm),
            post_side_norm: gains(post_side_norm),
            post_expert_norm: gains(post_expert_norm),
        }
    }
}

impl GpuInner {
    fn upload(uploader: &mut Uploader<'_>, gates: &[&Linear], ups: &[&Linear]) -> Result<GpuInner> {
        if gates.is_empty() {
            return Ok(GpuInner::Apart(None, GpuStack::upload(uploader, ups, 1)?));
        }
        let both: Vec<&Linear> = gates.iter().zip(ups).flat_map(|(gate, up)| [*gate, *up]).collect();
        if are_plain(&both)? && are_alike_in(&resident_all(&both)?, 2) {
            return Ok(GpuInner::Joined(GpuStack::upload(uploader, &both, 2)?));
        }
        let gates = GpuStack::upload(uploader, gates, 1)?;
        Ok(GpuInner::Apart(Some(gates), GpuStack::upload(uploader, ups, 1)?))
    }
}

impl GpuStack {
    /// Matrices of one shape, of which an expert has so many, all of one type. Those of an expert are in one buffer.
    ///
    /// # Errors
    /// When those of one do not fit, or they are not alike.
    pub fn upload(uploader: &mut Uploader<'_>, linears: &[&Linear], of_expert: usize) -> Result<GpuStack> {
        let tensors = resident_all(linears)?;
        let Some(first) = tensors.first() else { return Err(unlike("that are none")) };
        let size = |tensor: &Tensor| (tensor.rows(), tensor.cols());
        if !are_alike_in(&tensors, of_expert) || tensors.iter().any(|tensor| size(tensor) != size(first)) {
            return Err(unlike("whose matrices are of several types or shapes"));
        }
        let experts: Vec<&[&Tensor]> = tensors.chunks(of_expert).collect();
        let types = types_of(&experts);
        let mut pieces = Vec::new();
        for of_type in &types {
            for run in of_type.chunks(uploader.most_together(experts[of_type[0]])?) {
                let run: Vec<&Tensor> = run.iter().flat_map(|expert| experts[*expert]).copied().collect();
                uploader.keep_together(&run)?;
                let matrices = run.iter().map(|tensor| uploader.panels(tensor));
                let first = matrices.collect::<Result<Vec<_>>>()?.swap_remove(0);
                let begin = pieces.last().map_or(0, |piece: &StackPiece| piece.experts.end);
                let experts = begin..begin + (run.len() / of_expert) as u32;
                pieces.push(StackPiece { words: first.words(first.rows) * of_expert as u32, first, experts });
            }
        }
        let places = match types.len() {
            1 => None,
            _ => Some(uploader.list(&places_of(&types), "places of experts")?),
        };
        // Types are in the order of their first experts.
        let matrix = GpuMatrix { outliers: uploader.outliers(&tensors)?, ..pieces[0].first.clone() };
        Ok(GpuStack {
            matrix,
            pieces,
            places,
            bias: biases(uploader, linears),
            update: update(uploader, linears),
        })
    }
}

/// Experts of each type.
fn types_of(experts: &[&[&Tensor]]) -> Vec<Vec<usize>> {
    let mut types: Vec<Vec<usize>> = Vec::new();
    for (number, expert) in experts.iter().enumerate() {
        let is_alike = |of_type: &&mut Vec<usize>| shape(experts[of_type[0]][0]) == shape(expert[0]);
        match types.iter_mut().find(is_alike) {
            Some(of_type) => of_type.push(number),
            None => types.push(vec![number]),
        }
    }
    types
}

/// Where each expert is among all that are listed.
fn places_of(types: &[Vec<usize>]) -> Vec<u32> {
    let mut places = vec![0; types.iter().map(Vec::len).sum()];
    for (place, expert) in types.iter().flatten().enumerate() {
        places[*expert] = place as u32;
    }
    places
}

/// Whether all of so many matrices behind each other have one shape and type, for each such group.
fn are_alike_in(tensors: &[&Tensor], group: usize) -> bool {
    tensors.chunks(group).all(|group| group.iter().all(|tensor| shape(tensor) == shape(group[0])))
}

fn resident_all<'l>(linears: &[&'l Linear]) -> Result<Vec<&'l Tensor>> {
    linears.iter().map(|linear| resident(&linear.weight)).collect()
}

/// Whether nothing is added to what the matrices give but a bias of all or of none.
fn are_plain(linears: &[&Linear]) -> Result<bool> {
    let with_bias = linears.iter().filter(|linear| linear.bias.is_some()).count();
    for linear in linears {
        if linear.low_rank.is_some() || resident(&linear.weight)?.has_outliers() {
            return Ok(false);
        }
    }
    Ok(with_bias == 0 || with_bias == linears.len())
}

fn shape(tensor: &Tensor) -> (super::wgsl::codes::PanelCodes, usize, usize) {
    (super::panels::codes_of(tensor), tensor.rows(), tensor.cols())
}

/// Biases behind each other; zeros for those without any.
fn biases(uploader: &mut Uploader<'_>, linears: &[&Linear]) -> Option<u32> {
    linears.iter().any(|linear| linear.bias.is_some()).then(|| {
        let of = |linear: &&Linear| linear.bias.clone().unwrap_or_else(|| vec![0.0; linear.weight.rows()]);
        uploader.vector(&linears.iter().flat_map(of).collect::<Vec<f32>>())
    })
}

/// What adapters add to each, all of the largest rank: behind what is there are zeros.
fn update(uploader: &mut Uploader<'_>, linears: &[&Linear]) -> Option<GpuLowRank> {
    let rank =
        linears.iter().filter_map(|linear| linear.low_rank.as_ref()).map(|update| update.rank()).max()?;
    let (rows, inputs) = (linears[0].weight.rows(), linears[0].weight.cols());
    let mut stacked = |width: usize, values: &dyn Fn(&Linear) -> Vec<f32>| {
        let all = linears.iter().flat_map(|linear| {
            let mut values = values(linear);
            values.resize(rank * width, 0.0);
            values
        });
        uploader.vector(&all.collect::<Vec<f32>>())
    };
    let of =
        |linear: &Linear| linear.low_rank.as_ref().map(|update| (update.down_rows(), update.up_columns()));
    let down = stacked(inputs, &|linear| of(linear).unwrap_or_default().0);
    let up = stacked(rows, &|linear| of(linear).unwrap_or_default().1);
    Some(GpuLowRank { first: 0, rows: rows as u32, inputs: inputs as u32, rank: rank as u32, down, up })
}

fn unlike(what: &str) -> RuntimeError {
    not_there(&format!("experts {what}"))
}
