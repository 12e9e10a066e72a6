// What attention gives, `width` values in rows `stride` apart, multiplied with the logistic function of gates, which begin at `first` in
// rows `row` apart.

struct Job { width: u32, stride: u32, row: u32, first: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> gates: array<f32>;
@group(0) @binding(1) var<storage, read_write> attended: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = group.x * THREADS + lid;
    if (i >= job.width) { return; }
    let gate = gates[group.y * job.row + job.first + i];
    // e^x is a number up to 88.
    attended[group.y * job.stride + i] /= 1.0 + exp(min(-gate, 80.0));
}
