// Which experts a token goes through. A workgroup has a token. For each choice it writes the expert and then the bits of its weight.

struct Job { experts: u32, used: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> chosen: array<u32>;
var<workgroup> best: array<vec2<f32>, THREADS>;

fn better(a: vec2<f32>, b: vec2<f32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let begin = group.x * job.experts;
    let to = group.x * job.used * 2u;
    var largest = 0.0;
    var total = 0.0;
    var last = vec2<f32>(1e38, -1.0);
    for (var slot = 0u; slot < job.used; slot++) {
        var mine = vec2<f32>(-1e38, 1e9);
        for (var e = lid; e < job.experts; e += THREADS) {
            let one = vec2<f32>(logits[begin + e], f32(e));
            if (better(last, one) && better(one, mine)) { mine = one; }
        }
        workgroupBarrier();
        best[lid] = mine;
        workgroupBarrier();
        for (var step = HALF; step > 0u; step >>= 1u) {
            if (lid < step && better(best[lid + step], best[lid])) { best[lid] = best[lid + step]; }
            workgroupBarrier();
        }
        last = best[0];
        if (slot == 0u) { largest = last.x; }
        let weight = exp(last.x - largest);
        total += weight;
        if (lid == 0u) {
            chosen[to + 2u * slot] = min(u32(max(last.y, 0.0)), job.experts - 1u);
            chosen[to + 2u * slot + 1u] = bitcast<u32>(weight);
        }
    }
    if (lid == 0u) {
        var all = 0.0;
        for (var e = 0u; e < job.experts; e++) {
            all += exp(logits[begin + e] - largest);
        }
        let share = select(1.0 / all, 1.0 / total, NORMALIZE);
        for (var slot = 0u; slot < job.used; slot++) {
            let at = to + 2u * slot + 1u;
            chosen[at] = bitcast<u32>(bitcast<f32>(chosen[at]) * share);
        }
    }
}
