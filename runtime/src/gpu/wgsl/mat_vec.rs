//! Matrices in panels times one or a few vectors: what decoding a token consists of, and bound by how fast weights are read.
//!
//! A workgroup makes the outputs of some panels. Sixteen threads are the rows of a panel, and the others of the workgroup share its
//! superblocks with them; their sums are added in workgroup memory, always in the same order. Inputs are read once for all
//! panels of the workgroup.

use std::fmt::Write;

use super::codes::PanelCodes;
use qsf_format::Activation;

/// What becomes of the products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// They are written.
    Store,
    /// Half of the panels are those of a gate, the other half of what it lets through: activation of the one times the other.
    Gated(Activation),
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatVec {
    /// Type of the matrix.
    pub codes: PanelCodes,
    /// Vectors.
    pub tokens: usize,
    /// Panels of a workgroup.
    pub panels: usize,
    /// Threads of a workgroup, a multiple of 16.
    pub threads: usize,
    /// Whether a bias is added.
    pub bias: bool,
    /// What becomes of the products.
    pub output: Output,
    /// Whether inputs become integers: for types that allow it ([`PanelCodes::is_linear`]) and one vector.
    pub integers: bool,
    /// Whether each vector has an expert of its own, which is then one of those that were chosen. There is one vector.
    pub experts: Option<Inputs>,
}

/// Which vector an expert of those that were chosen reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inputs {
    /// That of the token.
    OfToken,
    /// Its own.
    OfChoice,
}

/// Quads whose inputs are in registers at once.
pub(super) const QUADS: usize = 8;

impl MatVec {
    /// The text of the kernel. `levels` are those of a learned type, `shift` that of its second grid.
    pub fn wgsl(&self, levels: &[f32], shift: f32) -> String {
        let MatVec { codes, tokens, panels, threads, .. } = *self;
        let mut out = String::new();
        let sums = threads * panels * tokens;
        let chosen = match self.experts {
            Some(_) => "@group(0) @binding(4) var<storage, read> chosen: array<u32>;\n",
            None => "",
        };
        let _ = write!(
            out,
            "struct Job {{ at: u32, second: u32, superblocks: u32, rows: u32, x_first: u32, x_stride: u32, y_stride: u32, y_first: u32, bias: u32, expert_words: u32, used: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
{chosen}var<workgroup> part: array<f32, {sums}>;
const shift: f32 = {shift:?};
"
        );
        if self.integers {
            self.write_integer_memory(&mut out);
        } else {
            super::write_table(&mut out, levels);
        }
        let _ = write!(
            out,
            "@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let row = lid & 15u; let slice = lid >> 4u;
let first = (group.x + group.y * {MAX_GROUPS}u) * {}u;
{}",
            self.own_panels(),
            match self.experts {
                Some(_) => {
                    "let start = chosen[2u * group.z] * job.expert_words; let y_first = job.y_first + group.z * job.y_stride;\n"
                }
                None => "let start = 0u; let y_first = job.y_first;\n",
            }
        );
        out += match self.experts {
            Some(Inputs::OfToken) => "let x_first = job.x_first + group.z / job.used * job.x_stride;\n",
            Some(Inputs::OfChoice) => "let x_first = job.x_first + group.z * job.x_stride;\n",
            None => "let x_first = job.x_first;\n",
        };
        if !self.integers {
            out += &super::fill_table(levels, threads);
        }
        let panel_words =
            format!("({}u + job.superblocks * {}u)", codes.head_words(), codes.superblock_words());
        for p in 0..panels {
            // Panels behind the last are read as the last; what is made of them is not written.
            let (base, number) =
                if p < self.own_panels() { ("job.at", p) } else { ("job.second", p - self.own_panels()) };
            let _ = writeln!(
                out,
                "let panel{p} = start + {base} + min(first + {number}u, (job.rows - 1u) >> 4u) * {panel_words};\n{}",
                codes.head(&p.to_string())
            );
            for t in 0..tokens {
                let _ = writeln!(out, "var sum{p}_{t} = 0.0;");
            }
        }
        if self.integers {
            self.write_integer_loop(&mut out);
        } else {
            self.write_float_loop(&mut out);
        }
        for p in 0..panels {
            for t in 0..tokens {
                let _ = writeln!(out, "part[{}u + lid] = sum{p}_{t};", (p * tokens + t) * threads);
            }
        }
        out += "workgroupBarrier();\n";
        self.write_outputs(&mut out);
        out += "}\n";
        out
    }

