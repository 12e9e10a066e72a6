// What a layer gets of a token besides the residual stream, let through by gates: the mean of what a projection and a table have for it,
// times the root of 2, in rows of `all` layers. Results are in rows `stride` apart.

struct Job { width: u32, stride: u32, all: u32, first: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> gates: array<f32>;
@group(0) @binding(1) var<storage, read> projected: array<f32>;
@group(0) @binding(2) var<storage, read> table: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
//: insert ERROR_FUNCTION

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    let v = gates[group.y * job.width + i];
    let at = group.y * job.all + job.first + i;
    out[group.y * job.stride + i] = ACTIVATION * ((projected[at] + table[at]) * 0.70710678);
}
