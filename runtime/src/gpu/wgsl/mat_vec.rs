//! Matrices in panels times one or a few vectors: what decoding a token consists of, and bound by how fast weights are read.
//!
//! A workgroup makes the outputs of some panels. Sixteen threads are the rows of a panel, and the others of the workgroup share its
//! superblocks with them; their sums are added in workgroup memory, always in the same order. Inputs are read once for all
//! panels of the workgroup.

use super::activation::{self, Function};
use super::codes::PanelCodes;
use super::experts::NONE;
use super::levels::{fill_table, table};
use super::template::Template;

/// What becomes of the products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// They are written.
    Store,
    /// Half of the panels are those of a gate, the other half of what it lets through: activation of the one times the other.
    Gated(Function),
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
    /// Whether vectors go through experts: one vector through one that was chosen, or those of a tile through its expert; or through the
    /// matrix of a head.
    pub experts: Option<Inputs>,
    /// Whether experts that were chosen are of several types, and a list says where each is.
    pub listed: bool,
}

/// Which vector an expert of those that were chosen reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inputs {
    /// That of the token.
    OfToken,
    /// Its own.
    OfChoice,
    /// That of a head, of which each token has one, and each head a matrix: of as many tokens as there are vectors.
    EachHead,
}

impl Inputs {
    /// Whether matrices are those that were chosen.
    pub const fn are_chosen(self) -> bool {
        matches!(self, Inputs::OfToken | Inputs::OfChoice)
    }

    /// The row of inputs that the kernels with a workgroup for each token or choice read.
    pub(super) fn row(experts: Option<Inputs>) -> &'static str {
        match experts {
            Some(Inputs::OfToken) => "group.y / job.used",
            Some(Inputs::EachHead) => "group.z * job.used + group.y",
            Some(Inputs::OfChoice) | None => "group.y",
        }
    }
}

/// Quads whose inputs are in registers at once.
pub(super) const QUADS: usize = 8;

const FILE: &str = include_str!("mat_vec.wgsl");

impl MatVec {
    /// The text of the kernel. `levels` are those of a learned type, `shift` that of its second grid.
    pub fn wgsl(&self, levels: &[f32], shift: f32) -> String {
        let MatVec { tokens, panels, threads, .. } = *self;
        let activation = match self.output {
            Output::Store => String::new(),
            Output::Gated(function) => activation::gated(function, "t", "u"),
        };
        let (x_first, y_first) = match self.experts {
            Some(Inputs::OfToken) => {
                ("job.x_first + group.z / job.used * job.x_stride", "job.y_first + group.z * job.y_stride")
            }
            Some(Inputs::OfChoice) => {
                ("job.x_first + group.z * job.x_stride", "job.y_first + group.z * job.y_stride")
            }
            Some(Inputs::EachHead) => (
                "job.x_first + group.z / job.used * TOKENS * job.x_stride + group.z % job.used * job.x_head",
                "job.y_first + group.z / job.used * TOKENS * job.y_stride + group.z % job.used * job.y_head",
            ),
            None => ("job.x_first", "job.y_first"),
        };
        let of_tokens = format!("{tokens}u");
        let of_head = self.experts == Some(Inputs::EachHead);
        let chosen = self.experts.is_some_and(Inputs::are_chosen);
        let bias_first = match self.experts {
            Some(Inputs::OfToken | Inputs::OfChoice) => {
                format!("job.bias + expert * job.rows * {}u", panels / self.own_panels())
            }
            Some(Inputs::EachHead) | None => "job.bias".into(),
        };
        let tile_words = if self.is_tiled() { tokens + 1 } else { 2 };
        let text = Template::new(FILE)
            .when("CHOSEN", chosen)
            .when("LISTED", self.listed)
            .word("MATRIX", if of_head { "group.z % job.used * job.expert_words" } else { "0u" })
            .when("TILED", self.is_tiled())
            .when("BIAS", self.bias)
            .number("TILE_WORDS", tile_words)
            .number("NONE", NONE as usize)
            .word("BIAS_FIRST", bias_first)
            .when("GATED", self.output != Output::Store)
            .number("SUMS", threads * panels * tokens)
            .float("SHIFT", shift)
            .number("THREADS", threads)
            .number("MAX_GROUPS", MAX_GROUPS)
            .number("OWN_PANELS", self.own_panels())
            .word("X_FIRST", x_first.replace("TOKENS", &of_tokens))
            .word("Y_FIRST", y_first.replace("TOKENS", &of_tokens))
            .word("ROWS", self.rows())
            .number("OUTPUTS", 16 * self.own_panels() * tokens)
            .number("TOKENS", tokens)
            .number("SLICES", threads / 16)
            .word("ACTIVATION", activation)
            .word("PANELS", (0..panels).map(|panel| self.panel(panel)).collect::<String>())
            .word("PUT_SUMS", self.put_sums());
        let text = if self.integers {
            text.word("MEMORY", self.integer_memory())
                .word("FILL_TABLE", "")
                .word("LOOP", self.integer_loop())
        } else {
            text.word("MEMORY", table(levels))
                .word("FILL_TABLE", fill_table(levels, threads))
                .word("LOOP", self.float_loop())
        };
        text.make()
    }

