//! Kernels with their pipelines, each made when it is first asked for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use qsf_format::{Activation, CodeTables, Encoding, GridLevels, QuantType};
use rayon::prelude::*;
use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType,
    ComputePipeline, ComputePipelineDescriptor, Device, PipelineCompilationOptions, PipelineLayoutDescriptor,
    ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource, ShaderStages,
};

use super::wgsl::activation::{ERROR_FUNCTION, Function};
use super::wgsl::attend::{Attend, Join};
use super::wgsl::choose::Choose;
use super::wgsl::convolve::Convolve;
use super::wgsl::embed::Embed;
use super::wgsl::likeliest::Likeliest;
use super::wgsl::low_rank::LowRankStep;
use super::wgsl::mat_mat::MatMat;
use super::wgsl::mat_vec::{Inputs, MatVec};
use super::wgsl::mixer_gate::MixerGate;
use super::wgsl::norm::{AddAndNorm, NormInPlace};
use super::wgsl::place::Place;
use super::wgsl::recurrence::Recurrence;
use super::wgsl::route::Route;
use super::wgsl::streams::Streams;
use super::wgsl::{cut_off, experts, limit, pointwise, sum};

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Rows of the embedding.
    Embed(Embed),
    /// A matrix times one or a few vectors.
    MatVec(MatVec),
    /// A matrix times many vectors.
    MatMat(MatMat),
    /// The residual stream and its norms.
    AddAndNorm(AddAndNorm),
    /// A norm of rows where they are.
    NormInPlace(NormInPlace),
    /// Queries, keys and values to their places.
    Place(Place),
    /// Attention over parts of the positions.
    Attend(Attend),
    /// Those parts together.
    Join(Join),
    /// The function of a feed-forward, of a gate if there is one.
    Activate(Function, bool),
    /// What a mixer gives added to what attention beside it gives.
    AddBeside,
    /// A part of each row copied.
    Copy,
    /// The convolution of a recurrent mixer.
    Convolve(Convolve),
    /// Its state.
    Recurrence(Recurrence),
    /// The gate of what that gives.
    MixerGate(MixerGate),
    /// Logits in the order of parts, each to its place.
    Reorder,
    /// Logits are capped.
    Softcap,
    /// Logits are multiplied.
    Scale,
    /// What attention gives is let through by gates.
    Gate,
    /// What a layer gets of a token, let through by gates.
    PerLayer(Activation),
    /// Queries of attention by way of latents, taken apart.
    SplitQueries,
    /// Residual streams beside each other.
    Streams(Streams),
    /// Gates become 0 below a limit.
    CutOff,
    /// What makes inputs such that f16 has them.
    Limit,
    /// Outliers; with inputs, those of experts that were chosen.
    Outliers(Option<Inputs>),
    /// What adapters add to a matrix; with inputs, to those of experts that were chosen.
    LowRank(LowRankStep, Option<Inputs>),
    /// Which experts a token goes through.
    Route(Route),
    /// Choices of the same of so many experts, so many at a time.
    Tiles(usize, usize),
    /// Inputs times the weight of each choice.
    Weigh,
    /// What experts made, together; whether each has its weight.
    Gather(bool),
    /// What all tokens go through, added; whether a router weighs it.
    AddShared(bool),
    /// The likeliest token.
    Choose(Choose),
    /// The likeliest tokens.
    Likeliest(Likeliest),
    /// Words added up, to measure by.
    Sum,
}

