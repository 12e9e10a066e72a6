// Parts of attention put together. A workgroup is a head (x) of a token (y). A thread has a value, or several.

struct Job { heads: u32, parts: u32, stride: u32, head_stride: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read_write> attended: array<f32>;
var<workgroup> most: array<f32, THREADS>;
// Of each part, what its values and its sum are multiplied with, and the latter then.
var<workgroup> shares: array<vec2<f32>, THREADS>;
//: if EIGHT_BIT
var<workgroup> head: array<f32, WIDTH>;
//: end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let unit = group.y * job.heads + group.x;
    let at = unit * job.parts * ROW;
    let to = group.y * job.stride + group.x * job.head_stride;
    var largest = -1e30;
    for (var p = lid; p < job.parts; p += THREADS) {
        largest = max(largest, parts[at + p * ROW + WIDTH]);
    }
    most[lid] = largest;
    for (var n = HALF; n > 0u; n >>= 1u) {
        workgroupBarrier();
        if (lid < n) { most[lid] = max(most[lid], most[lid + n]); }
    }
    workgroupBarrier();
    largest = most[0];

    var total = 0.0;
    //: insert SUMS
    for (var first = 0u; first < job.parts; first += THREADS) {
        workgroupBarrier();
        if (first + lid < job.parts) {
            let o = at + (first + lid) * ROW;
            let factor = exp(parts[o + WIDTH] - largest);
            shares[lid] = vec2<f32>(factor, factor * parts[o + LAST]);
        }
        workgroupBarrier();
        let count = min(THREADS, job.parts - first);
        for (var p = 0u; p < count; p++) {
            let o = at + (first + p) * ROW;
            let share = shares[p];
            total += share.y;
            //: insert ADD
        }
    }
    //: insert PUT
    //: if EIGHT_BIT
    workgroupBarrier();
    //: insert HADAMARD
    for (var i = lid; i < WIDTH; i += THREADS) {
        attended[to + i] = head[i];
    }
    //: end
}

//: part sum
// Behind the last value is no other.
let iCOLUMN = FIRST + lid;
let nCOLUMN = min(iCOLUMN, LAST_VALUE);
var sCOLUMN = 0.0;

//: part add
sCOLUMN += share.x * parts[o + nCOLUMN];

//: part put
if (iCOLUMN < WIDTH) {
    //: if EIGHT_BIT
    head[iCOLUMN] = sCOLUMN / total;
    //: else
    attended[to + iCOLUMN] = sCOLUMN / total;
    //: end
}
