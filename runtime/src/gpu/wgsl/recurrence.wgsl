// The state of a head over the tokens of a step: of each row and column a value, which stays in registers all along. A workgroup has some
// rows of a head; a thread has some columns of a row, and what threads of a row have summed up is added in workgroup memory, of which
// tokens take turns at two halves: one barrier a token is enough.
//
// In buffers a state is columns x rows, so that threads side by side read values side by side.

struct Job {
    tokens: u32, x_stride: u32, p_stride: u32, y_stride: u32, memory: u32, step: u32, beta: u32, shared_at: u32, decay: u32, bias: u32,
    skip: u32, step_factor: f32, beta_factor: f32,
}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> p: array<f32>;
@group(0) @binding(2) var<storage, read> before: array<f32>;
@group(0) @binding(3) var<storage, read_write> behind: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<storage, read> vectors: array<f32>;
//: if PARTS
var<workgroup> sums: array<f32, SUMS>;
//: end

//: insert SOFTPLUS
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let head = group.y;
    let lane = lid % BLOCK;
    let row = group.x * BLOCK + lane;
    // Threads behind the last row do what its threads do, and write nothing.
    let r = min(row, ROWS - 1u);
    let first = lid / BLOCK * COLUMNS_OF_THREAD;
    let memory = job.memory + head * (ROWS * COLUMNS) + r;
    //: insert LOAD
    for (var t = 0u; t < job.tokens; t++) {
        let x_at = t * job.x_stride;
        let p_at = t * job.p_stride;
        //: if PARTS
        let half = (t & 1u) * HALF;
        //: end
        //: insert TOKEN
        if (first == 0u && row < ROWS) {
            y[t * job.y_stride + head * ROWS + row] = out;
        }
    }
    if (row < ROWS) {
        //: insert STORE
    }
}

//: part place
let nCOLUMN = first + COLUMNu;
//: if GUARDED
let mCOLUMN = min(nCOLUMN, LAST);
//: else
let mCOLUMN = nCOLUMN;
//: end
var sCOLUMN = before[memory + mCOLUMN * ROWS];

//: part rate
let aCOLUMN = vectors[job.decay + mCOLUMN * ROWS + r];

//: part store
//: if GUARDED
if (nCOLUMN < COLUMNS) { behind[memory + nCOLUMN * ROWS] = sCOLUMN; }
//: else
behind[memory + nCOLUMN * ROWS] = sCOLUMN;
//: end

//: part share
sums[half + (INDEXu * THREADS) + lid] = NAME;

//: part total
let total_NAME = SUM;

//: part selective
let d = softplus(p[p_at + job.step + r] + vectors[job.bias + r]);
let value = x[x_at + r];
let added = d * value;
let b_at = p_at + job.shared_at;
let c_at = b_at + COLUMNS;
var seen = 0.0;
//: insert COLUMNS_READ
//: insert TOTALS
let out = total_seen + vectors[job.skip + r] * value;

//: part selective_column
sCOLUMN = sCOLUMN * exp(aCOLUMN * d) + added * p[b_at + mCOLUMN];
//: if GUARDED
seen += sCOLUMN * select(0.0, p[c_at + mCOLUMN], nCOLUMN < COLUMNS);
//: else
seen += sCOLUMN * p[c_at + mCOLUMN];
//: end

//: part state_space
let d = softplus(p[p_at + job.step + head] * job.step_factor + vectors[job.bias + head]);
let g = exp(vectors[job.decay + head] * d);
let value = x[x_at + head * ROWS + r];
let added = d * value;
let b_at = x_at + HEADS * ROWS + head / SHARING * COLUMNS;
let c_at = b_at + GROUPS * COLUMNS;
var seen = 0.0;
//: insert COLUMNS_READ
//: insert TOTALS
let out = total_seen + vectors[job.skip + head] * value;

//: part state_space_column
sCOLUMN = sCOLUMN * g + added * x[b_at + mCOLUMN];
//: if GUARDED
seen += sCOLUMN * select(0.0, x[c_at + mCOLUMN], nCOLUMN < COLUMNS);
//: else
seen += sCOLUMN * x[c_at + mCOLUMN];
//: end

//: part delta
let rate = vectors[job.decay + head];
//: if BY_CHANNEL
let step_at = head * COLUMNS;
//: else
let g = exp(rate * softplus(p[p_at + job.step + head] + vectors[job.bias + head]));
//: end
let b = job.beta_factor / (1.0 + exp(min(-p[p_at + job.beta + head], 80.0)));
let q_at = x_at + head / SHARING * COLUMNS;
let k_at = q_at + GROUPS * COLUMNS;
let value = x[x_at + 2u * GROUPS * COLUMNS + head * ROWS + r];
var sk = 0.0;
var sq = 0.0;
var kq = 0.0;
var kk = 0.0;
var qq = 0.0;
//: insert COLUMNS_READ
//: insert TOTALS
// Queries and keys of length 1, as their sums go; and what the changed state reads is what the one before does, and the change.
let of_key = inverseSqrt(total_kk + 1e-6);
let of_query = inverseSqrt(total_qq + 1e-6) * SCALE;
let change = b * (value - of_key * total_sk) * of_key;
let out = of_query * (total_sq + change * total_kq);
//: insert CHANGES

//: part delta_column
//: if GUARDED
let kCOLUMN = select(0.0, x[k_at + mCOLUMN], nCOLUMN < COLUMNS);
let qCOLUMN = select(0.0, x[q_at + mCOLUMN], nCOLUMN < COLUMNS);
//: else
let kCOLUMN = x[k_at + mCOLUMN];
let qCOLUMN = x[q_at + mCOLUMN];
//: end
//: if BY_CHANNEL
sCOLUMN *= exp(rate * softplus(p[p_at + job.step + step_at + mCOLUMN] + vectors[job.bias + step_at + mCOLUMN]));
//: else
sCOLUMN *= g;
//: end
sk += sCOLUMN * kCOLUMN;
sq += sCOLUMN * qCOLUMN;
kq += kCOLUMN * qCOLUMN;
kk += kCOLUMN * kCOLUMN;
qq += qCOLUMN * qCOLUMN;

//: part delta_change
sCOLUMN += change * kCOLUMN;
