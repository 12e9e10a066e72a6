//! Which adapter runs models, and what it can do.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wgpu::{
    Adapter, Backend, Backends, Device, DeviceDescriptor, DeviceType, DownlevelFlags, ExperimentalFeatures,
    Features, Instance, InstanceDescriptor, InstanceFlags, Limits, PowerPreference, Queue,
    RequestAdapterOptions,
};

use crate::error::{Result, RuntimeError};

/// Bytes of immediates that kernels use at most; 128 are there everywhere.
const IMMEDIATE_BYTES: u32 = 64;
/// Bytes that a buffer must be able to have for matrix units to be used: what they are checked with takes some.
const LEAST_FOR_MATRIX_UNITS: u64 = 1 << 20;

/// A graphics processor that is open. Clones are the same one.
#[derive(Clone)]
pub struct Gpu {
    pub(super) device: Device,
    pub(super) queue: Queue,
    summary: AdapterSummary,
    limits: Limits,
    /// What went wrong of which nobody was told: drivers report errors behind the call that made them.
    problem: Arc<Mutex<Option<String>>>,
}

/// What the recording of a step depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    /// Side of the squares that matrix units multiply, where there are such.
    pub square: Option<usize>,
    /// Whether products of four bytes at a time are an instruction.
    pub integer_dot: bool,
    /// Most threads of a workgroup.
    pub max_threads: usize,
}

/// What an adapter is, for people and for JSON.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AdapterSummary {
    /// Its name.
    pub name: String,
    /// Vulkan, Metal or Dx12.
    pub backend: String,
    /// DiscreteGpu, IntegratedGpu, Cpu, ...
    pub kind: String,
    /// Driver and its version.
    pub driver: String,
    /// Side of the squares of f16 that units of their own multiply; null where there are none.
    pub matrix_units: Option<u32>,
    /// Whether the processor and it have one memory, so that weights are written to where it reads them.
    pub shared_memory: bool,
    /// Largest range of a buffer that a kernel reads.
    pub max_binding_bytes: u64,
    /// Largest buffer.
    pub max_buffer_bytes: u64,
    /// Whether it has what models need.
    pub usable: bool,
}

/// Every adapter of the system.
pub fn adapters() -> Vec<AdapterSummary> {
    let all = pollster::block_on(instance().enumerate_adapters(Backends::PRIMARY));
    all.iter().map(summary).collect()
}

impl Gpu {
    /// Opens the fastest adapter. One that is a program on the CPU only where `allow_cpu` says so.
    ///
    /// # Errors
    /// When there is none, or it has not what models need.
    pub fn open(allow_cpu: bool) -> Result<Gpu> {
        Gpu::open_within(allow_cpu, |limits| limits)
    }

    /// Opens it as a device that has no more than WebGPU promises everywhere (section 3.6.2, but for immediates), and no buffer above
    /// `most_bytes`: what tests run as if it was one.
    ///
    /// # Errors
    /// When there is none, or it has not what models need.
    pub fn open_small(allow_cpu: bool, most_bytes: u64) -> Result<Gpu> {
        let promised = Limits::default();
        Gpu::open_within(allow_cpu, |limits| Limits {
            max_buffer_size: most_bytes.min(limits.max_buffer_size),
            max_storage_buffer_binding_size: most_bytes.min(limits.max_storage_buffer_binding_size),
            max_immediate_size: limits.max_immediate_size,
            ..promised
        })
    }

