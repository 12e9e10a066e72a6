// Rows of others added to rows of values, each multiplied. A thread has a value of a token.

struct Job { width: u32, unused: u32, factor: f32, other_factor: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> values: array<f32>;
@group(0) @binding(1) var<storage, read> others: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    let at = group.y * job.width + i;
    values[at] = job.factor * values[at] + job.other_factor * others[at];
}