impl Kernel {
    /// The text, with the tables of the file.
    pub fn wgsl(self, tables: &CodeTables) -> String {
        match self {
            Kernel::Embed(kernel) => with_levels(kernel.codes.quant, tables, |l, s| kernel.wgsl(l, s)),
            Kernel::MatVec(kernel) => {
                with_levels(kernel.codes.quant, tables, |l, s| kernel.wgsl(l, s)) + ERROR_FUNCTION
            }
            Kernel::MatMat(kernel) => with_levels(kernel.codes.quant, tables, |l, s| kernel.wgsl(l, s)),
            Kernel::AddAndNorm(kernel) => kernel.wgsl(),
            Kernel::NormInPlace(kernel) => kernel.wgsl(),
            Kernel::Place(kernel) => kernel.wgsl(),
            Kernel::Attend(kernel) => kernel.wgsl(),
            Kernel::Join(kernel) => kernel.wgsl(),
            Kernel::Activate(function, gated) => pointwise::activate(function, gated),
            Kernel::AddBeside => pointwise::add_beside(),
            Kernel::Copy => pointwise::copy(),
            Kernel::Convolve(kernel) => kernel.wgsl(),
            Kernel::Recurrence(kernel) => kernel.wgsl(),
            Kernel::MixerGate(kernel) => kernel.wgsl(),
            Kernel::Reorder => pointwise::reorder(),
            Kernel::Softcap => pointwise::softcap(),
            Kernel::Scale => pointwise::scale(),
            Kernel::Gate => pointwise::gate(),
            Kernel::PerLayer(kind) => pointwise::per_layer(kind),
            Kernel::SplitQueries => pointwise::split_queries(),
            Kernel::Streams(kernel) => kernel.wgsl(),
            Kernel::CutOff => cut_off::wgsl(),
            Kernel::Limit => limit::wgsl(),
            Kernel::Outliers(experts) => pointwise::outliers(experts),
            Kernel::LowRank(step, experts) => step.wgsl(experts),
            Kernel::Route(kernel) => kernel.wgsl(),
            Kernel::Tiles(count, size) => experts::tiles(count, size),
            Kernel::Weigh => experts::weigh(),
            Kernel::Gather(weighted) => experts::gather(weighted),
            Kernel::AddShared(gated) => experts::add_shared(gated),
            Kernel::Choose(kernel) => kernel.wgsl(),
            Kernel::Likeliest(kernel) => kernel.wgsl(),
            Kernel::Sum => sum::wgsl(),
        }
    }

    /// Of each buffer that it uses, whether it only reads it.
    pub const fn reads_only(self) -> &'static [bool] {
        match self {
            Kernel::MatVec(MatVec { listed: true, .. }) => &[true, true, false, true, true, true],
            Kernel::MatVec(MatVec { experts: Some(Inputs::OfToken | Inputs::OfChoice), .. })
            | Kernel::MatMat(MatMat { scaled: true, .. })
            | Kernel::Embed(Embed { listed: true, .. }) => &[true, true, false, true, true],
            Kernel::Embed(_) | Kernel::MatVec(_) | Kernel::MatMat(_) => &[true, true, false, true],
            Kernel::AddAndNorm(_) => &[false, true, false, true],
            Kernel::Place(Place { eight_bit: true, .. }) => &[false, false, false, true, true, false],
            Kernel::Place(_) => &[false, false, false, true, true],
            Kernel::Attend(Attend { eight_bit: true, .. }) => &[true, true, true, false, true, true],
            Kernel::Attend(_) => &[true, true, true, false, true],
            Kernel::NormInPlace(_) | Kernel::AddBeside => &[false, true],
            Kernel::Join(_)
            | Kernel::Activate(..)
            | Kernel::Copy
            | Kernel::Choose(_)
            | Kernel::Likeliest(_)
            | Kernel::Tiles(..)
            | Kernel::AddShared(false)
            | Kernel::Limit
            | Kernel::Sum => &[true, false],
            Kernel::Route(_)
            | Kernel::Weigh
            | Kernel::Gather(_)
            | Kernel::AddShared(true)
            | Kernel::LowRank(_, None) => &[true, false, true],
            Kernel::Softcap | Kernel::Scale | Kernel::CutOff => &[false],
            Kernel::Gate => &[true, false],
            Kernel::PerLayer(_) => &[true, true, true, false],
            Kernel::SplitQueries => &[true, false, false],
            Kernel::Reorder => &[true, true, false],
            Kernel::Streams(_) => &[false, false, false, false, false, true],
            Kernel::Convolve(_) => &[true, false, true, false, true],
            Kernel::Recurrence(_) => &[true, true, true, false, false, true],
            Kernel::MixerGate(_) => &[false, true, true],
            Kernel::LowRank(_, Some(_)) | Kernel::Outliers(None | Some(Inputs::EachHead)) => {
                &[true, false, true, true]
            }
            Kernel::Outliers(Some(Inputs::OfToken | Inputs::OfChoice)) => &[true, false, true, true, true],
        }
    }

    /// Bytes of its job.
    const fn job_bytes(self) -> u32 {
        4 * match self {
            Kernel::AddShared(_) => 1,
            Kernel::LowRank(LowRankStep::Down, _) => 6,
            Kernel::LowRank(LowRankStep::Up, _) | Kernel::Convolve(_) | Kernel::SplitQueries => 5,
            Kernel::NormInPlace(_)
            | Kernel::Copy
            | Kernel::AddBeside
            | Kernel::Gate
            | Kernel::PerLayer(_) => 4,
            Kernel::AddAndNorm(_) | Kernel::MixerGate(_) => 7,
            Kernel::CutOff => 3,
            Kernel::Recurrence(_) => 13,
            Kernel::MatVec(_) => 15,
            Kernel::Embed(_) | Kernel::MatMat(_) | Kernel::Streams(_) => 8,
            Kernel::Place(_) => 16,
            Kernel::Attend(_) => 14,
            Kernel::Route(_) => 9,
            Kernel::Join(_) => 4,
            Kernel::Likeliest(_) | Kernel::Weigh => 3,
            Kernel::Activate(..) => 5,
            Kernel::Reorder
            | Kernel::Softcap
            | Kernel::Scale
            | Kernel::Choose(_)
            | Kernel::Tiles(..)
            | Kernel::Gather(_)
            | Kernel::Limit
            | Kernel::Sum => 2,
            Kernel::Outliers(_) => 9,
        }
    }
}

