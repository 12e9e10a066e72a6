// Each value changed, where it is.

struct Job { count: u32, number: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> values: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = (group.y * 32768u + group.x) * THREADS + lid;
    if (i < job.count) {
        let v = values[i];
        values[i] = VALUE;
    }
}
