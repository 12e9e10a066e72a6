// By what rows of inputs are multiplied so that f16 has them: a power of two that makes the largest value less than 2^15, or 1 where it is
// that already. A workgroup has the row of a token.

struct Job { width: u32, stride: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> rows: array<f32>;
@group(0) @binding(1) var<storage, read_write> factors: array<f32>;
var<workgroup> most: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let at = group.x * job.stride;
    var largest = 0.0;
    for (var i = lid; i < job.width; i += THREADS) {
        largest = max(largest, abs(rows[at + i]));
    }
    most[lid] = largest;
    for (var n = HALF; n > 0u; n >>= 1u) {
        workgroupBarrier();
        if (lid < n) { most[lid] = max(most[lid], most[lid + n]); }
    }
    if (lid == 0u) {
        // What is 2^e or more, and less than 2^(e + 1), becomes that of 14.
        let e = i32(bitcast<u32>(most[0]) >> 23u) - 127;
        factors[group.x] = bitcast<f32>(u32(127 - max(e - 14, 0)) << 23u);
    }
}
