//! The text of every kind of kernel, for compilers of systems that it cannot be run on.

use qsf_format::{Activation, BUILT_IN, BlockSize, NormKind, QuantType, Residual};

use super::kernels::Kernel;
use super::wgsl::attend::{Attend, Join};
use super::wgsl::choose::Choose;
use super::wgsl::codes::PanelCodes;
use super::wgsl::embed::Embed;
use super::wgsl::likeliest::Likeliest;
use super::wgsl::low_rank::LowRankStep;
use super::wgsl::mat_mat::MatMat;
use super::wgsl::mat_vec::{Inputs, MatVec, Output};
use super::wgsl::norm::{AddAndNorm, Added, NormInPlace};
use super::wgsl::place::{HeadNorm, Place};
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
        };
        let gated = MatVec { panels: 2, bias: false, output: Output::Gated(Activation::Silu), ..plain };
        let expert = MatVec { experts: Some(Inputs::OfToken), ..gated };
        all.push((format!("embed-{quant}"), Kernel::Embed(Embed { codes, positions: true })));
        all.push((format!("mat-vec-{quant}"), Kernel::MatVec(plain)));
        all.push((format!("mat-vec-4-{quant}"), Kernel::MatVec(MatVec { tokens: 4, threads: 128, ..plain })));
        all.push((format!("mat-vec-gated-{quant}"), Kernel::MatVec(gated)));
        all.push((format!("mat-vec-expert-{quant}"), Kernel::MatVec(expert)));
        let down = MatVec { experts: Some(Inputs::OfChoice), bias: false, ..plain };
        all.push((format!("mat-vec-expert-down-{quant}"), Kernel::MatVec(down)));
        let head = MatVec { experts: Some(Inputs::EachHead), tokens: 4, threads: 128, ..down };
        all.push((format!("mat-vec-head-{quant}"), Kernel::MatVec(head)));
        for square in [16, 8] {
            let kernel = MatMat { codes, bias: true, square };
            all.push((format!("mat-mat-{square}-{quant}"), Kernel::MatMat(kernel)));
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
    all.push(("activate-Xielu".into(), Kernel::Activate(Activation::Xielu, false)));
    all.push(("scale".into(), Kernel::Scale));
    all.push(("gate".into(), Kernel::Gate));
    all.push(("split-queries".into(), Kernel::SplitQueries));
    all.push(("cut-off".into(), Kernel::CutOff));
    for step in StreamStep::ALL {
        all.push((format!("streams-{step:?}"), Kernel::Streams(Streams { step, count: 4 })));
    }
    for kind in [Activation::Silu, Activation::Relu, Activation::GeluTanh, Activation::GeluErf] {
        all.push((format!("activate-{kind:?}"), Kernel::Activate(kind, false)));
        all.push((format!("activate-{kind:?}-gated"), Kernel::Activate(kind, true)));
        all.push((format!("per-layer-{kind:?}"), Kernel::PerLayer(kind)));
    }
    all.push(("softcap".into(), Kernel::Softcap));
    all.push(("outliers".into(), Kernel::Outliers));
    all.push(("low-rank-down".into(), Kernel::LowRank(LowRankStep::Down)));
    all.push(("low-rank-up".into(), Kernel::LowRank(LowRankStep::Up)));
    all.push(("route".into(), Kernel::Route(false)));
    all.push(("route-normalized".into(), Kernel::Route(true)));
    all.push(("gather".into(), Kernel::Gather));
    all.push(("choose-parts".into(), Kernel::Choose(Choose::Parts)));
    all.push(("sum".into(), Kernel::Sum));
    all.push(("choose-token".into(), Kernel::Choose(Choose::Token)));
    all.push(("likeliest-logits".into(), Kernel::Likeliest(Likeliest::Logits)));
    all.push(("likeliest-kept".into(), Kernel::Likeliest(Likeliest::Kept)));
    all
}
