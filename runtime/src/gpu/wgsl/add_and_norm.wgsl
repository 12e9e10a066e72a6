// The residual stream: what is added to it, and its norms. A workgroup has the row of a token, and a thread has its values in registers
// all along. Rows of what is normed are `job.stride` apart.

struct Job { next: u32, added: u32, epsilon: f32, stride: u32, given: f32, share: f32, scale: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(1) var<storage, read> projected: array<f32>;
@group(0) @binding(2) var<storage, read_write> normed: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;

//: insert SUM
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let at = group.x * WIDTH;
    //: insert LOAD
    //: insert LOAD_ADDED
    //: insert NORM_OF_STREAM
    //: insert ADD
    //: insert NORM_OF_SUM
}

//: part load
let hINDEX = hidden[at + PLACE];

//: part load_added
//: if SCALED
let pINDEX = projected[at + PLACE] * job.given;
//: else
let pINDEX = projected[at + PLACE];
//: end

//: part add
//: if SCALED
let sINDEX = (hINDEX + VALUE * job.share) * job.scale;
//: else
let sINDEX = hINDEX + VALUE;
//: end
