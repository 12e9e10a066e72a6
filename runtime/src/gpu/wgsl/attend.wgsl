// Attention of one query over a part of the positions. A workgroup is a head (x), a part (y) and a token (z). It writes the values of a
// head, the maximum and the sum.

struct Job { heads: u32, kv_heads: u32, position: u32, context: u32, window: u32, scale: f32, softcap: f32, slopes: u32, stride: u32, head_stride: u32, row: u32, sinks: u32, begin: u32, part: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> keys: array<KEY_CHUNK>;
@group(0) @binding(2) var<storage, read> values: array<VALUE_CHUNK>;
@group(0) @binding(3) var<storage, read_write> parts: array<f32>;
@group(0) @binding(4) var<storage, read> vectors: array<f32>;
//: if EIGHT_BIT
@group(0) @binding(5) var<storage, read> scales: array<u32>;
//: end
var<workgroup> query: array<VECTOR, WORDS>;
var<workgroup> scores: array<vec4<f32>, SCORE_QUADS>;
var<workgroup> sums: array<f32, SUMS>;

@compute @workgroup_size(TILE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32
) {
    let head = group.x;
    let token = group.z;
    let position = job.position + token;
    let kv = head / (job.heads / job.kv_heads);
    let begin = token * job.row + head * KEY_WIDTH;
    // What is read behind the end of a head meets zeros.
    for (var i = lid; i < WORDS; i += TILE) {
        //: if EIGHT_BIT
        query[i] = vec4<f32>(qkv[begin + 4u * i], qkv[begin + 4u * i + 1u], qkv[begin + 4u * i + 2u], qkv[begin + 4u * i + 3u])
            * job.scale;
        //: else
        query[i] = vec2<f32>(qkv[begin + 2u * i], qkv[begin + 2u * i + 1u]) * job.scale;
        //: end
    }
    //: if IN_CHUNKS
    let seen = position / job.window * job.window;
    //: else
    let seen = select(0u, position + 1u - job.window, position + 1u > job.window);
    //: end
    //: if WHOLE
    let first = seen;
    let end = position + 1u;
    //: else
    let first = max(seen, job.begin + group.y * job.part);
    let end = min(position + 1u, job.begin + (group.y + 1u) * job.part);
    //: end
    let base = kv * job.context * KEY_CHUNKS;
    let value_base = kv * job.context * VALUE_CHUNKS;
    //: if SINKS
    // Softmax begins with the score that has no value, in the first part.
    let sinks = group.y == 0u;
    var largest = select(-1e30, vectors[job.sinks + head], sinks);
    var total = select(0.0, 1.0, sinks);
    //: else
    var largest = -1e30;
    var total = 0.0;
    //: end
    //: insert OUTPUTS
    for (var start = first; start < end; start += TILE) {
        workgroupBarrier();

        // Scores: a position for each thread.
        let p = start + lid;
        var score = -1e30;
        if (p < end) {
            var d = VECTOR();
            let at = base + p * KEY_CHUNKS;
            //: insert PRODUCTS
            //: if EIGHT_BIT
            score = d.x + d.y + d.z + d.w;
            //: else
            score = d.x + d.y;
            //: end
            //: if SOFTCAP
            score = job.softcap * tanh(clamp(score / job.softcap, -15.0, 15.0));
            //: end
            //: if SLOPES
            score -= vectors[job.slopes + head] * f32(position - p);
            //: end
        }
        scores[lid >> 2u][lid & 3u] = score;
        workgroupBarrier();

        // Softmax over what was seen so far.
        var most = scores[0];
        //: insert MOST
        let now = max(largest, max(max(most.x, most.y), max(most.z, most.w)));
        let factor = exp(largest - now);
        largest = now;
        workgroupBarrier();
        scores[lid >> 2u][lid & 3u] = select(0.0, exp(score - now), p < end);
        workgroupBarrier();
        var all = scores[0];
        //: insert ALL
        total = total * factor + all.x + all.y + all.z + all.w;

        // Values: some chunks for each thread. Positions behind the last one weigh nothing, and are read as it.
        let last = min(63u, end - start - 1u);
        //: insert VALUES
    }
    //: insert PUT_SUMS
    workgroupBarrier();
    //: if WHOLE
    let to = token * job.stride + head * job.head_stride;
    let share = 1.0 / total;
    //: else
    let to = ((token * job.heads + head) * groups.y + group.y) * ROW;
    let share = 1.0;
    //: end
    //: if TURN_BACK
    for (var i = lid; i < WIDTH; i += TILE) {
        sums[i] = (SUM_OF_GROUPS);
    }
    workgroupBarrier();
    //: insert HADAMARD
    for (var i = lid; i < WIDTH; i += TILE) {
        parts[to + i] = sums[i] * share;
    }
    //: else
    for (var i = lid; i < WIDTH; i += TILE) {
        parts[to + i] = (SUM_OF_GROUPS) * share;
    }
    //: end
    //: if WHOLE
    //: else
    if (lid == 0u) {
        parts[to + WIDTH] = largest;
        parts[to + LAST] = total;
    }
    //: end
}

//: part output
var oCOLUMN_WORD = VECTOR();

//: part load_scale
let sINDEX = unpack2x16float(scales[(kv * job.context + p) * KEY_SCALE_WORDS + INDEXu]) * ONE;

//: part load_key
let kINDEX = keys[at + INDEXu];

//: part add_product
d += query[AT] * KEY;

//: part begin_group
var eGROUP = query[AT] * KEY;

//: part add_to_group
eGROUP += query[AT] * KEY;

//: part end_group
d += eGROUP * SCALE;

//: part most
most = max(most, scores[INDEX]);

//: part all
all = all + scores[INDEX];

//: part fade
oCOLUMN_WORD *= factor;

//: part values
if (lid + FIRST < THREADS) {
    let mine = value_base + MINE;
    let g = GROUP;
    //: if EIGHT_BIT
    // Scales of values follow those of keys. A chunk has one, in one half of a word.
    let f = (MINE) / CHUNKS_OF_SCALE;
    let h = job.context * (job.kv_heads * KEY_SCALE_WORDS + kv * VALUE_SCALE_WORDS) + (f >> 1u);
    let half_at = (f & 1u) * 16u;
    //: end
    //: insert TURNS
}

//: part load_value
let pTURN = g + FIRST;
let vTURN = values[mine + (start + min(pTURN, last)) * VALUE_CHUNKS];
//: if EIGHT_BIT
let cTURN = scales[h + (start + min(pTURN, last)) * VALUE_SCALE_WORDS];
//: end

//: part weigh
//: if INSIDE
let wTURN = scores[pTURN >> 2u][pTURN & 3u];
//: else
let wTURN = select(0.0, scores[min(pTURN, 63u) >> 2u][pTURN & 3u], pTURN < TILE);
//: end

//: part weigh_codes
//: if INSIDE
let wTURN = scores[pTURN >> 2u][pTURN & 3u] * (unpack2x16float(cTURN >> half_at).x * ONE);
//: else
let wTURN = select(0.0, scores[min(pTURN, 63u) >> 2u][pTURN & 3u], pTURN < TILE) * (unpack2x16float(cTURN >> half_at).x * ONE);
//: end

//: part add_value
oCOLUMN_WORD += wTURN * VALUE;

//: part put_sums
if (lid + FIRST < THREADS) {
    let to = (lid + FIRST) * VALUES_OF_CHUNK;
    //: insert PUTS
}

//: part put_sum
sums[to + AT] = oCOLUMN_WORD.LANE;
