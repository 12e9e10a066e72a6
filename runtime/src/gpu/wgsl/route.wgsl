// Which experts a token goes through. A workgroup has a token. For each choice it writes the expert and then the bits of its weight.

struct Job { experts: u32, used: u32, bias: u32, factors: u32, scale: f32, margin: f32, groups: u32, used_groups: u32, best_of_group: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> chosen: array<u32>;
@group(0) @binding(2) var<storage, read> vectors: array<f32>;
var<workgroup> best: array<vec2<f32>, THREADS>;
var<workgroup> sums: array<f32, THREADS>;
var<workgroup> largest: f32;
//: if GROUPS
var<workgroup> group_scores: array<f32, GROUP_COUNT>;
var<workgroup> kept: array<u32, GROUP_COUNT>;
//: end

fn better(a: vec2<f32>, b: vec2<f32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

// The best of what the threads have. All threads of the workgroup come here.
fn best_of_all(lid: u32, mine: vec2<f32>) -> vec2<f32> {
    workgroupBarrier();
    best[lid] = mine;
    workgroupBarrier();
    for (var step = HALF; step > 0u; step >>= 1u) {
        if (lid < step && better(best[lid + step], best[lid])) { best[lid] = best[lid + step]; }
        workgroupBarrier();
    }
    return best[0];
}

// The sum of what the threads have. All threads of the workgroup come here.
fn sum_of_all(lid: u32, mine: f32) -> f32 {
    workgroupBarrier();
    sums[lid] = mine;
    workgroupBarrier();
    for (var step = HALF; step > 0u; step >>= 1u) {
        if (lid < step) { sums[lid] += sums[lid + step]; }
        workgroupBarrier();
    }
    return sums[0];
}

// What an expert weighs, without what is divided by at last.
fn score(logit: f32) -> f32 {
    //: if SIGMOID
    return 1.0 / (1.0 + exp(min(-logit, 80.0)));
    //: else
    return exp(logit - largest);
    //: end
}

// How much a token wants an expert; `share` is what scores are multiplied with to be so.
fn wish(begin: u32, e: u32, share: f32) -> f32 {
    let logit = logits[begin + e];
    //: if PLAIN
    // As they are, which of two is larger is not lost in rounding.
    return logit;
    //: else
    //: if BIAS
    return score(logit) * share + vectors[job.bias + e];
    //: else
    return score(logit) * share;
    //: end
    //: end
}

//: if GROUPS
// The sum of the largest wishes of a group.
fn score_of_group(begin: u32, group: u32, share: f32) -> f32 {
    let size = job.experts / job.groups;
    var last = vec2<f32>(1e38, -1.0);
    var sum = 0.0;
    for (var i = 0u; i < job.best_of_group; i++) {
        var next = vec2<f32>(-1e38, 1e9);
        for (var e = group * size; e < (group + 1u) * size; e++) {
            let one = vec2<f32>(wish(begin, e, share), f32(e));
            if (better(last, one) && better(one, next)) { next = one; }
        }
        last = next;
        sum += next.x;
    }
    return sum;
}

// 1 where fewer groups than are used are better; of equal ones the first is better.
fn is_kept(group: u32) -> u32 {
    let own = group_scores[group];
    var before = 0u;
    for (var other = 0u; other < job.groups; other++) {
        let one = group_scores[other];
        before += select(0u, 1u, one > own || (one == own && other < group));
    }
    return select(0u, 1u, before < job.used_groups);
}
//: end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let begin = group.x * job.experts;
    let to = group.x * job.used * 2u;
    var share = 1.0;
    //: if SOFTMAX
    var top = vec2<f32>(-1e38, 0.0);
    for (var e = lid; e < job.experts; e += THREADS) {
        let one = vec2<f32>(logits[begin + e], f32(e));
        if (better(one, top)) { top = one; }
    }
    let first = best_of_all(lid, top).x;
    if (lid == 0u) { largest = first; }
    workgroupBarrier();
    var some = 0.0;
    for (var e = lid; e < job.experts; e += THREADS) {
        some += score(logits[begin + e]);
    }
    share = 1.0 / sum_of_all(lid, some);
    //: end
    //: if GROUPS
    for (var g = lid; g < job.groups; g += THREADS) {
        group_scores[g] = score_of_group(begin, g, share);
    }
    workgroupBarrier();
    for (var g = lid; g < job.groups; g += THREADS) { kept[g] = is_kept(g); }
    workgroupBarrier();
    let size = job.experts / job.groups;
    //: end
    var total = 0.0;
    var last = vec2<f32>(1e38, -1.0);
    for (var slot = 0u; slot < job.used; slot++) {
        var mine = vec2<f32>(-1e38, 1e9);
        for (var e = lid; e < job.experts; e += THREADS) {
            //: if GROUPS
            if (kept[e / size] == 0u) { continue; }
            //: end
            let one = vec2<f32>(wish(begin, e, share), f32(e));
            if (better(last, one) && better(one, mine)) { mine = one; }
        }
        let before = last;
        last = best_of_all(lid, mine);
        let expert = min(u32(max(last.y, 0.0)), job.experts - 1u);
        //: if MIXER
        // Its part of the softmax over those that were not chosen before and are near (`Experts::margin`).
        if (lid == 0u) { largest = last.x; }
        workgroupBarrier();
        var near = 0.0;
        for (var e = lid; e < job.experts; e += THREADS) {
            let logit = logits[begin + e];
            let is_far = (last.x - logit) / max(abs(logit), last.x) > job.margin;
            if (better(before, vec2<f32>(logit, f32(e))) && !is_far) { near += score(logit); }
        }
        let weight = 1.0 / sum_of_all(lid, near);
        //: else
        let weight = score(logits[begin + expert]);
        total += weight;
        //: end
        if (lid == 0u) {
            chosen[to + 2u * slot] = expert;
            chosen[to + 2u * slot + 1u] = bitcast<u32>(weight);
        }
    }
    //: if MIXER
    //: else
    if (lid == 0u) {
        let by = select(share, 1.0 / total, NORMALIZE) * job.scale;
        for (var slot = 0u; slot < job.used; slot++) {
            let at = to + 2u * slot;
            //: if FACTORS
            let factor = by * vectors[job.factors + chosen[at]];
            //: else
            let factor = by;
            //: end
            chosen[at + 1u] = bitcast<u32>(bitcast<f32>(chosen[at + 1u]) * factor);
        }
    }
    //: end
}
