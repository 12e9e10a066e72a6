// The likeliest of many tokens. An entry is a key that grows with the logit, 0 where there is none, and a token. Each workgroup sorts a
// slice (bitonic) and keeps what can be among them. Slices have their best key and their sum at the beginning, and what they keep at
// `job.to`.

struct Job { count: u32, begin: u32, to: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> logits: array<u32>;
@group(0) @binding(1) var<storage, read_write> entries: array<vec2<u32>>;
var<workgroup> slice: array<vec2<u32>, SLICE>;

//: insert KEY
fn better(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

fn logit(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let first = group.x * SLICE;
    for (var i = lid; i < SLICE; i += THREADS) {
        let at = first + i;
        var entry = vec2<u32>(0u, 0xffffffffu);
        //: if OF_LOGITS
        if (at < job.count) { entry = vec2<u32>(key(logits[at]), at); }
        //: else
        if (at < job.count) { entry = entries[job.begin + at]; }
        //: end
        slice[i] = entry;
    }
    workgroupBarrier();
    for (var size = 2u; size <= SLICE; size <<= 1u) {
        for (var apart = size >> 1u; apart > 0u; apart >>= 1u) {
            for (var i = lid; i < PAIRS; i += THREADS) {
                let a = i + (i & ~(apart - 1u));
                let b = a + apart;
                let x = slice[a];
                let y = slice[b];
                if (better(y, x) == ((a & size) == 0u)) {
                    slice[a] = y;
                    slice[b] = x;
                }
            }
            workgroupBarrier();
        }
    }
    for (var i = lid; i < KEPT; i += THREADS) {
        entries[job.to + group.x * KEPT + i] = slice[i];
    }
    //: if OF_LOGITS
    let best = slice[0].x;
    var sum = 0.0;
    for (var i = lid; i < SLICE; i += THREADS) {
        let one = slice[i].x;
        if (one > 0u) { sum += exp(logit(one) - logit(best)); }
    }
    workgroupBarrier();
    slice[lid].y = bitcast<u32>(sum);
    workgroupBarrier();
    for (var step = HALF; step > 0u; step >>= 1u) {
        if (lid < step) {
            slice[lid].y = bitcast<u32>(bitcast<f32>(slice[lid].y) + bitcast<f32>(slice[lid + step].y));
        }
        workgroupBarrier();
    }
    if (lid == 0u) { entries[group.x] = vec2<u32>(best, slice[0].y); }
    //: end
}
