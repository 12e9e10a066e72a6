// Matrices in panels times many vectors, on matrix units. A workgroup of eight subgroups makes 128 outputs of 128 tokens.
enable f16;
enable wgpu_cooperative_matrix;

struct Job { at: u32, superblocks: u32, rows: u32, tokens: u32, x_stride: u32, y_stride: u32, y_first: u32, bias: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
//: if SCALED
@group(0) @binding(4) var<storage, read> factors: array<f32>;
var<workgroup> scales: array<f32, TILE>;
//: end
var<workgroup> ws: array<ELEMENT, TILE_ELEMENTS>;
var<workgroup> xs: array<ELEMENT, TILE_ELEMENTS>;
var<workgroup> squares: array<f32, SQUARES>;
const shift: f32 = SHIFT;
//: insert TABLE

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let row = lid & 15u;
    let mine = (lid >> 4u) & 7u;
    let half = lid >> 7u;
    let first_row = group.x * TILE;
    let first_token = group.y * TILE;
    let subgroup = lid >> 5u;
    let sub_token = (subgroup & 3u) * 32u;
    let sub_row = (subgroup >> 2u) * 64u;
    let panel0 = job.at + min((first_row >> 4u) + mine, (job.rows - 1u) >> 4u) * (HEAD_WORDS + job.superblocks * SUPERBLOCK_WORDS);
    //: insert HEAD
    //: insert FILL_TABLE
    //: if SCALED
    if (lid < TILE) {
        let token = first_token + lid;
        scales[lid] = select(1.0, factors[min(token, job.tokens - 1u)], token < job.tokens);
    }
    //: end
    //: insert SUMS
    for (var b0 = 0u; b0 < job.superblocks; b0 += TURN) {
        //: insert STEPS
    }
    //: insert OUTPUTS
}

//: part sum
var SUM_OF = coop_matSIDExSIDE<f32, C>();

//: part inputs
workgroupBarrier();
{
    let slot = lid & 15u;
    var quad = 0u;
    // Which quad is in which place is known when this is written; a thread looks up its own.
    const order = array<u32, STEP_QUADS>(ORDER);
    quad = order[slot];
    let column = b0 * QUADS + quad;
    for (var t = lid >> 4u; t < TILE; t += TOKENS_AT_ONCE) {
        var v = vec4<f32>();
        if (first_token + t < job.tokens && column < job.superblocks * QUADS) {
            //: if SCALED
            v = x[(first_token + t) * job.x_stride + column] * scales[t];
            //: else
            v = x[(first_token + t) * job.x_stride + column];
            //: end
        }
        //: insert PUT
    }
}

//: part weights
if (half == HALF) {
    // Behind the last superblock inputs are 0, and weights must be numbers: those of the last.
    let b = min(b0 + OFFSET, job.superblocks - 1u);
    let at0 = panel0 + HEAD_WORDS + b * SUPERBLOCK_WORDS;
    //: insert SCALES
    //: insert LINES
    //: insert PUTS
}

//: part put_four
{
    let q = VALUE;
    let i = 4u * (AT);
    ARRAY[i] = q.x;
    ARRAY[i + 1u] = q.y;
    ARRAY[i + 2u] = q.z;
    ARRAY[i + 3u] = q.w;
}

//: part put
ARRAY[AT] = VALUE;

//: part load_inputs
let aACROSS = coopLoadT<coop_matSIDExSIDE<f16, A>>(&xs[(sub_token + FIRST) * STRIDE + PLACE], STRIDE);

//: part load_weights
let bDOWN = coopLoad<coop_matSIDExSIDE<f16, B>>(&ws[(sub_row + FIRST) * STRIDE + PLACE], STRIDE);

//: part multiply
SUM_OF = coopMultiplyAdd(aACROSS, bDOWN, SUM_OF);

//: part output
workgroupBarrier();
coopStoreT(SUM_OF, &squares[subgroup * AREA], SQUARE);
workgroupBarrier();
for (var e = lid & 31u; e < AREA; e += 32u) {
    let t = first_token + sub_token + TOKEN + e / SQUARE;
    let r = first_row + sub_row + ROW + e % SQUARE;
    if (t < job.tokens && r < job.rows) {
        //: if SCALED
        let value = squares[subgroup * AREA + e] / scales[sub_token + TOKEN + e / SQUARE];
        //: else
        let value = squares[subgroup * AREA + e];
        //: end
        //: if BIAS
        y[job.y_first + t * job.y_stride + r] = value + vectors[job.bias + r];
        //: else
        y[job.y_first + t * job.y_stride + r] = value;
        //: end
    }
}
