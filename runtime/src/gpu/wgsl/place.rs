//! Queries, keys and values of a step go to their places: norms of heads, rotation, and the cache. A workgroup has one head of one token.

use std::fmt::Write;

use super::eight_bit::{GROUP, rotate, row_words, scale_words};

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
    /// Whether the cache has codes of 8 bits, and their scales; else it has f16.
    pub eight_bit: bool,
}

impl Place {
    /// The text of the kernel. Workgroups of a token: the heads of queries, then those of keys, then those of values, as they stand
    /// in its row. The cache of a layer holds two values in a word, heads x positions x `head_dim`, or four codes; scales are those of
    /// all keys and then those of all values. With codes, queries are rotated as keys are.
    pub fn wgsl(&self) -> String {
        let Place { head_dim, rotated, norm, eight_bit } = *self;
        let (scales, room) = if eight_bit {
            ("@group(0) @binding(5) var<storage, read_write> scales: array<u32>;\n", 4 * row_words(head_dim))
        } else {
            ("", head_dim)
        };
        let mut out = format!(
            "struct Job {{ heads: u32, kv_heads: u32, position: u32, context: u32, q_gain: u32, k_gain: u32, epsilon: f32, table: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> values: array<u32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
@group(0) @binding(4) var<storage, read> angles: array<vec2<f32>>;
{scales}var<workgroup> head: array<f32, {room}>;
var<workgroup> part: array<f32, {THREADS}>;
{most}@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let token = group.y; let position = job.position + token;
let is_q = group.x < job.heads; let is_k = !is_q && group.x < job.heads + job.kv_heads;
let kv = select(group.x - job.heads - job.kv_heads, group.x - job.heads, is_k);
let begin = (token * (job.heads + 2u * job.kv_heads) + group.x) * {head_dim}u;
for (var i = lid; i < {head_dim}u; i += {THREADS}u) {{ head[i] = qkv[begin + i]; }}
{tail}workgroupBarrier();
",
            most = if eight_bit { most(head_dim) } else { String::new() },
            tail = if room > head_dim {
                format!("if (lid < {}u) {{ head[{head_dim}u + lid] = 0.0; }}\n", room - head_dim)
            } else {
                String::new()
            },
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
        if eight_bit {
            out += &rotate("head", head_dim, THREADS);
        }
        let _ = write!(
            out,
            "if (is_q) {{
for (var i = lid; i < {head_dim}u; i += {THREADS}u) {{ qkv[begin + i] = head[i]; }}
}} else {{
{}}}
}}
",
            if eight_bit { store_codes(head_dim) } else { store_halves(head_dim) }
        );
        out
    }
}

/// Statements that store the head as f16.
fn store_halves(head_dim: usize) -> String {
    format!(
        "let at = (kv * job.context + position) * {words}u;
for (var i = lid; i < {words}u; i += {THREADS}u) {{
let word = pack2x16float(vec2<f32>(head[2u * i], head[2u * i + 1u]));
if (is_k) {{ keys[at + i] = word; }} else {{ values[at + i] = word; }}
}} ",
        words = head_dim / 2
    )
}

/// A function for the largest size of a group. By integers, so that what is not a number is larger than all numbers and shows; 0
/// behind the last group.
fn most(head_dim: usize) -> String {
    format!(
        "fn most(g: u32) -> f32 {{
var bits = 0u;
for (var i = g * {GROUP}u; i < min((g + 1u) * {GROUP}u, {head_dim}u); i++) {{ bits = max(bits, bitcast<u32>(head[i]) & 0x7fffffffu); }}
return bitcast<f32>(bits);
}}
"
    )
}

/// Statements that store the head as codes. A scale is rounded before it is divided by.
fn store_codes(head_dim: usize) -> String {
    format!(
        "let row = kv * job.context + position;
for (var i = lid; i < {words}u; i += {THREADS}u) {{
let largest = unpack2x16float(pack2x16float(vec2<f32>(most(i / {of_group}u), 0.0))).x;
let inverse = select(1.0 / largest, 0.0, largest == 0.0); let at = 4u * i;
let word = pack4x8snorm(vec4<f32>(head[at], head[at + 1u], head[at + 2u], head[at + 3u]) * inverse);
if (is_k) {{ keys[row * {words}u + i] = word; }} else {{ values[row * {words}u + i] = word; }}
}}
let at = (select(job.kv_heads, 0u, is_k) * job.context + row) * {scale_words}u;
for (var i = lid; i < {scale_words}u; i += {THREADS}u) {{
scales[at + i] = pack2x16float(vec2<f32>(most(2u * i), most(2u * i + 1u)));
}}
",
        words = row_words(head_dim),
        scale_words = scale_words(head_dim),
        of_group = GROUP / 4,
    )
}
