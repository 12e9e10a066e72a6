// Parts of each row are normalized where they are. Rows are `job.stride` apart, and the parts follow each other from `job.first` on. A
// workgroup is a row (x) and a part (y).

struct Job { stride: u32, first: u32, gains: u32, epsilon: f32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> rows: array<f32>;
@group(0) @binding(1) var<storage, read> vectors: array<f32>;

//: insert SUM
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let at = group.x * job.stride + job.first + group.y * WIDTH;
    //: insert LOAD
    //: insert NORM
    //: insert STORE
}

//: part load
let vINDEX = rows[at + PLACE];
