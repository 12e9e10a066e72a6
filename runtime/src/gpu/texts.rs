//! The text of every kind of kernel, for compilers of systems that it cannot be run on.

use qsf_format::{Activation, BUILT_IN, BlockSize, NormKind, QuantType, Residual, RouterScore};

use super::kernels::Kernel;
use super::wgsl::activation::Function;
use super::wgsl::attend::{Attend, Join};
use super::wgsl::choose::Choose;
use super::wgsl::codes::PanelCodes;
use super::wgsl::convolve::Convolve;
use super::wgsl::embed::Embed;
use super::wgsl::likeliest::Likeliest;
use super::wgsl::low_rank::LowRankStep;
use super::wgsl::mat_mat::MatMat;
use super::wgsl::mat_vec::{Inputs, MatVec, Output};
use super::wgsl::mixer_gate::{GateNorm, MixerGate};
use super::wgsl::norm::{AddAndNorm, Added, NormInPlace};
use super::wgsl::place::{HeadNorm, Place};
use super::wgsl::recurrence::{Recurrence, Rule};
use super::wgsl::route::Route;
use super::wgsl::streams::{StreamStep, Streams};

/// A kernel as text.
#[derive(Debug, Clone)]
pub struct KernelText {
    /// Its name, which is one of a file too.
    pub name: String,
    /// WGSL.
    pub wgsl: String,
    /// Where it multiplies on matrix units, which squares it takes them to have: those of 16 are Vulkan's, those of 8 Metal's.
    pub square: Option<usize>,
}

/// Kernels of every kind, for every type and with every option.
pub fn kernel_texts() -> Vec<KernelText> {
    let text = |(name, kernel): (String, Kernel)| KernelText {
        name,
        wgsl: kernel.wgsl(&BUILT_IN),
        square: match kernel {
            Kernel::MatMat(kernel) => Some(kernel.square),
            _ => None,
        },
    };
    every_kernel().into_iter().map(text).collect()
}

