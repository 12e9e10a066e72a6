// Activation of each value, of a gate if there is one. A row has a gate and an up part of `width` values, or an up part only; results are
// `width` values, in rows `stride` apart. Gates are multiplied with `factor` before; xIELU has `above` and `below`.

struct Job { width: u32, stride: u32, factor: f32, above: f32, below: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> inner: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
//: insert ERROR_FUNCTION

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    //: if GATED
    let at = group.y * 2u * job.width + i;
    let v = inner[at] * job.factor;
    let u = inner[at + job.width];
    out[group.y * job.stride + i] = PRODUCT;
    //: else
    let at = group.y * job.width + i;
    let v = inner[at];
    out[group.y * job.stride + i] = ACTIVATION;
    //: end
}
