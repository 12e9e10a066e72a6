// Gates, `width` values at the beginning of rows `row` apart, less their mean and so many times their standard deviation; 0 where that is
// below 0. A workgroup has the row of a token.

struct Job { width: u32, row: u32, deviations: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> gates: array<f32>;
var<workgroup> part: array<f32, THREADS>;

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

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let at = group.x * job.row;
    var all = 0.0;
    for (var i = lid; i < job.width; i += THREADS) {
        all += gates[at + i];
    }
    let mean = sum(lid, all) / f32(job.width);
    var squares = 0.0;
    for (var i = lid; i < job.width; i += THREADS) {
        let d = gates[at + i] - mean;
        squares += d * d;
    }
    let limit = mean + job.deviations * sqrt(sum(lid, squares) / f32(job.width));
    for (var i = lid; i < job.width; i += THREADS) {
        gates[at + i] = max(gates[at + i] - limit, 0.0);
    }
}
