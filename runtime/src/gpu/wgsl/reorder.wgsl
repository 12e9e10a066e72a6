// Values of rows in another order: `places` has where each of a row is. A thread has a value.

struct Job { count: u32, width: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read> places: array<u32>;
@group(0) @binding(2) var<storage, read_write> to: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = (group.y * 32768u + group.x) * THREADS + lid;
    if (i < job.count) {
        let column = i % job.width;
        to[i] = values[i - column + places[column]];
    }
}
