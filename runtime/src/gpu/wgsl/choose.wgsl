// The likeliest token: of the logits some candidates, a key that grows with the logit and the id, and of these the token. Of equal logits
// the lowest id is chosen.

struct Job { first: u32, count: u32 }
var<immediate> job: Job;
//: if OF_LOGITS
@group(0) @binding(0) var<storage, read> logits: array<u32>;
@group(0) @binding(1) var<storage, read_write> candidates: array<vec2<u32>>;
//: else
@group(0) @binding(0) var<storage, read> candidates: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> tokens: array<u32>;
//: end
var<workgroup> best: array<vec2<u32>, THREADS>;

//: if OF_LOGITS
//: insert KEY
//: end
fn better(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    var mine = vec2<u32>(0u, NONE);
    //: if OF_LOGITS
    for (var i = group.x * THREADS + lid; i < job.count; i += ALL_THREADS) {
        let one = vec2<u32>(key(logits[job.first + i]), i);
        if (one.x > 0u && better(one, mine)) { mine = one; }
    }
    //: else
    if (lid < PARTS) { mine = candidates[lid]; }
    //: end
    best[lid] = mine;
    workgroupBarrier();
    for (var step = HALF; step > 0u; step >>= 1u) {
        if (lid < step && better(best[lid + step], best[lid])) { best[lid] = best[lid + step]; }
        workgroupBarrier();
    }
    //: if OF_LOGITS
    if (lid == 0u) { candidates[group.x] = best[0]; }
    //: else
    if (lid == 0u) { tokens[0] = best[0].y; }
    //: end
}
