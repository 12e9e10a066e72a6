// What experts made of a token added up, each with its weight. A workgroup has a part of a token's values.

struct Job { width: u32, used: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> made: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read> chosen: array<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    let first = group.y * job.used;
    if (i >= job.width) { return; }
    var s = 0.0;
    for (var slot = 0u; slot < job.used; slot++) {
        let weight = select(1.0, bitcast<f32>(chosen[2u * (first + slot) + 1u]), WEIGHTED);
        s += weight * made[(first + slot) * job.width + i];
    }
    out[group.y * job.width + i] = s;
}
