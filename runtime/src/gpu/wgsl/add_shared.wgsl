// What all tokens go through, added to what the experts of each made. A workgroup has a part of a token's values.

struct Job { width: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> shared_made: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
//: if GATED
@group(0) @binding(2) var<storage, read> gates: array<f32>;
//: end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    let at = group.y * job.width + i;
    //: if GATED
    let weight = 1.0 / (1.0 + exp(min(-gates[group.y], 80.0)));
    out[at] += weight * shared_made[at];
    //: else
    out[at] += shared_made[at];
    //: end
}
