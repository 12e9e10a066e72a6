// Queries of attention by way of latents: their first values are compared with what heads share of keys, and the rest goes to where a
// matrix of the head turns it to latents. A workgroup is a head (x) of a token (y). A query as it is compared has `compared` values, and
// rows of the rest are `stride` apart.

struct Job { row: u32, head_dim: u32, shared_dim: u32, compared: u32, stride: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> q: array<f32>;
@group(0) @binding(1) var<storage, read_write> queries: array<f32>;
@group(0) @binding(2) var<storage, read_write> rest: array<f32>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32
) {
    let head = group.y * groups.x + group.x;
    let begin = group.y * job.row + group.x * job.head_dim;
    for (var i = lid; i < job.head_dim; i += THREADS) {
        let value = q[begin + i];
        if (i < job.shared_dim) {
            queries[head * job.compared + i] = value;
        } else {
            rest[head * job.stride + i - job.shared_dim] = value;
        }
    }
}