fn every_kernel() -> Vec<(String, Kernel)> {
    let mut all = Vec::new();
    for quant in QuantType::ALL {
        let codes = PanelCodes { quant, block: BlockSize::B64 };
        let plain = MatVec {
            codes,
            tokens: 1,
            panels: 1,
            threads: 256,
            bias: true,
            output: Output::Store,
            integers: false,
            experts: None,
            listed: false,
        };
        let gated = MatVec {
            panels: 2,
            bias: false,
            output: Output::Gated(Function::Named(Activation::Silu)),
            ..plain
        };
        let expert = MatVec { experts: Some(Inputs::OfToken), ..gated };
        for (name, listed) in [("embed", false), ("embed-parts", true)] {
            all.push((format!("{name}-{quant}"), Kernel::Embed(Embed { codes, positions: true, listed })));
        }
        all.push((format!("mat-vec-{quant}"), Kernel::MatVec(plain)));
        all.push((format!("mat-vec-4-{quant}"), Kernel::MatVec(MatVec { tokens: 4, threads: 128, ..plain })));
        all.push((format!("mat-vec-gated-{quant}"), Kernel::MatVec(gated)));
        all.push((format!("mat-vec-expert-{quant}"), Kernel::MatVec(expert)));
        all.push((
            format!("mat-vec-expert-parts-{quant}"),
            Kernel::MatVec(MatVec { listed: true, ..expert }),
        ));
        let down = MatVec { experts: Some(Inputs::OfChoice), bias: false, ..plain };
        all.push((format!("mat-vec-expert-down-{quant}"), Kernel::MatVec(down)));
        let tiled = MatVec { tokens: 4, threads: 128, bias: true, ..expert };
        all.push((format!("mat-vec-experts-{quant}"), Kernel::MatVec(tiled)));
        let tiled = MatVec { tokens: 4, threads: 128, ..down };
        all.push((format!("mat-vec-experts-down-{quant}"), Kernel::MatVec(tiled)));
        let listed = MatVec { listed: true, ..tiled };
        all.push((format!("mat-vec-experts-down-parts-{quant}"), Kernel::MatVec(listed)));
        let head = MatVec { experts: Some(Inputs::EachHead), ..tiled };
        all.push((format!("mat-vec-head-{quant}"), Kernel::MatVec(head)));
        let tiles = MatVec { output: gated.output, panels: 2, ..head };
        all.push((format!("mat-vec-tiles-gated-{quant}"), Kernel::MatVec(tiles)));
        for square in [16, 8] {
            let kernel = MatMat { codes, bias: true, scaled: false, square };
            all.push((format!("mat-mat-{square}-{quant}"), Kernel::MatMat(kernel)));
            let scaled = MatMat { scaled: true, ..kernel };
            all.push((format!("mat-mat-scaled-{square}-{quant}"), Kernel::MatMat(scaled)));
        }
        if codes.is_linear() {
            for (name, kernel) in
                [("", plain), ("gated-", gated), ("expert-", expert), ("expert-down-", down)]
            {
                let kernel = MatVec { integers: true, ..kernel };
                all.push((format!("mat-vec-integers-{name}{quant}"), Kernel::MatVec(kernel)));
            }
        }
    }
    for (name, kind) in [("rms", NormKind::RmsNorm), ("layer", NormKind::LayerNorm)] {
        let bias = kind == NormKind::LayerNorm;
        for (i, added) in [Added::Nothing, Added::Plain, Added::Normalized].into_iter().enumerate() {
            for residual in [Residual::Sequential, Residual::Parallel, Residual::ParallelOneNorm] {
                for next in [true, false] {
                    let scaled = next;
                    let kernel =
                        AddAndNorm { kind, added, residual, next, bias, scaled, width: 200, threads: 128 };
                    all.push((format!("norm-{name}-{i}-{residual:?}-{next}"), Kernel::AddAndNorm(kernel)));
                }
            }
        }
        all.push((
            format!("norm-in-place-{name}"),
            Kernel::NormInPlace(NormInPlace { kind, bias, width: 2048, threads: 1024 }),
        ));
    }
    for (head_dim, eight_bit) in
        [10, 12, 64, 80, 128, 256].into_iter().flat_map(|dim| [(dim, false), (dim, true)])
    {
        let name = if eight_bit { format!("{head_dim}-8bit") } else { head_dim.to_string() };
        for flag in [true, false] {
            let place = Place {
                rotated: if flag { head_dim / 2 } else { 0 },
                norm: flag.then_some(HeadNorm::Head),
                ..Place::plain(head_dim, eight_bit)
            };
            all.push((format!("place-{name}-{flag}"), Kernel::Place(place)));
            let attend = Attend {
                key_dim: head_dim,
                value_dim: if flag { head_dim } else { head_dim - 3 },
                softcap: flag,
                slopes: !flag,
                sinks: flag,
                in_chunks: !flag,
                is_whole: flag,
                eight_bit,
            };
            all.push((format!("attend-{name}-{flag}"), Kernel::Attend(attend)));
        }
        all.push((format!("join-{name}"), Kernel::Join(Join { value_dim: head_dim, eight_bit })));
    }
    for norm in [HeadNorm::RotatedHead, HeadNorm::RotatedHeadPlain, HeadNorm::HeadsApart] {
        let place = Place {
            rotated: 12,
            norm: Some(norm),
            value_norm: true,
            clip: true,
            value_scale: true,
            growth: Some(1),
            ..Place::plain(23, true)
        };
        all.push((format!("place-{norm:?}"), Kernel::Place(place)));
    }
    all.push(("activate-Xielu".into(), Kernel::Activate(Function::Named(Activation::Xielu), false)));
    all.push(("reorder".into(), Kernel::Reorder));
    all.push(("scale".into(), Kernel::Scale));
    all.push(("gate".into(), Kernel::Gate));
    all.push(("split-queries".into(), Kernel::SplitQueries));
    all.push(("cut-off".into(), Kernel::CutOff));
    all.push(("limit".into(), Kernel::Limit));
    for step in StreamStep::ALL {
        all.push((format!("streams-{step:?}"), Kernel::Streams(Streams { step, count: 4 })));
    }
    let clipped = Function::Clipped { alpha: 1.702f32.to_bits(), limit: 7f32.to_bits() };
    let named = [
        ("Silu", Activation::Silu),
        ("Relu", Activation::Relu),
        ("Relu2", Activation::Relu2),
        ("GeluTanh", Activation::GeluTanh),
        ("GeluErf", Activation::GeluErf),
    ];
    for (name, activation) in named {
        all.push((format!("per-layer-{name}"), Kernel::PerLayer(activation)));
    }
    let named = named.map(|(name, activation)| (name, Function::Named(activation)));
    for (name, function) in named.into_iter().chain([("clipped", clipped)]) {
        all.push((format!("activate-{name}"), Kernel::Activate(function, false)));
        all.push((format!("activate-{name}-gated"), Kernel::Activate(function, true)));
    }
    all.extend(of_mixers());
    all.push(("add-beside".into(), Kernel::AddBeside));
    all.push(("copy".into(), Kernel::Copy));
    all.push(("softcap".into(), Kernel::Softcap));
    all.extend(of_experts());
    all.push(("choose-parts".into(), Kernel::Choose(Choose::Parts)));
    all.push(("sum".into(), Kernel::Sum));
    all.push(("choose-token".into(), Kernel::Choose(Choose::Token)));
    all.push(("likeliest-logits".into(), Kernel::Likeliest(Likeliest::Logits)));
    all.push(("likeliest-kept".into(), Kernel::Likeliest(Likeliest::Kept)));
    all
}

