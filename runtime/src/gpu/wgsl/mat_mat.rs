//! Matrices in panels times many vectors, on the matrix units of a graphics processor: what prompts consist of.
//!
//! A workgroup of eight subgroups makes 128 outputs of 128 tokens. In each step, 64 columns of its weights are decoded to f16 in workgroup
//! memory, beside as many of the inputs; a subgroup then adds the products of 32 tokens and 64 outputs, in squares of 16, or of
//! 8 where the units have those (Metal).
//! In which order the columns are taken does not matter, as long as weights and inputs agree: it is that of the lines.

use super::codes::PanelCodes;
use super::levels::{fill_table, table};
use super::template::Template;

const FILE: &str = include_str!("mat_mat.wgsl");

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatMat {
    /// Type of the matrix.
    pub codes: PanelCodes,
    /// Whether a bias is added.
    pub bias: bool,
    /// Whether inputs are multiplied with a power of two for each token, which is taken off the outputs again (`limit`).
    pub scaled: bool,
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
        let element = if square == 8 { "f16" } else { "vec4<f16>" };
        let (turn, steps) = self.steps();
        let sum = |across, down| self.part("sum").word("SUM_OF", sum_of(across, down)).make();
        let output = |across, down| {
            let output = self.part("output").word("SUM_OF", sum_of(across, down));
            output.number("TOKEN", square * across).number("ROW", square * down).make()
        };
        self.sized(Template::new(FILE))
            .word("ELEMENT", element)
            .number("TILE_ELEMENTS", TILE * ROW * self.elements_of_quad())
            .number("SQUARES", THREADS / 32 * square * square)
            .float("SHIFT", shift)
            .number("THREADS", THREADS)
            .number("TURN", turn)
            .word("TABLE", table(levels))
            .word("FILL_TABLE", fill_table(levels, THREADS))
            .word("HEAD", codes.head("0"))
            .word("SUMS", self.each_square(sum))
            .word("STEPS", steps.iter().map(|step| self.step(step)).collect::<String>())
            .word("OUTPUTS", self.each_square(output))
            .make()
    }

    /// A text with the sizes of type and units.
    fn sized(&self, text: Template) -> Template {
        let MatMat { codes, square, bias, scaled } = *self;
        text.when("BIAS", bias)
            .when("SCALED", scaled)
            .number("TILE", TILE)
            .number("HEAD_WORDS", codes.head_words())
            .number("SUPERBLOCK_WORDS", codes.superblock_words())
            .number("QUADS", codes.quads())
            .word("SIDE", square)
            .number("SQUARE", square)
            .number("AREA", square * square)
            .number("STRIDE", ROW * self.elements_of_quad())
    }

    fn part(&self, name: &str) -> Template {
        self.sized(Template::part(FILE, name))
    }

    /// Elements of workgroup memory that four values take.
    fn elements_of_quad(&self) -> usize {
        if self.square == 8 { 4 } else { 1 }
    }

    /// A text for each square of outputs of a subgroup, by its number across tokens and down outputs.
    fn each_square(&self, text: impl Fn(usize, usize) -> String) -> String {
        let (across, down) = self.squares();
        (0..across).flat_map(|i| (0..down).map(move |j| (i, j))).map(|(i, j)| text(i, j)).collect()
    }

    /// Squares of a subgroup across tokens, and down outputs.
    fn squares(&self) -> (usize, usize) {
        (OWN.0 / self.square, OWN.1 / self.square)
    }

    /// A step: inputs and weights into workgroup memory, and their products.
    fn step(&self, step: &Step) -> String {
        let mut out = self.inputs(step);
        for (half, (offset, quads)) in step.iter().enumerate() {
            out += &self.weights(half, *offset, quads);
        }
        out += "workgroupBarrier();\n";
        for first in (0..QUADS).step_by(self.square / 4) {
            out += &self.products(first * self.elements_of_quad());
        }
        out
    }

    /// Weights of a step that half of the threads decode.
    fn weights(&self, half: usize, offset: usize, quads: &[usize]) -> String {
        let puts = quads.iter().enumerate().map(|(i, quad)| {
            let place = half * QUADS / 2 + i;
            let value = format!("vec4<f16>(a0 * {} + c0)", self.codes.quad("0", *quad));
            self.put("ws", &format!("(mine * 16u + row) * {ROW}u + {place}u"), &value)
        });
        self.part("weights")
            .number("HALF", half)
            .number("OFFSET", offset)
            .word("SCALES", self.codes.scales("0"))
            .word("LINES", self.codes.lines("0", quads))
            .word("PUTS", puts.collect::<String>())
            .make()
    }

    /// The products of columns that are in workgroup memory from the place `place` on, as many as a square has.
    fn products(&self, place: usize) -> String {
        let (across, down) = self.squares();
        let load = |part, name, number| {
            let load = self.part(part).word(name, number).number("PLACE", place);
            load.number("FIRST", self.square * number).make()
        };
        let mut out = String::from("{\n");
        for i in 0..across {
            out += &load("load_inputs", "ACROSS", i);
        }
        for j in 0..down {
            out += &load("load_weights", "DOWN", j);
            for i in 0..across {
                let multiply = self.part("multiply").word("ACROSS", i).word("DOWN", j);
                out += &multiply.word("SUM_OF", sum_of(i, j)).make();
            }
        }
        out + "}\n"
    }

    /// Four values of a row in workgroup memory, at a place counted in quads.
    fn put(&self, array: &str, at: &str, value: &str) -> String {
        let part = if self.square == 8 { "put_four" } else { "put" };
        self.part(part).word("ARRAY", array).word("AT", at).word("VALUE", value).make()
    }

    /// Inputs of a step: each thread has a quad of every sixteenth token.
    fn inputs(&self, step: &Step) -> String {
        let quads = self.codes.quads();
        let order: Vec<String> = step
            .iter()
            .flat_map(|(offset, all)| all.iter().map(move |quad| format!("{}u", offset * quads + quad)))
            .collect();
        self.part("inputs")
            .number("STEP_QUADS", QUADS)
            .word("ORDER", order.join(", "))
            .number("TOKENS_AT_ONCE", THREADS / 16)
            .word("PUT", self.put("xs", &format!("t * {ROW}u + slot"), "vec4<f16>(v)"))
            .make()
    }
}

/// The variable with the sums of a square of outputs.
fn sum_of(across: usize, down: usize) -> String {
    format!("c{across}{down}")
}
