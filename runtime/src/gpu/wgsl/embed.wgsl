// Where the residual stream begins: rows of the token embedding. A workgroup has a token.

struct Job { at: u32, superblocks: u32, width: u32, position: u32, scale: f32, tokens: u32, first: u32, rows: u32 }
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> tokens: array<u32>;
@group(0) @binding(2) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(3) var<storage, read> learned: array<f32>;
//: if LISTED
@group(0) @binding(4) var<storage, read> places: array<u32>;
//: end
const shift: f32 = SHIFT;
//: insert TABLE

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    //: insert FILL_TABLE
    // Tokens that have none get that of the first.
    let token = select(0u, tokens[group.x], tokens[group.x] < job.tokens);
    //: if LISTED
    // Rows of all parts, one behind the other; others do theirs.
    let place = places[token];
    if (place < job.first || place - job.first >= job.rows) { return; }
    let own = place - job.first;
    //: else
    let own = token;
    //: end
    let row = own & 15u;
    let panel0 = job.at + (own >> 4u) * (HEAD_WORDS + job.superblocks * SUPERBLOCK_WORDS);
    //: insert HEAD
    for (var b = lid; b < job.superblocks; b += THREADS) {
        let at0 = panel0 + HEAD_WORDS + b * SUPERBLOCK_WORDS;
        //: insert SCALES
        //: insert LINES
        //: insert PUT_QUADS
    }
}

fn put(token: u32, column: u32, v: vec4<f32>) {
    for (var c = 0u; c < 4u; c++) {
        let i = column + c;
        if (i < job.width) {
            //: if POSITIONS
            hidden[token * job.width + i] = v[c] + learned[(job.position + token) * job.width + i];
            //: else
            hidden[token * job.width + i] = v[c];
            //: end
        }
    }
}

//: part put_quad
put(group.x, b * BLOCK + COLUMN, (a0 * VALUES + c0) * job.scale);
