//! Where the residual stream begins: rows of the token embedding.

use super::codes::PanelCodes;
use super::levels::{fill_table, table};
use super::template::Template;

/// Threads of a workgroup, which has a token.
pub const THREADS: usize = 64;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Embed {
    /// Type of the embedding.
    pub codes: PanelCodes,
    /// Whether learned positions are added.
    pub positions: bool,
    /// Whether rows are in parts, and a list says where.
    pub listed: bool,
}

impl Embed {
    /// The text of the kernel. `levels` are those of a learned type, `shift` that of its second grid.
    pub fn wgsl(&self, levels: &[f32], shift: f32) -> String {
        let Embed { codes, positions, listed } = *self;
        let file = include_str!("embed.wgsl");
        let quads: Vec<usize> = (0..codes.quads()).collect();
        let put = |quad: &usize| {
            Template::part(file, "put_quad")
                .number("BLOCK", 4 * codes.quads())
                .number("COLUMN", 4 * quad)
                .word("VALUES", codes.quad("0", *quad))
                .make()
        };
        Template::new(file)
            .number("THREADS", THREADS)
            .float("SHIFT", shift)
            .number("HEAD_WORDS", codes.head_words())
            .number("SUPERBLOCK_WORDS", codes.superblock_words())
            .word("TABLE", table(levels))
            .word("FILL_TABLE", fill_table(levels, THREADS))
            .word("HEAD", codes.head("0"))
            .word("SCALES", codes.scales("0"))
            .word("LINES", codes.lines("0", &quads))
            .word("PUT_QUADS", quads.iter().map(put).collect::<String>())
            .when("POSITIONS", positions)
            .when("LISTED", listed)
            .make()
    }
}