/// Calls `text` with the levels of a type and the shift of its second grid.
fn with_levels(quant: QuantType, tables: &CodeTables, text: impl Fn(&[f32], f32) -> String) -> String {
    if let Some(sums) = tables.sums(quant) {
        let levels: Vec<f32> =
            sums.newest.iter().chain(&sums.oldest).map(|level| f32::from(*level)).collect();
        return text(&levels, 0.0);
    }
    match tables.grid(quant) {
        // Its levels are a straight line, which kernels know.
        Some((_, shift)) if matches!(quant.encoding(), Encoding::Grid { levels: GridLevels::Even, .. }) => {
            text(&[], f32::from(shift))
        }
        Some((levels, shift)) => {
            let levels: Vec<f32> = levels.iter().map(|level| f32::from(*level)).collect();
            text(&levels, f32::from(shift))
        }
        None => text(&[], 0.0),
    }
}

/// A kernel that can run.
pub struct Pipeline {
    /// The pipeline.
    pub pipeline: ComputePipeline,
    /// The layout of its buffers.
    pub layout: BindGroupLayout,
}

/// Kernels that were made so far, for the tables of one file.
pub struct Kernels {
    device: Device,
    tables: CodeTables,
    made: Mutex<HashMap<Kernel, Arc<Pipeline>>>,
}

impl Kernels {
    /// None made as yet.
    pub fn new(device: &Device, tables: CodeTables) -> Kernels {
        Kernels { device: device.clone(), tables, made: Mutex::default() }
    }

    /// Makes kernels on all threads, so that the first step does not wait for one after the other.
    pub fn prepare(&self, kernels: impl Iterator<Item = Kernel>) {
        let kernels: HashSet<Kernel> = kernels.collect();
        kernels.into_par_iter().for_each(|kernel| {
            self.get(kernel);
        });
    }

    /// A kernel, made now if need be.
    pub fn get(&self, kernel: Kernel) -> Arc<Pipeline> {
        let made = |map: &HashMap<Kernel, Arc<Pipeline>>| map.get(&kernel).cloned();
        if let Some(pipeline) = made(&self.made.lock().unwrap_or_else(PoisonError::into_inner)) {
            return pipeline;
        }
        // Without the lock: others may be made meanwhile.
        let pipeline = Arc::new(self.make(kernel));
        self.made.lock().unwrap_or_else(PoisonError::into_inner).entry(kernel).or_insert(pipeline).clone()
    }

    fn make(&self, kernel: Kernel) -> Pipeline {
        let name = format!("{kernel:?}");
        let entry = |(binding, read_only): (u32, &bool)| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer {
                ty: BufferBindingType::Storage { read_only: *read_only },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..).zip(kernel.reads_only()).map(entry).collect();
        let layout = self
            .device
            .create_bind_group_layout(&BindGroupLayoutDescriptor { label: Some(&name), entries: &entries });
        let descriptor = PipelineLayoutDescriptor {
            label: Some(&name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: kernel.job_bytes(),
        };
        let pipeline_layout = self.device.create_pipeline_layout(&descriptor);
        let source = ShaderSource::Wgsl(kernel.wgsl(&self.tables).into());
        let descriptor = ShaderModuleDescriptor { label: Some(&name), source };
        let module = if std::env::var_os("QSF_GPU_CHECKS").is_some() {
            self.device.create_shader_module(descriptor)
        } else {
            // SAFETY: loops end, as their bounds are numbers of a model that was checked; indices stay inside of the buffers that
            // `step` binds, whose sizes follow from the same numbers. `QSF_GPU_CHECKS` keeps the checks in.
            unsafe { self.device.create_shader_module_trusted(descriptor, ShaderRuntimeChecks::unchecked()) }
        };
        let pipeline = self.device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(&name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            // Kernels write workgroup memory before they read it.
            compilation_options: PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        Pipeline { pipeline, layout }
    }
}
