//! The inner part of a matrix times a vector in integers: inputs become two signed bytes each, which products of four bytes at a time
//! (`dot4I8Packed`) take with the codes of four columns as they are in the file.
//!
//! Half of the work of a float multiplication at two bits a weight is making a float of a code. Here a mask makes four codes, and
//! two instructions multiply them. The two bytes are the upper and the lower half of 16 bits, scaled by the largest input of a
//! superblock, so that inputs are as exact as f16 is and no more is lost than on matrix units.

use std::fmt::Write;

use super::mat_vec::{MatVec, QUADS};

/// Columns of a piece, which one thread makes integers of.
const PIECE: usize = 16;
/// Pieces whose integers are in workgroup memory at once, at most: 8 KB of them.
const MOST_PIECES: usize = 256;
/// The largest integer of two signed bytes, the lower of which is rounded: 127 * 256 + 127.
const LARGEST: f32 = 32_639.0;

impl MatVec {
    /// Pieces of a round.
    fn pieces(&self) -> usize {
        self.threads.min(MOST_PIECES)
    }

    /// Declarations.
    pub(super) fn write_integer_memory(&self, out: &mut String) {
        let pieces = self.pieces();
        let _ = writeln!(
            out,
            "var<workgroup> halves: array<vec2<u32>, {}>;
var<workgroup> most: array<f32, {pieces}>;
var<workgroup> total: array<f32, {pieces}>;
var<workgroup> block: array<vec2<f32>, {}>;
fn halves_of(x: vec4<f32>) -> vec2<u32> {{
let v = vec4<i32>(round(x)); let upper = (v + 128) >> vec4<u32>(8u);
return vec2<u32>(pack4xI8(upper), pack4xI8(v - upper * 256));
}}",
            pieces * PIECE / 4,
            pieces / self.pieces_of_block()
        );
    }

    /// Pieces of a superblock.
    fn pieces_of_block(&self) -> usize {
        self.codes.block().get() / PIECE
    }

    /// The loop over superblocks, in rounds: inputs become integers, and then all threads multiply.
    pub(super) fn write_integer_loop(&self, out: &mut String) {
        let MatVec { codes, panels, threads, .. } = *self;
        let (pieces, of_block) = (self.pieces(), self.pieces_of_block());
        let blocks = pieces / of_block;
        let _ = writeln!(
            out,
            "for (var round_first = 0u; round_first < job.superblocks; round_first += {blocks}u) {{
workgroupBarrier();
let quad_first = round_first * {quads}u + lid * 4u;
var x0 = vec4<f32>(); var x1 = vec4<f32>(); var x2 = vec4<f32>(); var x3 = vec4<f32>();
if (lid < {pieces}u) {{
if (quad_first < job.superblocks * {quads}u) {{
x0 = x[x_first + quad_first]; x1 = x[x_first + quad_first + 1u]; x2 = x[x_first + quad_first + 2u]; x3 = x[x_first + quad_first + 3u];
}}
let m = max(max(abs(x0), abs(x1)), max(abs(x2), abs(x3))); let s = (x0 + x1) + (x2 + x3);
most[lid] = max(max(m.x, m.y), max(m.z, m.w)); total[lid] = (s.x + s.y) + (s.z + s.w);
}}
workgroupBarrier();
if (lid < {pieces}u) {{
let own = lid / {of_block}u * {of_block}u;
var top = most[own]; var sum = total[own];
for (var i = 1u; i < {of_block}u; i++) {{ top = max(top, most[own + i]); sum += total[own + i]; }}
let up = select(0.0, {LARGEST:?} / top, top > 0.0);
halves[lid * 4u] = halves_of(x0 * up); halves[lid * 4u + 1u] = halves_of(x1 * up);
halves[lid * 4u + 2u] = halves_of(x2 * up); halves[lid * 4u + 3u] = halves_of(x3 * up);
if (own == lid) {{ block[lid / {of_block}u] = vec2<f32>(top * {:?}, sum); }}
}}
workgroupBarrier();
for (var b = round_first + slice; b < min(job.superblocks, round_first + {blocks}u); b += {}u) {{
let here = (b - round_first) * {quads}u; let input = block[b - round_first];",
            1.0 / LARGEST,
            threads / 16,
            quads = codes.quads(),
        );
        for p in 0..panels {
            let (head, words, id) = (codes.head_words(), codes.superblock_words(), p.to_string());
            let _ = writeln!(out, "let at{p} = panel{p} + {head}u + b * {words}u;\n{}", codes.scales(&id));
            let _ = writeln!(out, "var upper{p} = 0i; var lower{p} = 0i;");
        }
        for quads in codes.groups(QUADS) {
            out.push_str("{\n");
            for p in 0..panels {
                out.push_str(&codes.integer_lines(&p.to_string(), &quads));
            }
            for quad in &quads {
                let _ = writeln!(out, "let h{quad} = halves[here + {quad}u];");
                for p in 0..panels {
                    let _ = writeln!(
                        out,
                        "let q{p}_{quad} = {}; upper{p} += dot4I8Packed(q{p}_{quad}, h{quad}.x); lower{p} += dot4I8Packed(q{p}_{quad}, h{quad}.y);",
                        codes.integer_quad(&p.to_string(), *quad)
                    );
                }
            }
            out.push_str("}\n");
        }
        for p in 0..panels {
            let (a, c) = codes.integer_scales(&p.to_string());
            let _ = writeln!(
                out,
                "sum{p}_0 += {a} * input.x * (256.0 * f32(upper{p}) + f32(lower{p})) + {c} * input.y;"
            );
        }
        out.push_str("}\n}\n");
    }
}
