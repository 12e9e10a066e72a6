// Queries, keys and values of a step go to their places: norms of heads, rotation, and the cache. A workgroup has one head of one token.
//
// Workgroups of a token, the first of which is `job.first`: the heads of queries, then those of keys, then those of values. In its row
// queries come first, keys begin at `job.k_at`, values at `job.v_at`. The cache of a layer holds two values in a word, heads x positions
// x width of a head, or four codes; scales are those of all keys and then those of all values. With codes, queries are rotated as keys
// are.

struct Job { heads: u32, kv_heads: u32, position: u32, context: u32, q_gain: u32, k_gain: u32, epsilon: f32, table: u32, row: u32, k_at: u32, v_at: u32, first: u32, clip: f32, value_scale: f32, growth: f32, growth_positions: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> values: array<u32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
@group(0) @binding(4) var<storage, read> angles: array<vec2<f32>>;
//: if EIGHT_BIT
@group(0) @binding(5) var<storage, read_write> scales: array<u32>;
//: end
var<workgroup> head: array<f32, ROOM>;
var<workgroup> part: array<f32, THREADS>;

//: if EIGHT_BIT
// The largest size of a group. By integers, so that what is not a number is larger than all numbers and shows; 0 behind the last group.
fn most(g: u32) -> f32 {
    var bits = 0u;
    for (var i = g * GROUP; i < min((g + 1u) * GROUP, WIDTH); i++) {
        bits = max(bits, bitcast<u32>(head[i]) & 0x7fffffffu);
    }
    return bitcast<f32>(bits);
}
//: end

// A value of every thread added up, for every thread.
fn sum(lid: u32, value: f32) -> f32 {
    workgroupBarrier();
    part[lid] = value;
    workgroupBarrier();
    for (var step = HALF_THREADS; step > 0u; step >>= 1u) {
        if (lid < step) { part[lid] += part[lid + step]; }
        workgroupBarrier();
    }
    return part[0];
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let token = group.y;
    let position = job.position + token;
    let unit = group.x + job.first;
    let is_q = unit < job.heads;
    let is_k = !is_q && unit < job.heads + job.kv_heads;
    let is_v = !is_q && !is_k;
    let kv = select(unit - job.heads - job.kv_heads, unit - job.heads, is_k);
    let begin = token * job.row + select(select(job.v_at, job.k_at, is_k) + kv * WIDTH, unit * WIDTH, is_q);
    for (var i = lid; i < WIDTH; i += THREADS) {
        head[i] = qkv[begin + i];
    }
    //: if TAIL
    if (lid < TAIL) { head[WIDTH + lid] = 0.0; }
    //: end
    workgroupBarrier();
    //: insert NORM_FIRST

    //: if CLIP
    for (var i = lid; i < WIDTH; i += THREADS) {
        head[i] = clamp(head[i], -job.clip, job.clip);
    }
    workgroupBarrier();
    //: end

    //: if VALUE_SCALE
    if (is_v) {
        for (var i = lid; i < WIDTH; i += THREADS) {
            head[i] *= job.value_scale;
        }
    }
    workgroupBarrier();
    //: end

    //: if ROTATED
    if (is_q || is_k) {
        for (var i = lid; i < HALF; i += THREADS) {
            let turn = angles[job.table + position * HALF + i];
            let a = head[i];
            let b = head[i + HALF];
            head[i] = a * turn.x - b * turn.y;
            head[i + HALF] = b * turn.x + a * turn.y;
        }
    }
    workgroupBarrier();
    //: end
    //: insert NORM_LAST

    //: if GROWTH
    // Queries far from the beginning are larger.
    if (is_q) {
        let times = f32((position + COUNTED_FROM) / job.growth_positions);
        let factor = 1.0 + job.growth * log(1.0 + times);
        for (var i = lid; i < WIDTH; i += THREADS) {
            head[i] *= factor;
        }
    }
    workgroupBarrier();
    //: end

    //: insert HADAMARD
    if (is_q) {
        for (var i = lid; i < WIDTH; i += THREADS) {
            qkv[begin + i] = head[i];
        }
    } else {
        //: if EIGHT_BIT
        // A scale is rounded before it is divided by.
        let row = kv * job.context + position;
        for (var i = lid; i < WORDS; i += THREADS) {
            let largest = unpack2x16float(pack2x16float(vec2<f32>(most(i / GROUP_WORDS), 0.0))).x;
            let inverse = select(1.0 / largest, 0.0, largest == 0.0);
            let at = 4u * i;
            let word = pack4x8snorm(vec4<f32>(head[at], head[at + 1u], head[at + 2u], head[at + 3u]) * inverse);
            if (is_k) { keys[row * WORDS + i] = word; } else { values[row * WORDS + i] = word; }
        }
        let at = select(job.kv_heads * job.context * KEY_SCALE_WORDS, 0u, is_k) + row * SCALE_WORDS;
        for (var i = lid; i < SCALE_WORDS; i += THREADS) {
            scales[at + i] = pack2x16float(vec2<f32>(most(2u * i), most(2u * i + 1u)));
        }
        //: else
        let at = (kv * job.context + position) * WORDS;
        for (var i = lid; i < WORDS; i += THREADS) {
            let word = pack2x16float(vec2<f32>(head[2u * i], head[2u * i + 1u]));
            if (is_k) { keys[at + i] = word; } else { values[at + i] = word; }
        }
        //: end
    }
}

//: part norm
{
    //: if CENTRED
    var all = 0.0;
    for (var i = lid; i < WIDTH; i += THREADS) {
        all += head[i];
    }
    let mean = sum(lid, all) / MEAN_OF;
    //: else
    let mean = 0.0;
    //: end
    var squares = 0.0;
    for (var i = lid; i < WIDTH; i += THREADS) {
        let d = head[i] - mean;
        squares += d * d;
    }
    let factor = inverseSqrt(sum(lid, squares) / MEAN_OF + job.epsilon);
    if (NORMED) {
        for (var i = lid; i < WIDTH; i += THREADS) {
            head[i] = (head[i] - mean) * factor * GAIN;
        }
    }
    workgroupBarrier();
}

//: part gain
vectors[select(job.k_gain, job.q_gain, is_q) + i]

//: part gain_of_head
vectors[select(job.k_gain + kv * WIDTH, job.q_gain + unit * WIDTH, is_q) + i]
