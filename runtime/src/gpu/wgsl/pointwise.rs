//! What is done to each value alone.

use qsf_format::Activation;

use super::activation;

/// Threads of a workgroup.
pub const THREADS: usize = 256;

/// The text of the kernel that makes `activation(gate) * up`, or `activation(up)` where there is no gate. A row has a gate and an up
/// part of `width` values, or an up part only; results are `width` values, in rows `stride` apart.
pub fn activate(kind: Activation, gated: bool) -> String {
    let (stride, value) = if gated {
        ("2u * job.width", format!("{} * inner[at + job.width]", activation::expression(kind, "v")))
    } else {
        ("job.width", activation::expression(kind, "v"))
    };
    format!(
        "struct Job {{ width: u32, stride: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> inner: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
{}
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let i = group.x * {THREADS}u + lid;
if (i >= job.width) {{ return; }}
let at = group.y * {stride} + i; let v = inner[at];
out[group.y * job.stride + i] = {value};
}}
",
        activation::ERROR_FUNCTION
    )
}

/// The text of the kernel that caps values.
pub fn softcap() -> String {
    format!(
        "struct Job {{ count: u32, cap: f32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> values: array<f32>;
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let i = (group.y * 32768u + group.x) * {THREADS}u + lid;
if (i < job.count) {{ values[i] = job.cap * tanh(clamp(values[i] / job.cap, -15.0, 15.0)); }}
}}
"
    )
}

/// The text of the kernel that adds weights that are stored apart from their blocks: `starts` has where the columns of each row
/// begin, then the columns; `weights` their values. A thread has an output of a token.
pub fn outliers() -> String {
    format!(
        "struct Job {{ rows: u32, x_stride: u32, y_stride: u32, y_first: u32, starts: u32, columns: u32, weights: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> places: array<u32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let row = group.x * {THREADS}u + lid;
if (row >= job.rows) {{ return; }}
var s = 0.0;
for (var i = places[job.starts + row]; i < places[job.starts + row + 1u]; i++) {{
s += vectors[job.weights + i] * x[group.y * job.x_stride + places[job.columns + i]];
}}
y[job.y_first + group.y * job.y_stride + row] += s;
}}
"
    )
}
