//! Matrices in panels times many vectors, on the matrix units of a graphics processor: what prompts consist of.
//!
//! A workgroup of eight subgroups makes 128 outputs of 128 tokens. In each step, 64 columns of its weights are decoded to f16 in workgroup
//! memory, beside as many of the inputs; a subgroup then adds the products of 32 tokens and 64 outputs, in squares of 16, or of
//! 8 where the units have those (Metal).
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
    /// Rows and columns of what the units multiply: 16 or 8.
    pub square: usize,
}

/// Outputs of a workgroup, and tokens.
pub const TILE: usize = 128;
/// Quads of a step.
const QUADS: usize = 16;
/// Threads of a workgroup.
const THREADS: usize = 256;
/// Tokens of a subgroup, and outputs.
const OWN: (usize, usize) = (32, 64);
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
        let MatMat { codes, square, .. } = *self;
        // naga's Metal takes the address of an element for one of its scalars, which four of them are not.
        let (element, per_quad) = if square == 8 { ("f16", 4) } else { ("vec4<f16>", 1) };
        let mut out = String::from("enable f16;\nenable wgpu_cooperative_matrix;\n");
        let _ = write!(
            out,
            "struct Job {{ at: u32, superblocks: u32, rows: u32, tokens: u32, x_stride: u32, y_stride: u32, y_first: u32, bias: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
var<workgroup> ws: array<{element}, {tile}>;
var<workgroup> xs: array<{element}, {tile}>;
var<workgroup> squares: array<f32, {squares}>;
const shift: f32 = {shift:?};
",
            tile = TILE * ROW * per_quad,
            squares = THREADS / 32 * square * square,
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
        let (across, down) = (OWN.0 / square, OWN.1 / square);
        for i in 0..across {
            for j in 0..down {
                let _ = writeln!(out, "var c{i}{j} = coop_mat{square}x{square}<f32, C>();");
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
                    let value = format!("vec4<f16>(a0 * {} + c0)", codes.quad("0", *quad));
                    let at = format!("(mine * 16u + row) * {ROW}u + {place}u");
                    self.write_quad(&mut out, "ws", &at, &value);
                }
                out += "}\n";
            }
            out += "workgroupBarrier();\n";
            let stride = ROW * per_quad;
            for k in (0..QUADS).step_by(square / 4) {
                let k = k * per_quad;
                out += "{\n";
                for i in 0..across {
                    let _ = writeln!(
                        out,
                        "let a{i} = coopLoadT<coop_mat{square}x{square}<f16, A>>(&xs[(sub_token + {}u) * {stride}u + {k}u], {stride}u);",
                        square * i
                    );
                }
                for j in 0..down {
                    let _ = writeln!(
                        out,
                        "let b{j} = coopLoad<coop_mat{square}x{square}<f16, B>>(&ws[(sub_row + {}u) * {stride}u + {k}u], {stride}u);",
                        square * j
                    );
                    for i in 0..across {
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

    /// Four values of a row in workgroup memory, at a place counted in quads.
    fn write_quad(&self, out: &mut String, array: &str, at: &str, value: &str) {
        if self.square == 8 {
            let _ = writeln!(
                out,
                "{{ let q = {value}; let i = 4u * ({at}); {array}[i] = q.x; {array}[i + 1u] = q.y; {array}[i + 2u] = q.z; {array}[i + 3u] = q.w; }}"
            );
        } else {
            let _ = writeln!(out, "{array}[{at}] = {value};");
        }
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
        let _ = write!(
            out,
            "let column = b0 * {quads}u + quad;
for (var t = lid >> 4u; t < {TILE}u; t += {step}u) {{
var v = vec4<f32>();
if (first_token + t < job.tokens && column < job.superblocks * {quads}u) {{ v = x[(first_token + t) * job.x_stride + column]; }}
",
            step = THREADS / 16,
        );
        self.write_quad(out, "xs", &format!("t * {ROW}u + slot"), "vec4<f16>(v)");
        out.push_str("} }\n");
    }

    fn write_outputs(&self, out: &mut String) {
        let bias = if self.bias { " + vectors[job.bias + r]" } else { "" };
        let square = self.square;
        let area = square * square;
        for i in 0..OWN.0 / square {
            for j in 0..OWN.1 / square {
                let _ = writeln!(
                    out,
                    "workgroupBarrier();
coopStoreT(c{i}{j}, &squares[subgroup * {area}u], {square}u);
workgroupBarrier();
for (var e = lid & 31u; e < {area}u; e += 32u) {{
let t = first_token + sub_token + {}u + e / {square}u; let r = first_row + sub_row + {}u + e % {square}u;
if (t < job.tokens && r < job.rows) {{ y[job.y_first + t * job.y_stride + r] = squares[subgroup * {area}u + e]{bias}; }}
}}",
                    square * i,
                    square * j
                );
            }
        }
    }
}
