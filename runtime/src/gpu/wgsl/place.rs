//! Queries, keys and values of a step go to their places: norms of heads, rotation, and the cache. A workgroup has one head of one token.

use std::fmt::Write;

/// Threads of a workgroup.
pub const THREADS: usize = 64;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Width of a head.
    pub head_dim: usize,
    /// Values of a head that are rotated; 0: none.
    pub rotated: usize,
    /// Whether each head of queries and keys is normalized, with gains at `job.q_gain` and `job.k_gain`.
    pub norm: bool,
}

impl Place {
    /// The text of the kernel. Workgroups of a token: the heads of queries, then those of keys, then those of values, as they stand
    /// in its row. The cache of a layer holds two values in a word, heads x positions x `head_dim`.
    pub fn wgsl(&self) -> String {
        let Place { head_dim, rotated, norm } = *self;
        let mut out = format!(
            "struct Job {{ heads: u32, kv_heads: u32, position: u32, context: u32, q_gain: u32, k_gain: u32, epsilon: f32, table: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> values: array<u32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
@group(0) @binding(4) var<storage, read> angles: array<vec2<f32>>;
var<workgroup> head: array<f32, {head_dim}>;
var<workgroup> part: array<f32, {THREADS}>;
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let token = group.y; let position = job.position + token;
let is_q = group.x < job.heads; let is_k = !is_q && group.x < job.heads + job.kv_heads;
let kv = select(group.x - job.heads - job.kv_heads, group.x - job.heads, is_k);
let begin = (token * (job.heads + 2u * job.kv_heads) + group.x) * {head_dim}u;
for (var i = lid; i < {head_dim}u; i += {THREADS}u) {{ head[i] = qkv[begin + i]; }}
workgroupBarrier();
"
        );
        if norm {
            let _ = write!(
                out,
                "var s = 0.0;
for (var i = lid; i < {head_dim}u; i += {THREADS}u) {{ s += head[i] * head[i]; }}
part[lid] = s;
workgroupBarrier();
for (var step = {}u; step > 0u; step >>= 1u) {{ if (lid < step) {{ part[lid] += part[lid + step]; }} workgroupBarrier(); }}
if (is_q || is_k) {{
let factor = inverseSqrt(part[0] / {head_dim}.0 + job.epsilon); let gain = select(job.k_gain, job.q_gain, is_q);
for (var i = lid; i < {head_dim}u; i += {THREADS}u) {{ head[i] = head[i] * factor * vectors[gain + i]; }}
}}
workgroupBarrier();
",
                THREADS / 2
            );
        }
        if rotated > 0 {
            let half = rotated / 2;
            let _ = write!(
                out,
                "if (is_q || is_k) {{
for (var i = lid; i < {half}u; i += {THREADS}u) {{
let turn = angles[job.table + position * {half}u + i]; let a = head[i]; let b = head[i + {half}u];
head[i] = a * turn.x - b * turn.y; head[i + {half}u] = b * turn.x + a * turn.y;
}} }}
workgroupBarrier();
"
            );
        }
        let _ = write!(
            out,
            "if (is_q) {{
for (var i = lid; i < {head_dim}u; i += {THREADS}u) {{ qkv[begin + i] = head[i]; }}
}} else {{
let at = (kv * job.context + position) * {words}u;
for (var i = lid; i < {words}u; i += {THREADS}u) {{
let word = pack2x16float(vec2<f32>(head[2u * i], head[2u * i + 1u]));
if (is_k) {{ keys[at + i] = word; }} else {{ values[at + i] = word; }}
}} }}
}}
",
            words = head_dim / 2
        );
        out
    }
}
