// What adapters add to a matrix: the product of two narrow ones.

//: part down
// A workgroup has one output of the first matrix for one token: its threads share the inputs.

struct Job { inputs: u32, x_stride: u32, x_first: u32, rank: u32, down: u32, used: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> latent: array<f32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
//: if EXPERTS
@group(0) @binding(3) var<storage, read> chosen: array<u32>;
//: end
var<workgroup> sums: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    //: if EXPERTS
    let row = job.down + (chosen[2u * group.y] * job.rank + group.x) * job.inputs;
    //: else
    let row = job.down + group.x * job.inputs;
    //: end
    let first = job.x_first + INPUT * job.x_stride;
    var s = 0.0;
    for (var i = lid; i < job.inputs; i += THREADS) {
        s += weights[row + i] * x[first + i];
    }
    sums[lid] = s;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lid < half) { sums[lid] += sums[lid + half]; }
    }
    if (lid == 0u) { latent[group.y * job.rank + group.x] = sums[0]; }
}
//: part up
// A thread has an output of a token.

struct Job { rows: u32, y_stride: u32, y_first: u32, rank: u32, up: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> latent: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
//: if EXPERTS
@group(0) @binding(3) var<storage, read> chosen: array<u32>;
//: end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let row = group.x * THREADS + lid;
    if (row >= job.rows) { return; }
    //: if EXPERTS
    let up = job.up + chosen[2u * group.y] * job.rank * job.rows;
    //: else
    let up = job.up;
    //: end
    var s = 0.0;
    for (var r = 0u; r < job.rank; r++) {
        s += weights[up + r * job.rows + row] * latent[group.y * job.rank + r];
    }
    y[job.y_first + group.y * job.y_stride + row] += s;
}
