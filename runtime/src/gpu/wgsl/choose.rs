//! The likeliest token, which goes where the next step reads it from: the host need not know it before that step begins.

use std::fmt::Write;

use super::KEY;

/// Threads of a workgroup.
pub const THREADS: usize = 256;
/// Workgroups that look at a part of the logits each.
pub const PARTS: usize = 64;

/// What is written where no logit is a number.
pub const NONE: u32 = u32::MAX;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choose {
    /// Of the logits, [`PARTS`] candidates: a key that grows with the logit, and the id.
    Parts,
    /// Of the candidates the token, where the next step begins and where it can be read back.
    Token,
}

impl Choose {
    /// The text of the kernel. Of equal logits, the lowest id is chosen, as on the CPU; NaN and negative infinity never are.
    pub fn wgsl(self) -> String {
        let mut out = String::new();
        let buffers = match self {
            Choose::Parts => {
                "@group(0) @binding(0) var<storage, read> logits: array<u32>;\n\
                 @group(0) @binding(1) var<storage, read_write> candidates: array<vec2<u32>>;\n"
            }
            Choose::Token => {
                "@group(0) @binding(0) var<storage, read> candidates: array<vec2<u32>>;\n\
                 @group(0) @binding(1) var<storage, read_write> tokens: array<u32>;\n"
            }
        };
        let _ = write!(
            out,
            "struct Job {{ first: u32, count: u32 }}
var<immediate> job: Job;
{buffers}var<workgroup> best: array<vec2<u32>, {THREADS}>;
{}fn better(a: vec2<u32>, b: vec2<u32>) -> bool {{ return a.x > b.x || (a.x == b.x && a.y < b.y); }}
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
var mine = vec2<u32>(0u, {NONE}u);
",
            if self == Choose::Parts { KEY } else { "" }
        );
        out += &match self {
            Choose::Parts => format!(
                "for (var i = group.x * {THREADS}u + lid; i < job.count; i += {}u) {{
let one = vec2<u32>(key(logits[job.first + i]), i); if (one.x > 0u && better(one, mine)) {{ mine = one; }}
}}
",
                THREADS * PARTS
            ),
            Choose::Token => format!("if (lid < {PARTS}u) {{ mine = candidates[lid]; }}\n"),
        };
        let _ = write!(
            out,
            "best[lid] = mine;
workgroupBarrier();
for (var step = {}u; step > 0u; step >>= 1u) {{
if (lid < step && better(best[lid + step], best[lid])) {{ best[lid] = best[lid + step]; }}
workgroupBarrier();
}}
",
            THREADS / 2
        );
        out += match self {
            Choose::Parts => "if (lid == 0u) { candidates[group.x] = best[0]; }\n}\n",
            Choose::Token => "if (lid == 0u) { tokens[0] = best[0].y; }\n}\n",
        };
        out
    }
}
