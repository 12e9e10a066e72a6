// Outliers added to outputs. `places` has where the columns of each row begin, then the columns;
// `vectors` their values. A thread has an output of a token (y), of a
// choice, or of a head (y) of a token (z).

struct Job { rows: u32, x_stride: u32, y_stride: u32, y_first: u32, x_first: u32, columns: u32, weights: u32, used: u32, y_head: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> places: array<u32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
//: if CHOSEN
@group(0) @binding(4) var<storage, read> chosen: array<u32>;
//: end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let row = group.x * THREADS + lid;
    if (row >= job.rows) { return; }
    let start = (MATRIX) * job.rows + row;
    let input = INPUT;
    var s = 0.0;
    for (var i = places[start]; i < places[start + 1u]; i++) {
        s += vectors[job.weights + i] * x[job.x_first + input * job.x_stride + places[job.columns + i]];
    }
    y[job.y_first + OUTPUT + row] += s;
}
