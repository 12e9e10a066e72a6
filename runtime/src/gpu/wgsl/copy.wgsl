// A part of each row copied to a row of its own. A thread has a value of a token.

struct Job { width: u32, stride: u32, first: u32, to_stride: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read_write> to: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    to[group.y * job.to_stride + i] = values[group.y * job.stride + job.first + i];
}
