// The input of each choice: that of its token times its weight. A workgroup has a part of a choice's values.

struct Job { width: u32, stride: u32, used: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read> chosen: array<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    let weight = bitcast<f32>(chosen[2u * group.y + 1u]);
    out[group.y * job.stride + i] = weight * x[group.y / job.used * job.stride + i];
}
