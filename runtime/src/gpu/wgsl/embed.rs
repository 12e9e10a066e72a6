//! Where the residual stream begins: rows of the token embedding.

use std::fmt::Write;

use super::codes::PanelCodes;

/// Threads of a workgroup, which has a token.
pub const THREADS: usize = 64;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Embed {
    /// Type of the embedding.
    pub codes: PanelCodes,
    /// Whether learned positions are added.
    pub positions: bool,
}

impl Embed {
    /// The text of the kernel. `levels` are those of a learned type, `shift` that of its second grid.
    pub fn wgsl(&self, levels: &[f32], shift: f32) -> String {
        let Embed { codes, positions } = *self;
        let mut out = format!(
            "struct Job {{ at: u32, superblocks: u32, width: u32, position: u32, scale: f32, rows: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> tokens: array<u32>;
@group(0) @binding(2) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(3) var<storage, read> learned: array<f32>;
const shift: f32 = {shift:?};
"
        );
        super::write_table(&mut out, levels);
        let _ = write!(
            out,
            "@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
{}let token = min(tokens[group.x], job.rows - 1u); let row = token & 15u;
let panel0 = job.at + (token >> 4u) * ({head}u + job.superblocks * {words}u);
{}for (var b = lid; b < job.superblocks; b += {THREADS}u) {{
let at0 = panel0 + {head}u + b * {words}u;
{}",
            super::fill_table(levels, THREADS),
            codes.head("0"),
            codes.scales("0"),
            head = codes.head_words(),
            words = codes.superblock_words(),
        );
        let quads: Vec<usize> = (0..codes.quads()).collect();
        out += &codes.lines("0", &quads);
        for quad in quads {
            let _ = writeln!(
                out,
                "put(group.x, b * {}u + {}u, (a0 * {} + c0) * job.scale);",
                4 * codes.quads(),
                4 * quad,
                codes.quad("0", quad)
            );
        }
        out += "} }\n";
        let learned = if positions { " + learned[(job.position + token) * job.width + i]" } else { "" };
        let _ = writeln!(
            out,
            "fn put(token: u32, column: u32, v: vec4<f32>) {{ for (var c = 0u; c < 4u; c++) {{ let i = column + c; if (i < job.width) {{ hidden[token * job.width + i] = v[c]{learned}; }} }} }}"
        );
        out
    }
}
