//! Where the time of a step goes: the device writes it down behind each kernel.

use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePass, MapMode, PollType, QuerySet,
    QuerySetDescriptor, QueryType, SubmissionIndex,
};

use super::device::Gpu;
use super::kernels::Kernel;
use crate::decoder::{Profile, Section};

/// Times of the kernels of one pass.
pub struct Times {
    set: QuerySet,
    resolved: Buffer,
    read_back: Buffer,
    sections: Vec<Section>,
}

impl Times {
    /// Room for the times of these kernels; `is_head` says that they make logits. `None` where the device takes no times, or not
    /// of so many.
    pub fn new(gpu: &Gpu, kernels: impl Iterator<Item = Kernel>, is_head: bool) -> Option<Times> {
        let sections: Vec<Section> =
            kernels.map(|kernel| if is_head { Section::Head } else { section(kernel) }).collect();
        let count = sections.len() as u32 + 1;
        if !gpu.has_times() || count > wgpu::QUERY_SET_MAX_QUERIES {
            return None;
        }
        let buffer = |usage| {
            let size = u64::from(count) * 8;
            gpu.device.create_buffer(&BufferDescriptor {
                label: Some("times"),
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let descriptor = QuerySetDescriptor { label: Some("times"), ty: QueryType::Timestamp, count };
        Some(Times {
            set: gpu.device.create_query_set(&descriptor),
            resolved: buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC),
            read_back: buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST),
            sections,
        })
    }

    /// The time before the first kernel, or behind kernel `after - 1`.
    pub fn write(&self, pass: &mut ComputePass<'_>, after: usize) {
        pass.write_timestamp(&self.set, after as u32);
    }

    /// Behind the pass.
    pub fn resolve(&self, encoder: &mut CommandEncoder) {
        encoder.resolve_query_set(&self.set, 0..self.sections.len() as u32 + 1, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.read_back, 0, self.read_back.size());
    }

    /// Waits for the pass, and counts its kernels.
    pub fn count(&self, gpu: &Gpu, steps: SubmissionIndex, profile: &mut Profile) {
        self.read_back.slice(..).map_async(MapMode::Read, |_| ());
        let wait = PollType::Wait { submission_index: Some(steps), timeout: None };
        // A device that is lost says so where results are read.
        let Ok(_) = gpu.device.poll(wait) else { return };
        let Ok(view) = self.read_back.slice(..).get_mapped_range() else { return };
        let time = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let times: Vec<u64> = view.chunks_exact(8).map(time).collect();
        let period = f64::from(gpu.queue.get_timestamp_period());
        for (pair, section) in times.windows(2).zip(&self.sections) {
            profile.add(*section, (pair[1].saturating_sub(pair[0]) as f64 * period) as u64);
        }
    }
}

fn section(kernel: Kernel) -> Section {
    match kernel {
        Kernel::MatVec(_) | Kernel::MatMat(_) | Kernel::Outliers(_) => Section::Matmul,
        Kernel::Attend(_) | Kernel::Join(_) | Kernel::Recurrence(_) => Section::Attention,
        _ => Section::Elementwise,
    }
}
