// Parts of attention put together. A workgroup is a head (x) of a token (y).

struct Job { heads: u32, parts: u32, stride: u32, head_stride: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read_write> attended: array<f32>;
//: if EIGHT_BIT
var<workgroup> head: array<f32, WIDTH>;
//: end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let unit = group.y * job.heads + group.x;
    let at = unit * job.parts * ROW;
    var largest = -1e30;
    for (var p = 0u; p < job.parts; p++) {
        largest = max(largest, parts[at + p * ROW + WIDTH]);
    }
    var total = 0.0;
    for (var p = 0u; p < job.parts; p++) {
        let o = at + p * ROW;
        total += parts[o + LAST] * exp(parts[o + WIDTH] - largest);
    }
    for (var i = lid; i < WIDTH; i += THREADS) {
        var s = 0.0;
        for (var p = 0u; p < job.parts; p++) {
            let o = at + p * ROW;
            s += parts[o + i] * exp(parts[o + WIDTH] - largest);
        }
        //: if EIGHT_BIT
        head[i] = s / total;
        //: else
        attended[group.y * job.stride + group.x * job.head_stride + i] = s / total;
        //: end
    }
    //: if EIGHT_BIT
    workgroupBarrier();
    //: insert HADAMARD
    for (var i = lid; i < WIDTH; i += THREADS) {
        attended[group.y * job.stride + group.x * job.head_stride + i] = head[i];
    }
    //: end
}
