//! Matrices in panels times many vectors, on the matrix units of a graphics processor: what prompts consist of.
//!
//! A workgroup of eight subgroups makes 128 outputs of 128 tokens. In each step, 64 columns of its weights are decoded to f16 in workgroup
//! memory, beside as many of the inputs; a subgroup then adds the products of 32 tokens and 64 outputs, in squares of 16.
//! In which order the columns are taken does not matter, as long as weights and inputs agree: it is that of the lines.

use std::fmt::Write;

use super::codes::PanelCodes;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatMat {
    /// Type of the matrix.
    pub codes: PanelCodes,
    /// Whether a bias is added.
    pub bias: bool,
}

/// Outputs of a workgroup, and tokens.
pub const TILE: usize = 128;
/// Quads of a step.
const QUADS: usize = 16;
/// Threads of a workgroup.
const THREADS: usize = 256;
/// Quads of a row in workgroup memory: some more than there are, so that rows begin in different banks.
const ROW: usize = QUADS + 2;

/// What a step decodes: a superblock, counted from that of the loop, and quads of it, for each half of the threads.
type Step = [(usize, Vec<usize>); 2];

impl MatMat {
    /// Superblocks of a turn of the loop, and the steps of the turn.
    fn steps(&self) -> (usize, Vec<Step>) {
        let quads = self.codes.quads();
        if quads < QUADS {
            let all: Vec<usize> = (0..quads).collect();
            return (2, vec![[(0, all.clone()), (1, all)]]);
        }
        let groups = self.codes.groups(QUADS / 2);
        (1, groups.chunks(2).map(|pair| [(0, pair[0].clone()), (0, pair[1].clone())]).collect())
    }

    /// The text of the kernel. `levels` are those of a learned type, `shift` that of its second grid.
    pub fn wgsl(&self, levels: &[f32], shift: f32) -> String {
        let codes = self.codes;
        let mut out = String::from("enable f16;\nenable wgpu_cooperative_matrix;\n");
        let _ = write!(
            out,
            "struct Job {{ at: u32, superblocks: u32, rows: u32, tokens: u32, x_stride: u32, y_stride: u32, y_first: u32, bias: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
var<workgroup> ws: array<vec4<f16>, {tile}>;
var<workgroup> xs: array<vec4<f16>, {tile}>;
var<workgroup> squares: array<f32, {squares}>;
const shift: f32 = {shift:?};
",
            tile = TILE * ROW,
            squares = THREADS / 32 * 256,
        );
        super::write_table(&mut out, levels);
        let _ = write!(
            out,
            "@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let row = lid & 15u; let mine = (lid >> 4u) & 7u; let half = lid >> 7u;
let first_row = group.x * {TILE}u; let first_token = group.y * {TILE}u;
let subgroup = lid >> 5u; let sub_token = (subgroup & 3u) * 32u; let sub_row = (subgroup >> 2u) * 64u;
let panel0 = job.at + min((first_row >> 4u) + mine, (job.rows - 1u) >> 4u) * ({}u + job.superblocks * {}u);
{}",
            codes.head_words(),
            codes.superblock_words(),
            codes.head("0")
        );
        out += &super::fill_table(levels, THREADS);
        for i in 0..2 {
            for j in 0..4 {
                let _ = writeln!(out, "var c{i}{j} = coop_mat16x16<f32, C>();");
            }
        }
        let (turn, steps) = self.steps();
        let _ = writeln!(out, "for (var b0 = 0u; b0 < job.superblocks; b0 += {turn}u) {{");
        for step in &steps {
            out += "workgroupBarrier();\n";
            self.write_inputs(&mut out, step);
            for (half, (offset, quads)) in step.iter().enumerate() {
                let _ = writeln!(out, "if (half == {half}u) {{ let b = b0 + {offset}u;");
                // Behind the last superblock inputs are 0, and weights must be numbers.
                let _ = writeln!(
                    out,
                    "let at0 = panel0 + {}u + min(b, job.superblocks - 1u) * {}u;",
                    codes.head_words(),
                    codes.superblock_words()
                );
                out += &codes.scales("0");
                out += &codes.lines("0", quads);
                for (i, quad) in quads.iter().enumerate() {
                    let place = half * QUADS / 2 + i;
                    let _ = writeln!(
                        out,
                        "ws[(mine * 16u + row) * {ROW}u + {place}u] = vec4<f16>(a0 * {} + c0);",
                        codes.quad("0", *quad)
                    );
                }
                out += "}\n";
            }
            out += "workgroupBarrier();\n";
            for k in (0..QUADS).step_by(4) {
                out += "{\n";
                for i in 0..2 {
                    let _ = writeln!(
                        out,
                        "let a{i} = coopLoadT<coop_mat16x16<f16, A>>(&xs[(sub_token + {}u) * {ROW}u + {k}u], {ROW}u);",
                        16 * i
                    );
                }
                for j in 0..4 {
                    let _ = writeln!(
                        out,
                        "let b{j} = coopLoad<coop_mat16x16<f16, B>>(&ws[(sub_row + {}u) * {ROW}u + {k}u], {ROW}u);",
                        16 * j
                    );
                    for i in 0..2 {
                        let _ = writeln!(out, "c{i}{j} = coopMultiplyAdd(a{i}, b{j}, c{i}{j});");
                    }
                }
                out += "}\n";
            }
        }
        out += "}\n";
        self.write_outputs(&mut out);
        out += "}\n";
        out
    }

    /// Inputs of a step: each thread has a quad of every sixteenth token.
    fn write_inputs(&self, out: &mut String, step: &Step) {
        let quads = self.codes.quads();
        let _ = writeln!(out, "{{ let slot = lid & 15u; var quad = 0u;");
        // Which quad is in which place is known when this is written; a thread looks up its own.
        let list: Vec<String> = step
            .iter()
            .flat_map(|(offset, all)| all.iter().map(move |quad| format!("{}u", offset * quads + quad)))
            .collect();
        let _ = writeln!(out, "const order = array<u32, {QUADS}>({}); quad = order[slot];", list.join(", "));
        let _ = writeln!(
            out,
            "let column = b0 * {quads}u + quad;
for (var t = lid >> 4u; t < {TILE}u; t += {step}u) {{
var v = vec4<f32>();
if (first_token + t < job.tokens && column < job.superblocks * {quads}u) {{ v = x[(first_token + t) * job.x_stride + column]; }}
xs[t * {ROW}u + slot] = vec4<f16>(v);
}} }}",
            step = THREADS / 16,
        );
    }

    fn write_outputs(&self, out: &mut String) {
        let bias = if self.bias { " + vectors[job.bias + r]" } else { "" };
        for i in 0..2 {
            for j in 0..4 {
                let _ = writeln!(
                    out,
                    "workgroupBarrier();
coopStoreT(c{i}{j}, &squares[subgroup * 256u], 16u);
workgroupBarrier();
for (var e = lid & 31u; e < 256u; e += 32u) {{
let t = first_token + sub_token + {}u + (e >> 4u); let r = first_row + sub_row + {}u + (e & 15u);
if (t < job.tokens && r < job.rows) {{ y[job.y_first + t * job.y_stride + r] = squares[subgroup * 256u + e]{bias}; }}
}}",
                    16 * i,
                    16 * j
                );
            }
        }
    }
}