    /// The loop over superblocks, with inputs as they are.
    fn write_float_loop(&self, out: &mut String) {
        let MatVec { codes, tokens, panels, threads, .. } = *self;
        let slices = threads / 16;
        let _ = writeln!(out, "for (var b = slice; b < job.superblocks; b += {slices}u) {{");
        for p in 0..panels {
            let (head, words) = (codes.head_words(), codes.superblock_words());
            let _ = writeln!(
                out,
                "let at{p} = panel{p} + {head}u + b * {words}u;\n{}",
                codes.scales(&p.to_string())
            );
            for t in 0..tokens {
                let _ = writeln!(out, "var d{p}_{t} = 0.0;");
            }
        }
        for t in 0..tokens {
            let _ = writeln!(out, "var all{t} = vec4<f32>();");
        }
        for quads in codes.groups(QUADS) {
            out.push_str("{\n");
            for p in 0..panels {
                out.push_str(&codes.lines(&p.to_string(), &quads));
            }
            for t in 0..tokens {
                for quad in &quads {
                    let at = format!("x_first + b * {}u + {quad}u + {t}u * job.x_stride", codes.quads());
                    let _ = writeln!(out, "let x{t}_{quad} = x[{at}]; all{t} += x{t}_{quad};");
                }
            }
            for p in 0..panels {
                for quad in &quads {
                    let _ = writeln!(out, "let f{p}_{quad} = {};", codes.quad(&p.to_string(), *quad));
                    for t in 0..tokens {
                        let _ = writeln!(out, "d{p}_{t} += dot(x{t}_{quad}, f{p}_{quad});");
                    }
                }
            }
            out.push_str("}\n");
        }
        for t in 0..tokens {
            for p in 0..panels {
                let _ = writeln!(
                    out,
                    "sum{p}_{t} += a{p} * d{p}_{t} + c{p} * (all{t}.x + all{t}.y + all{t}.z + all{t}.w);"
                );
            }
        }
        out.push_str("}\n");
    }

    /// Panels of a workgroup that make outputs of their own.
    pub fn own_panels(&self) -> usize {
        match self.output {
            Output::Store => self.panels,
            Output::Gated(_) => self.panels / 2,
        }
    }

    fn write_outputs(&self, out: &mut String) {
        let MatVec { tokens, threads, .. } = *self;
        let (own, slices) = (self.own_panels(), threads / 16);
        let total = |base: &str| {
            format!(
                "var t = 0.0; for (var k = 0u; k < {slices}u; k++) {{ t += part[{base} + k * 16u + r]; }}"
            )
        };
        let _ = write!(
            out,
            "for (var o = lid; o < {}u; o += {threads}u) {{
let r = o & 15u; let token = (o >> 4u) % {tokens}u; let p = (o >> 4u) / {tokens}u;
let output = (first + p) * 16u + r;
if (output < job.rows) {{
{}
",
            16 * own * tokens,
            total(&format!("(p * {tokens}u + token) * {threads}u"))
        );
        if self.bias {
            out.push_str("t += vectors[job.bias + output];\n");
        }
        if let Output::Gated(activation) = self.output {
            let second = total(&format!("((p + {own}u) * {tokens}u + token) * {threads}u"));
            let _ = writeln!(
                out,
                "var u = 0.0; {{ {second} {} u = t; }}\nt = {} * u;",
                if self.bias { "t += vectors[job.bias + job.rows + output];" } else { "" },
                super::activation::expression(activation, "t")
            );
        }
        out.push_str("y[y_first + token * job.y_stride + output] = t;\n}\n}\n");
    }
}

/// Workgroups of one dimension.
pub const MAX_GROUPS: usize = 32_768;
