//! The likeliest of many tokens, in the order of their rank. Each workgroup sorts a slice and keeps what can be among them; what
//! the slices kept is sliced again, until one is left.

use std::fmt::Write;

use super::KEY;

/// Threads of a workgroup.
pub const THREADS: usize = 256;
/// Entries that a workgroup sorts: 16 KiB of its memory, which is as much as there is everywhere.
pub const SLICE: usize = 2048;
/// Entries that are kept of a slice, and in the end.
pub const KEPT: usize = 256;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Likeliest {
    /// Of logits. It also adds up their probabilities relative to the likeliest of the slice.
    Logits,
    /// Of what was kept.
    Kept,
}

impl Likeliest {
    /// The text of the kernel. An entry is a key that grows with the logit, 0 where there is none, and a token. Slices have their
    /// best key and their sum at the beginning, and what they keep at `job.to`.
    pub fn wgsl(self) -> String {
        let mut out = format!(
            "struct Job {{ count: u32, begin: u32, to: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> logits: array<u32>;
@group(0) @binding(1) var<storage, read_write> entries: array<vec2<u32>>;
var<workgroup> slice: array<vec2<u32>, {SLICE}>;
{KEY}fn better(a: vec2<u32>, b: vec2<u32>) -> bool {{ return a.x > b.x || (a.x == b.x && a.y < b.y); }}
fn logit(key: u32) -> f32 {{ return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u)); }}
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let first = group.x * {SLICE}u;
for (var i = lid; i < {SLICE}u; i += {THREADS}u) {{
let at = first + i; var entry = vec2<u32>(0u, 0xffffffffu);
if (at < job.count) {{ entry = {entry}; }}
slice[i] = entry;
}}
workgroupBarrier();
for (var size = 2u; size <= {SLICE}u; size <<= 1u) {{
for (var apart = size >> 1u; apart > 0u; apart >>= 1u) {{
for (var i = lid; i < {pairs}u; i += {THREADS}u) {{
let a = i + (i & ~(apart - 1u)); let b = a + apart; let x = slice[a]; let y = slice[b];
if (better(y, x) == ((a & size) == 0u)) {{ slice[a] = y; slice[b] = x; }}
}}
workgroupBarrier();
}} }}
for (var i = lid; i < {KEPT}u; i += {THREADS}u) {{ entries[job.to + group.x * {KEPT}u + i] = slice[i]; }}
",
            entry = match self {
                Likeliest::Logits => "vec2<u32>(key(logits[at]), at)",
                Likeliest::Kept => "entries[job.begin + at]",
            },
            pairs = SLICE / 2,
        );
        if self == Likeliest::Logits {
            let _ = write!(
                out,
                "let best = slice[0].x; var sum = 0.0;
for (var i = lid; i < {SLICE}u; i += {THREADS}u) {{ let one = slice[i].x; if (one > 0u) {{ sum += exp(logit(one) - logit(best)); }} }}
workgroupBarrier();
slice[lid].y = bitcast<u32>(sum);
workgroupBarrier();
for (var step = {}u; step > 0u; step >>= 1u) {{
if (lid < step) {{ slice[lid].y = bitcast<u32>(bitcast<f32>(slice[lid].y) + bitcast<f32>(slice[lid + step].y)); }}
workgroupBarrier();
}}
if (lid == 0u) {{ entries[group.x] = vec2<u32>(best, slice[0].y); }}
",
                THREADS / 2
            );
        }
        out.push_str("}\n");
        out
    }
}
