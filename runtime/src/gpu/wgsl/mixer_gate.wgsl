// What a recurrence gives, gated, and normalized before or behind that, where it is. A workgroup has a part of a token, which is normalized
// by itself.

struct Job { stride: u32, gate_stride: u32, gate: u32, gains: u32, gains_of_part: u32, epsilon: f32, factor: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> mixed: array<f32>;
@group(0) @binding(1) var<storage, read> gates: array<f32>;
@group(0) @binding(2) var<storage, read> vectors: array<f32>;
//: if NORM
var<workgroup> sums: array<f32, THREADS>;
//: end

fn gate(at: u32) -> f32 {
    let g = gates[at] * job.factor;
    //: if SIGMOID
    return 1.0 / (1.0 + exp(min(-g, 80.0)));
    //: else
    return g / (1.0 + exp(min(-g, 80.0)));
    //: end
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let begin = group.x * PART;
    let end = min(begin + PART, WIDTH);
    let at = group.y * job.stride;
    let gate_at = group.y * job.gate_stride + job.gate;
    //: if NORM
    var s = 0.0;
    for (var i = begin + lid; i < end; i += THREADS) {
        var v = mixed[at + i];
        //: if GATE_FIRST
        v *= gate(gate_at + i);
        mixed[at + i] = v;
        //: end
        s += v * v;
    }
    sums[lid] = s;
    workgroupBarrier();
    for (var step = HALF; step > 0u; step >>= 1u) {
        if (lid < step) { sums[lid] += sums[lid + step]; }
        workgroupBarrier();
    }
    let factor = inverseSqrt(sums[0] / MEAN_OF + job.epsilon);
    let gains = job.gains + group.x * job.gains_of_part;
    for (var i = begin + lid; i < end; i += THREADS) {
        var v = mixed[at + i] * factor * vectors[gains + i - begin];
        //: if GATE_LAST
        v *= gate(gate_at + i);
        //: end
        mixed[at + i] = v;
    }
    //: else
    for (var i = begin + lid; i < end; i += THREADS) {
        mixed[at + i] *= gate(gate_at + i);
    }
    //: end
}
