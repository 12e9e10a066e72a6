//! The inner part of a matrix times a vector in integers: inputs become two signed bytes each, which products of four bytes at a time
//! (`dot4I8Packed`) take with the codes of four columns as they are in the file.
//!
//! Half of the work of a float multiplication at two bits a weight is making a float of a code. Here a mask makes four codes, and
//! two instructions multiply them. The two bytes are the upper and the lower half of 16 bits, scaled by the largest input of a
//! superblock, so that inputs are as exact as f16 is and no more is lost than on matrix units.

use super::mat_vec::{MatVec, QUADS};
use super::template::Template;

const FILE: &str = include_str!("int_dot.wgsl");

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

    /// Pieces of a superblock.
    fn pieces_of_block(&self) -> usize {
        self.codes.block().get() / PIECE
    }

    /// Declarations.
    pub(super) fn integer_memory(&self) -> String {
        self.integer_part("memory").number("QUADS_OF_ROUND", self.pieces() * PIECE / 4).make()
    }

    fn integer_part(&self, name: &str) -> Template {
        self.sized(Template::part(FILE, name))
            .number("PIECES", self.pieces())
            .number("PIECES_OF_BLOCK", self.pieces_of_block())
            .number("BLOCKS", self.pieces() / self.pieces_of_block())
    }

    /// The loop over superblocks, in rounds: inputs become integers, and then all threads multiply.
    pub(super) fn integer_loop(&self) -> String {
        let MatVec { codes, panels, .. } = *self;
        let begin = |panel: usize| {
            let scales = codes.scales(&panel.to_string());
            self.integer_part("begin").word("PANEL", panel).word("SCALES", scales).make()
        };
        let end = |panel: usize| {
            let (scale, offset) = codes.integer_scales(&panel.to_string());
            self.integer_part("end").word("PANEL", panel).word("SCALE", scale).word("OFFSET", offset).make()
        };
        let groups: String = codes.groups(QUADS).iter().map(|quads| self.integer_group(quads)).collect();
        self.integer_part("loop")
            .float("LARGEST", LARGEST)
            .float("ONE", 1.0 / LARGEST)
            .word("BEGIN", (0..panels).map(begin).collect::<String>())
            .word("GROUPS", groups)
            .word("END", (0..panels).map(end).collect::<String>())
            .make()
    }

    /// Quads that are loaded together, of all panels.
    fn integer_group(&self, quads: &[usize]) -> String {
        let MatVec { codes, panels, .. } = *self;
        let mut out = String::from("{\n");
        for panel in 0..panels {
            out += &codes.integer_lines(&panel.to_string(), quads);
        }
        for quad in quads {
            out += &self.integer_part("input").word("QUAD", quad).make();
            for panel in 0..panels {
                let codes = codes.integer_quad(&panel.to_string(), *quad);
                let products = self.integer_part("products").word("PANEL", panel).word("QUAD", quad);
                out += &products.word("CODES", codes).make();
            }
        }
        out + "}\n"
    }
}
