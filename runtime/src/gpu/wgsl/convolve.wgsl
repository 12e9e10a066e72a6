// A causal convolution of each channel. A thread has a channel of a token. What it sees is what was kept of the tokens before the step, and
// behind it those of the step; the last of all that is kept for the next one. Rows are `x_stride` and `y_stride` apart.

struct Job { tokens: u32, x_stride: u32, y_stride: u32, filters: u32, bias: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> before: array<f32>;
@group(0) @binding(3) var<storage, read_write> behind: array<f32>;
@group(0) @binding(4) var<storage, read> vectors: array<f32>;

fn input(t: u32, c: u32) -> f32 {
    let at = t * job.x_stride + c;
    //: if BETWEEN_GATES
    return x[at] * x[at + 2u * CHANNELS];
    //: else
    return x[at];
    //: end
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let c = group.x * THREADS + lid;
    if (c >= CHANNELS) { return; }
    let t = group.y;
    //: if BIAS
    var s = vectors[job.bias + c];
    //: else
    var s = 0.0;
    //: end
    for (var j = 0u; j < TAPS; j++) {
        let at = t + j;
        var seen = 0.0;
        if (at < PAST) { seen = before[at * CHANNELS + c]; } else { seen = input(at - PAST, c); }
        s += vectors[job.filters + j * CHANNELS + c] * seen;
    }
    //: if BETWEEN_GATES
    s *= x[t * job.x_stride + CHANNELS + c];
    //: else
    s = s / (1.0 + exp(min(-s, 80.0)));
    //: end
    y[t * job.y_stride + c] = s;
    if (t + PAST >= job.tokens) {
        behind[(t + PAST - job.tokens) * CHANNELS + c] = input(t, c);
    }
    if (t == 0u) {
        for (var j = 0u; j + job.tokens < PAST; j++) {
            behind[j * CHANNELS + c] = before[(j + job.tokens) * CHANNELS + c];
        }
    }
}