    /// Whether the vectors are those of a tile of choices.
    fn is_tiled(&self) -> bool {
        self.experts.is_some_and(Inputs::are_chosen) && self.tokens > 1
    }

    /// Where the vectors of a tile begin.
    fn rows(&self) -> String {
        let divided = if self.experts == Some(Inputs::OfToken) { "/ job.used" } else { "" };
        let row = |token: usize| {
            let row = self.part("row").word("TOKEN", token).word("DIVIDED", divided);
            row.number("NONE", NONE as usize).make()
        };
        (0..self.tokens).map(row).collect()
    }

    /// Where the vector of a token begins, behind the first.
    fn row(&self, token: usize) -> String {
        if self.is_tiled() { format!("row{token}") } else { format!("{token}u * job.x_stride") }
    }

    /// A text with the sizes of the type.
    pub(super) fn sized(&self, text: Template) -> Template {
        text.number("HEAD_WORDS", self.codes.head_words())
            .number("SUPERBLOCK_WORDS", self.codes.superblock_words())
            .number("QUADS", self.codes.quads())
            .number("SLICES", self.threads / 16)
    }

    fn part(&self, name: &str) -> Template {
        self.sized(Template::part(FILE, name))
    }

    /// Where a panel begins, and sums for it.
    fn panel(&self, panel: usize) -> String {
        let own = self.own_panels();
        let (base, number) = if panel < own { ("job.at", panel) } else { ("job.second", panel - own) };
        let begin = self.part("panel").word("PANEL", panel).word("BASE", base).number("NUMBER", number);
        begin.word("HEAD", self.codes.head(&panel.to_string())).make() + &self.each_token("sum", panel)
    }

    /// A statement for each token.
    fn each_token(&self, part: &str, panel: usize) -> String {
        let statement = |token: usize| self.part(part).word("PANEL", panel).word("TOKEN", token).make();
        (0..self.tokens).map(statement).collect()
    }

    fn put_sums(&self) -> String {
        let MatVec { tokens, threads, .. } = *self;
        let put = |panel: usize, token: usize| {
            let put = self.part("put_sum").word("PANEL", panel).word("TOKEN", token);
            put.number("PLACE", (panel * tokens + token) * threads).make()
        };
        (0..self.panels).flat_map(|panel| (0..tokens).map(move |token| put(panel, token))).collect()
    }

    /// The loop over superblocks, with inputs as they are.
    fn float_loop(&self) -> String {
        let MatVec { codes, tokens, panels, .. } = *self;
        let mut begin: String = (0..panels)
            .map(|panel| {
                let scales = codes.scales(&panel.to_string());
                self.part("begin").word("PANEL", panel).word("SCALES", scales).make()
                    + &self.each_token("dot", panel)
            })
            .collect();
        begin += &self.each_token("all", 0);
        let groups: String = codes.groups(QUADS).iter().map(|quads| self.float_group(quads)).collect();
        let end =
            |token: usize, panel: usize| self.part("end").word("PANEL", panel).word("TOKEN", token).make();
        let end: String =
            (0..tokens).flat_map(|token| (0..panels).map(move |panel| end(token, panel))).collect();
        self.part("loop").word("BEGIN", begin).word("GROUPS", groups).word("END", end).make()
    }

    /// Quads that are loaded together, of all panels and tokens.
    fn float_group(&self, quads: &[usize]) -> String {
        let MatVec { codes, tokens, panels, .. } = *self;
        let mut out = String::from("{\n");
        for panel in 0..panels {
            out += &codes.lines(&panel.to_string(), quads);
        }
        for token in 0..tokens {
            for quad in quads {
                out += &self.input(token, *quad);
            }
        }
        for panel in 0..panels {
            for quad in quads {
                let values = codes.quad(&panel.to_string(), *quad);
                let weights = self.part("weights").word("PANEL", panel).word("QUAD", quad);
                out += &weights.word("VALUES", values).make();
                for token in 0..tokens {
                    let add = self.part("add_dot").word("PANEL", panel).word("QUAD", quad);
                    out += &add.word("TOKEN", token).make();
                }
            }
        }
        out + "}\n"
    }

    fn input(&self, token: usize, quad: usize) -> String {
        self.part("input").word("TOKEN", token).word("QUAD", quad).word("ROW", self.row(token)).make()
    }

    /// Panels of a workgroup that make outputs of their own.
    pub fn own_panels(&self) -> usize {
        match self.output {
            Output::Store => self.panels,
            Output::Gated(_) => self.panels / 2,
        }
    }
}

/// Workgroups of one dimension.
pub const MAX_GROUPS: usize = 32_768;
