// A part of each row multiplied, and another added to it with a factor of its own. A thread has a value of a token.

struct Job { width: u32, stride: u32, first: u32, factor: f32, other_factor: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> values: array<f32>;
//: if OTHERS
@group(0) @binding(1) var<storage, read> others: array<f32>;
//: end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    let at = group.y * job.stride + job.first + i;
    //: if OTHERS
    values[at] = job.factor * values[at] + job.other_factor * others[at];
    //: else
    values[at] = job.factor * values[at];
    //: end
}
