// Matrices in panels times one or a few vectors. A workgroup makes the outputs of some panels. Sixteen threads are the rows of a panel,
// and the others of the workgroup share its superblocks with them.

struct Job { at: u32, second: u32, superblocks: u32, rows: u32, x_first: u32, x_stride: u32, y_stride: u32, y_first: u32, bias: u32, expert_words: u32, used: u32, x_head: u32, y_head: u32, first_expert: u32, end_expert: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
//: if CHOSEN
@group(0) @binding(4) var<storage, read> chosen: array<u32>;
//: end
//: if LISTED
@group(0) @binding(5) var<storage, read> places: array<u32>;
//: end
var<workgroup> part: array<f32, SUMS>;
const shift: f32 = SHIFT;
//: insert MEMORY

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let row = lid & 15u;
    let slice = lid >> 4u;
    let first = (group.x + group.y * MAX_GROUPS) * OWN_PANELS;
    //: if CHOSEN
    // Where the group's part of `chosen` begins: an expert, and then the choices of a tile, or the weight of one choice.
    let tile = group.z * TILE_WORDS;
    let expert = chosen[tile];
    //: if LISTED
    if (expert == NONE) { return; }
    let place = places[expert];
    //: else
    let place = expert;
    //: end
    // Others are in another buffer or of another type, or there is none.
    if (place < job.first_expert || place >= job.end_expert) { return; }
    let start = (place - job.first_expert) * job.expert_words;
    //: else
    let start = MATRIX;
    //: end
    //: if TILED
    let y_first = job.y_first;
    let x_first = job.x_first;
    //: insert ROWS
    //: else
    let y_first = Y_FIRST;
    let x_first = X_FIRST;
    //: end
    //: insert FILL_TABLE
    //: insert PANELS
    //: insert LOOP
    //: insert PUT_SUMS
    workgroupBarrier();
    for (var o = lid; o < OUTPUTS; o += THREADS) {
        let r = o & 15u;
        let token = (o >> 4u) % TOKENS;
        let p = (o >> 4u) / TOKENS;
        let output = (first + p) * 16u + r;
        if (output < job.rows) {
            var t = 0.0;
            for (var k = 0u; k < SLICES; k++) {
                t += part[(p * TOKENS + token) * THREADS + k * 16u + r];
            }
            //: if BIAS
            t += vectors[BIAS_FIRST + output];
            //: end
            //: if GATED
            var u = 0.0;
            {
                var t = 0.0;
                for (var k = 0u; k < SLICES; k++) {
                    t += part[((p + OWN_PANELS) * TOKENS + token) * THREADS + k * 16u + r];
                }
                //: if BIAS
                t += vectors[BIAS_FIRST + job.rows + output];
                //: end
                u = t;
            }
            t = ACTIVATION;
            //: end
            //: if TILED
            let choice = chosen[tile + 1u + token];
            if (choice != NONE) { y[y_first + choice * job.y_stride + output] = t; }
            //: else
            y[y_first + token * job.y_stride + output] = t;
            //: end
        }
    }
}

//: part panel
// Panels behind the last are read as the last; what is made of them is not written.
let panelPANEL = start + BASE + min(first + NUMBER, (job.rows - 1u) >> 4u) * (HEAD_WORDS + job.superblocks * SUPERBLOCK_WORDS);
//: insert HEAD

//: part row
// A tile that is not full multiplies the first of its choices once more, and does not write it.
let rowTOKEN = select(chosen[tile + 1u + TOKENu], chosen[tile + 1u], chosen[tile + 1u + TOKENu] == NONE) DIVIDED * job.x_stride;

//: part sum
var sumPANEL_TOKEN = 0.0;

//: part put_sum
part[PLACE + lid] = sumPANEL_TOKEN;

//: part loop
for (var b = slice; b < job.superblocks; b += SLICES) {
    //: insert BEGIN
    //: insert GROUPS
    //: insert END
}

//: part begin
let atPANEL = panelPANEL + HEAD_WORDS + b * SUPERBLOCK_WORDS;
//: insert SCALES

//: part dot
var dPANEL_TOKEN = 0.0;

//: part all
var allTOKEN = vec4<f32>();

//: part input
let xTOKEN_QUAD = x[x_first + b * QUADS + QUADu + ROW];
allTOKEN += xTOKEN_QUAD;

//: part weights
let fPANEL_QUAD = VALUES;

//: part add_dot
dPANEL_TOKEN += dot(xTOKEN_QUAD, fPANEL_QUAD);

//: part end
sumPANEL_TOKEN += aPANEL * dPANEL_TOKEN + cPANEL * (allTOKEN.x + allTOKEN.y + allTOKEN.z + allTOKEN.w);