/// Kernels of recurrent mixers.
fn of_mixers() -> Vec<(String, Kernel)> {
    let mut all = Vec::new();
    for between_gates in [false, true] {
        for (taps, bias) in [(4, true), (3, false), (1, false)] {
            let kernel = Convolve { channels: 1000, taps, bias, between_gates };
            all.push((format!("convolve-{between_gates}-{taps}"), Kernel::Convolve(kernel)));
        }
    }
    for (name, rule) in [
        ("selective", Rule::Selective),
        ("state-space", Rule::StateSpace),
        ("delta", Rule::Delta { by_channel: false }),
        ("delta-by-channel", Rule::Delta { by_channel: true }),
    ] {
        for columns in [12, 16, 100, 128, 256] {
            let (heads, groups) = if rule == Rule::Selective { (1, 1) } else { (8, 2) };
            let kernel = Recurrence { rule, heads, rows: 80, columns, groups };
            all.push((format!("recurrence-{name}-{columns}"), Kernel::Recurrence(kernel)));
        }
    }
    for norm in [GateNorm::None, GateNorm::Before, GateNorm::Behind] {
        for sigmoid in [true, false] {
            let kernel = MixerGate { width: 800, part: 200, norm, sigmoid };
            all.push((format!("mixer-gate-{norm:?}-{sigmoid}"), Kernel::MixerGate(kernel)));
        }
    }
    all
}

/// Kernels of experts, and those that do the same for all tokens.
fn of_experts() -> Vec<(String, Kernel)> {
    let mut all = Vec::new();
    for experts in [None, Some(Inputs::OfToken), Some(Inputs::OfChoice)] {
        let name = experts.map_or(String::new(), |inputs| format!("-{inputs:?}"));
        all.push((format!("outliers{name}"), Kernel::Outliers(experts)));
        all.push((format!("low-rank-down{name}"), Kernel::LowRank(LowRankStep::Down, experts)));
        all.push((format!("low-rank-up{name}"), Kernel::LowRank(LowRankStep::Up, experts)));
    }
    all.push(("outliers-heads".into(), Kernel::Outliers(Some(Inputs::EachHead))));
    for score in [RouterScore::Softmax, RouterScore::Sigmoid] {
        for flags in 0..8 {
            let (bias, groups, normalize) = (flags & 1 > 0, 4 * usize::from(flags & 2 > 0), flags & 4 > 0);
            let route = Route { score, bias, groups, normalize, factors: normalize };
            all.push((format!("route-{score:?}-{flags}"), Kernel::Route(route)));
        }
    }
    let score = RouterScore::SparseMixer;
    let mixer = Route { score, bias: false, groups: 0, normalize: false, factors: false };
    all.push(("route-mixer".into(), Kernel::Route(mixer)));
    all.push(("tiles".into(), Kernel::Tiles(128, 4)));
    all.push(("weigh".into(), Kernel::Weigh));
    for flag in [true, false] {
        all.push((format!("gather-{flag}"), Kernel::Gather(flag)));
        all.push((format!("add-shared-{flag}"), Kernel::AddShared(flag)));
    }
    all
}