    /// Opens the fastest adapter with what `choose` makes of its limits.
    fn open_within(allow_cpu: bool, choose: impl FnOnce(Limits) -> Limits) -> Result<Gpu> {
        let options = RequestAdapterOptions {
            power_preference: PowerPreference::HighPerformance,
            ..Default::default()
        };
        let none = |why: String| RuntimeError::NoGpu { why };
        let adapter = pollster::block_on(instance().request_adapter(&options))
            .map_err(|e| none(format!("no adapter was found: {e}")))?;
        if adapter.get_info().device_type == DeviceType::Cpu && !allow_cpu {
            return Err(none(format!(
                "'{}' is a program on the CPU, slower than --device cpu",
                adapter.get_info().name
            )));
        }
        let mut summary = summary(&adapter);
        if !summary.usable {
            return Err(none(format!(
                "'{}' has no immediates (push constants), or no f16 in buffers",
                summary.name
            )));
        }
        // Times of kernels are for who asks where the time goes.
        let times = Features::TIMESTAMP_QUERY | Features::TIMESTAMP_QUERY_INSIDE_PASSES;
        let mut required_features = Features::IMMEDIATES;
        if adapter.features().contains(times) {
            required_features |= times;
        }
        let mut experimental_features = ExperimentalFeatures::disabled();
        if summary.shared_memory {
            required_features |= Features::MAPPABLE_PRIMARY_BUFFERS;
        }
        let mut limits = choose(adapter.limits());
        if limits.max_buffer_size < LEAST_FOR_MATRIX_UNITS {
            summary.matrix_units = None;
        }
        if summary.matrix_units.is_some() {
            required_features |= Features::SHADER_F16 | Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
            // SAFETY: matrices are loaded and stored inside of their arrays, by every lane of a subgroup alike.
            experimental_features = unsafe { ExperimentalFeatures::enabled() };
        }
        limits.max_immediate_size = IMMEDIATE_BYTES;
        summary.max_buffer_bytes = limits.max_buffer_size;
        summary.max_binding_bytes = limits.max_storage_buffer_binding_size;
        let descriptor = DeviceDescriptor {
            label: Some("qsf"),
            required_features,
            required_limits: limits.clone(),
            experimental_features,
            ..Default::default()
        };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) =
            opened.map_err(|e| none(format!("'{}' cannot be opened: {e}", summary.name)))?;
        let problem = Arc::new(Mutex::new(None));
        let heard = problem.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            // The first is the cause of those behind it.
            let mut problem = heard.lock().unwrap_or_else(PoisonError::into_inner);
            problem.get_or_insert_with(|| error.to_string());
        }));
        Ok(Gpu { device, queue, summary, limits, problem })
    }

    /// Whether all went well so far.
    ///
    /// # Errors
    /// With what the driver or wgpu reported, if anything.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.problem.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(problem) => {
                let why = format!("'{}' failed: {problem}; --device cpu does without it", self.summary.name);
                Err(RuntimeError::NoGpu { why })
            }
        }
    }

    /// What it is.
    pub fn summary(&self) -> &AdapterSummary {
        &self.summary
    }

    /// What the recording of a step depends on.
    pub(super) fn abilities(&self) -> Abilities {
        Abilities {
            square: self.summary.matrix_units.map(|side| side as usize),
            // Metal has none, and naga writes a product for each byte there.
            integer_dot: self.summary.backend != Backend::Metal.to_string(),
            max_threads: self.limits.max_compute_invocations_per_workgroup as usize,
        }
    }

    /// Whether times of kernels can be taken.
    pub(super) fn has_times(&self) -> bool {
        self.device.features().contains(Features::TIMESTAMP_QUERY_INSIDE_PASSES)
    }

    /// Largest buffer that a kernel can read as a whole, a multiple of what buffers and matrices in them are multiples of.
    pub(super) fn max_buffer_bytes(&self) -> u64 {
        self.limits.max_buffer_size.min(self.limits.max_storage_buffer_binding_size) / 16 * 16
    }
}

/// The one instance of the process: drivers are not always found again once they were let go.
fn instance() -> &'static Instance {
    static INSTANCE: OnceLock<Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut descriptor = InstanceDescriptor::new_without_display_handle();
        descriptor.backends = Backends::PRIMARY;
        // Checks of the API cost time for every dispatch; tests switch them on by WGPU_VALIDATION.
        descriptor.flags = InstanceFlags::empty().with_env();
        Instance::new(descriptor)
    })
}

fn summary(adapter: &Adapter) -> AdapterSummary {
    let (info, features, limits) = (adapter.get_info(), adapter.features(), adapter.limits());
    // Kernels take subgroups to be 32 threads: all have as many on Metal, and elsewhere the device says so.
    let by_32 =
        info.backend == Backend::Metal || (info.subgroup_min_size, info.subgroup_max_size) == (32, 32);
    let square = adapter.cooperative_matrix_properties().iter().find_map(|p| {
        let side = if info.backend == Backend::Metal { 8 } else { 16 };
        let fits = (p.m_size, p.n_size, p.k_size) == (side, side, side)
            && p.ab_type == wgpu::CooperativeScalarType::F16
            && p.cr_type == wgpu::CooperativeScalarType::F32;
        fits.then_some(side)
    });
    let one_memory = matches!(info.device_type, DeviceType::IntegratedGpu | DeviceType::Cpu);
    let needed = Features::SHADER_F16 | Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    AdapterSummary {
        name: info.name,
        backend: info.backend.to_string(),
        kind: format!("{:?}", info.device_type),
        driver: format!("{} {}", info.driver, info.driver_info),
        matrix_units: square.filter(|_| by_32 && features.contains(needed)),
        shared_memory: one_memory && features.contains(Features::MAPPABLE_PRIMARY_BUFFERS),
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_buffer_bytes: limits.max_buffer_size,
        usable: features.contains(Features::IMMEDIATES)
            && limits.max_immediate_size >= IMMEDIATE_BYTES
            && adapter.get_downlevel_capabilities().flags.contains(DownlevelFlags::SHADER_F16_IN_F32),
    }
}
