// Residual streams beside each other, and the residual of low rank beside attention. A workgroup has a token (x), and where it says so a
// stream (y). The first stream is `hidden`; those beside it follow each other for each token, as do all streams in `predicted`. Rows of
// `normed` are `job.stride` apart.

struct Job { width: u32, stride: u32, stream: u32, gains: u32, router: u32, weights: u32, scale: u32, epsilon: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(1) var<storage, read_write> others: array<f32>;
@group(0) @binding(2) var<storage, read_write> predicted: array<f32>;
@group(0) @binding(3) var<storage, read_write> normed: array<f32>;
@group(0) @binding(4) var<storage, read_write> projected: array<f32>;
@group(0) @binding(5) var<storage, read> vectors: array<f32>;
var<workgroup> part: array<f32, THREADS>;
var<workgroup> factors: array<f32, COUNT>;

// A value of every thread added up, for every thread.
fn sum(lid: u32, value: f32) -> f32 {
    workgroupBarrier();
    part[lid] = value;
    workgroupBarrier();
    for (var step = HALF; step > 0u; step >>= 1u) {
        if (lid < step) { part[lid] += part[lid + step]; }
        workgroupBarrier();
    }
    return part[0];
}

// Where a stream beside the first begins.
fn beside(token: u32, stream: u32) -> u32 {
    return (token * (COUNT - 1u) + stream) * job.width;
}

// A value of one of all streams.
fn value_of(token: u32, stream: u32, i: u32) -> f32 {
    if (stream == 0u) { return hidden[token * job.width + i]; }
    return others[beside(token, stream - 1u) + i];
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let token = group.x;
    let at = token * job.width;
    //: insert STEP
}

//: part shares
// How much each stream has to do with the token.
var squares = 0.0;
for (var i = lid; i < job.width; i += THREADS) {
    squares += hidden[at + i] * hidden[at + i];
}
let factor = inverseSqrt(sum(lid, squares) / f32(job.width) + job.epsilon);
var shares: array<f32, COUNT>;
for (var s = 0u; s < COUNT; s++) {
    var d = 0.0;
    for (var i = lid; i < job.width; i += THREADS) {
        d += hidden[at + i] * factor * vectors[job.gains + i] * vectors[job.router + s * job.width + i];
    }
    shares[s] = tanh(clamp(sum(lid, d), -15.0, 15.0));
}

//: part predict
for (var to = 0u; to < COUNT; to++) {
    workgroupBarrier();
    for (var s = lid; s < COUNT; s += THREADS) {
        var f = 0.0;
        for (var k = 0u; k < COUNT; k++) {
            f += vectors[job.weights + (to * COUNT + s) * COUNT + k] * shares[k];
        }
        factors[s] = f;
    }
    workgroupBarrier();
    for (var i = lid; i < job.width; i += THREADS) {
        var v = value_of(token, to, i);
        for (var s = 0u; s < COUNT; s++) {
            v += factors[s] * value_of(token, s, i);
        }
        predicted[(token * COUNT + to) * job.width + i] = v;
    }
}
for (var i = lid; i < job.width; i += THREADS) {
    hidden[at + i] = predicted[token * COUNT * job.width + i];
    for (var s = 1u; s < COUNT; s++) {
        others[beside(token, s - 1u) + i] = predicted[(token * COUNT + s) * job.width + i];
    }
}

//: part correct
workgroupBarrier();
for (var s = lid; s < COUNT; s += THREADS) {
    var f = 1.0;
    for (var k = 0u; k < COUNT; k++) {
        f += vectors[job.weights + s * COUNT + k] * shares[k];
    }
    factors[s] = f;
}
workgroupBarrier();
for (var i = lid; i < job.width; i += THREADS) {
    let was = predicted[token * COUNT * job.width + i];
    let news = hidden[at + i] - was;
    let now = was + factors[0] * news;
    hidden[at + i] = now;
    normed[token * job.stride + i] = now * vectors[job.scale + i];
    for (var s = 1u; s < COUNT; s++) {
        others[beside(token, s - 1u) + i] += factors[s] * news;
    }
}

//: part rescale
let begin = beside(token, group.y);
var wanted = 0.0;
var found = 0.0;
for (var i = lid; i < job.width; i += THREADS) {
    wanted += hidden[at + i] * hidden[at + i];
    found += others[begin + i] * others[begin + i];
}
let from_first = sum(lid, wanted) / f32(job.width);
let of_other = max(sum(lid, found) / f32(job.width), LEAST);
let times = sqrt(from_first) / sqrt(of_other);
for (var i = lid; i < job.width; i += THREADS) {
    others[begin + i] *= times;
}

//: part take
for (var i = lid; i < job.width; i += THREADS) {
    normed[token * job.stride + i] = others[beside(token, job.stream) + i];
}

//: part mean
var wanted = 0.0;
for (var i = lid; i < job.width; i += THREADS) {
    wanted += hidden[at + i] * hidden[at + i];
}
let magnitude = sqrt(sum(lid, wanted) / f32(job.width));
for (var s = 0u; s < COUNT - 1u; s++) {
    var found = 0.0;
    for (var i = lid; i < job.width; i += THREADS) {
        let back = predicted[(token * COUNT + s) * job.width + i];
        found += back * back;
    }
    let times = magnitude / sqrt(max(sum(lid, found) / f32(job.width), LEAST));
    for (var i = lid; i < job.width; i += THREADS) {
        hidden[at + i] += times * predicted[(token * COUNT + s) * job.width + i];
    }
}
for (var i = lid; i < job.width; i += THREADS) {
    hidden[at + i] /= f32(COUNT);
}

//: part add_to_others
for (var i = lid; i < job.width; i += THREADS) {
    others[beside(token, group.y) + i] += projected[at + i];
}

//: part add_read
for (var i = lid; i < job.width; i += THREADS) {
    projected[at + i] += normed[token * job.stride + i];
}
