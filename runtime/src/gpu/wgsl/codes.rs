//! How the values of a block type come out of panels of sixteen rows (SPEC.md sections 6.1 and 6.2), as text of WGSL.
//!
//! A thread works on one row of a panel, so that neighbouring threads read neighbouring words. Within a superblock every value is
//! `a * f + c`, where `a` and `c` are the row's and `f` is what this file writes for a quad, four columns at a time. Codes of linear
//! types become `f` without a conversion, which graphics processors do at a fraction of the rate of a multiplication: the bits of
//! a code of b bits are put at the top of the fraction of a float whose exponent is 0, which makes it `1 + code / 2^b`.
//!
//! Float types are in panels too, on a graphics processor only: word w of a row holds its columns 2w and 2w + 1, or of 32-bit floats
//! column w, in superblocks of 32 columns. So there is one kernel of a kind for all types.

use std::fmt::Write;

use qsf_format::{
    BlockSize, Encoding, FloatFormat, GRID_UNIT, GridLevels, PanelPlane, QuantType, TRELLIS_UNIT,
    TrellisState,
};

/// A block type in panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PanelCodes {
    /// The type.
    pub quant: QuantType,
    /// Values per block.
    pub block: BlockSize,
}

impl PanelCodes {
    /// Quads of a superblock.
    pub fn quads(self) -> usize {
        self.block().get() / 4
    }

    /// Values per block: learned types and floats have their own.
    pub fn block(self) -> BlockSize {
        if self.quant.is_float() { BlockSize::B32 } else { self.quant.block_size(self.block) }
    }

    /// Words of a superblock.
    pub fn superblock_words(self) -> usize {
        16 * self.quant.block_bytes(self.block()) / 4
    }

    /// Words of a panel before its superblocks.
    pub fn head_words(self) -> usize {
        16 * self.quant.row_head_bytes() / 4
    }

    /// Words of a superblock before its lines.
    fn field_words(self) -> usize {
        16 * self.quant.encoding().scale_bytes() / 4
    }

    /// Levels that codes are looked up in, in the order of their codes; 0: none.
    pub fn table_len(self) -> usize {
        match self.quant.encoding() {
            Encoding::Grid { planes, levels: GridLevels::Table(_), .. } => 1 << planes.bits(),
            Encoding::Trellis { .. } => 32,
            _ => 0,
        }
    }

    /// The planes of a code, the lowest bits first.
    fn planes(self) -> Vec<PanelPlane> {
        let n = self.block().get();
        self.quant.encoding().planes().map_or(Vec::new(), |planes| planes.in_panels(n).collect())
    }

    /// Groups of quads that share lines: what is loaded and used together. At most `quads` in each, where lines allow that.
    pub fn groups(self, quads: usize) -> Vec<Vec<usize>> {
        let planes = self.planes();
        let Some(low) = planes.first() else { return vec![(0..self.quads()).collect()] };
        let parts = self.quads() / low.words;
        let lines = (quads / parts).clamp(1, low.words);
        let group = |first: usize| {
            let lines = first..low.words.min(first + lines);
            (0..parts).flat_map(|part| lines.clone().map(move |line| part * low.words + line)).collect()
        };
        (0..low.words).step_by(lines).map(group).collect()
    }

    /// Reads the row's scales: statements that make `a{id}` and `c{id}` from the superblock at word `at{id}`.
    /// `row` is the row in its panel, `head{id}` the scale of a row of a learned type, `shift` that of its second grid.
    pub fn scales(self, id: &str) -> String {
        let half = |word: usize| {
            format!("unpack2x16float(w[at{id} + {word}u + (row >> 1u)] >> ((row & 1u) << 4u)).x")
        };
        let pair = |a: &str, c: &str, least: bool| {
            let least = if least { format!("let least{id} = {};", half(8)) } else { String::new() };
            format!("let s{id} = {}; {least} let a{id} = {a}; let c{id} = {c};\n", half(0))
                .replace("{s}", &format!("s{id}"))
                .replace("{m}", &format!("least{id}"))
        };
        match self.quant.encoding() {
            Encoding::Affine(planes) => {
                let one = (1u32 << planes.bits()) as f32;
                pair(&format!("{one:?} * {{s}}"), &format!("{{m}} - {one:?} * {{s}}"), true)
            }
            Encoding::Symmetric { .. } | Encoding::SignedBytes => {
                // Signed bytes have had 128 added.
                let encoding = self.quant.encoding();
                let (first, second) = match encoding {
                    Encoding::SignedBytes => (-128.0, -127.0),
                    _ => (f32::from(encoding.level(0)), f32::from(encoding.level(1))),
                };
                let one = (1u32 << encoding.code_bits()) as f32 * (second - first);
                pair(&format!("{one:?} * {{s}}"), &format!("{:?} * {{s}}", first - one), false)
            }
            Encoding::Float(_) => format!("let a{id} = 1.0; let c{id} = 0.0;\n"),
            Encoding::Trellis { .. } => {
                format!("let a{id} = head{id} * {:?}; let c{id} = 0.0;\n", f64::from(TRELLIS_UNIT))
            }
            Encoding::Grid { planes, levels, .. } => {
                // The scale is the upper 7 bits of a signed byte, the choice of grid its lowest.
                let byte = format!(
                    "let g{id} = bitcast<i32>(w[at{id} + (row >> 2u)] << (24u - ((row & 3u) << 3u))) >> 24u;\n\
                     let s{id} = head{id} * {:?} * f32(g{id} >> 1u); let t{id} = f32(g{id} & 1) * shift;\n",
                    f64::from(GRID_UNIT)
                );
                byte + &match levels {
                    GridLevels::Table(_) => format!("let a{id} = s{id}; let c{id} = s{id} * t{id};\n"),
                    GridLevels::Even => {
                        let codes = (1u32 << planes.bits()) as f32;
                        format!(
                            "let a{id} = {:?} * s{id}; let c{id} = s{id} * (t{id} - {:?});\n",
                            2.0 * codes,
                            3.0 * codes
                        )
                    }
                }
            }
        }
    }

    /// The row's scale of a learned type: a statement that makes `head{id}` from the panel at word `panel{id}`.
    pub fn head(self, id: &str) -> String {
        if self.head_words() == 0 {
            return String::new();
        }
        format!("let head{id} = unpack2x16float(w[panel{id} + (row >> 1u)] >> ((row & 1u) << 4u)).x;\n")
    }

    /// Reads the lines of some quads: statements that make variables for [`PanelCodes::quad`]. `b` is the superblock's number.
    pub fn lines(self, id: &str, quads: &[usize]) -> String {
        let mut out = String::new();
        if let Encoding::Trellis { state, .. } = self.quant.encoding() {
            return self.strings(id, state);
        }
        if self.quant.is_float() {
            let words = self.words_per_quad();
            for word in quads.iter().flat_map(|quad| words * quad..words * (quad + 1)) {
                let _ = writeln!(out, "let v{id}_{word} = w[at{id} + {}u + row];", 16 * word);
            }
            return out;
        }
        let mut seen = Vec::new();
        for plane in self.planes() {
            for &quad in quads {
                let line = plane.of_quad(quad).0;
                if !seen.contains(&line) {
                    seen.push(line);
                    let flip =
                        if self.quant.encoding() == Encoding::SignedBytes { " ^ 0x80808080u" } else { "" };
                    let word = self.field_words() + 16 * line;
                    let _ = writeln!(out, "let v{id}_{line} = w[at{id} + {word}u + row]{flip};");
                }
            }
        }
        out
    }

    /// The bits that columns c, 4 + c, ... of a trellis type are chosen by, for each c: `z{id}_c` has the byte before, and then theirs.
    /// Of states of 16 bits `own{id}_c` has their own, and `z{id}_c` the two bytes before, and then as many as there is room for.
    /// `m{id}_c` and `n{id}_c` are each bit of those two, exclusive or that eight later.
    fn strings(self, id: &str, state: TrellisState) -> String {
        let words = self.superblock_words() / 16;
        let mut out = String::new();
        for word in 0..words {
            let _ = writeln!(out, "let v{id}_{word} = w[at{id} + {}u + row];", 16 * word);
        }
        let word_before =
            |word: usize| format!("w[at{id} + {}u + row - {}u] >> 24u", 16 * word, self.superblock_words());
        let before = match state {
            TrellisState::Byte => word_before(words - 1),
            TrellisState::TwoBytes => {
                format!("({}) | (({}) << 8u)", word_before(words - 2), word_before(words - 1))
            }
        };
        let _ = writeln!(out, "var before{id} = 0u; if (b > 0u) {{ before{id} = {before}; }}");
        let byte = |word: usize, c: usize| format!("((v{id}_{word} >> {}u) & 255u)", 8 * c);
        // The bytes of a column, the first at bit `from`.
        let bytes = |c: usize, from: usize| {
            let shifted = |word: usize| format!("({} << {}u)", byte(word, c), from + 8 * word);
            (0..words).map(shifted).collect::<Vec<_>>().join(" | ")
        };
        for c in 0..4 {
            let _ = match (state, c) {
                (TrellisState::Byte, 0) => writeln!(out, "let z{id}_0 = before{id} | {};", bytes(0, 8)),
                (TrellisState::Byte, _) => {
                    writeln!(out, "let z{id}_{c} = {} | {};", byte(words - 1, c - 1), bytes(c, 8))
                }
                (TrellisState::TwoBytes, _) => {
                    let before = match c {
                        0 => format!("before{id}"),
                        _ => format!("(own{id}_{} >> {}u)", c - 1, 8 * (words - 2)),
                    };
                    writeln!(
                        out,
                        "let own{id}_{c} = {}; let z{id}_{c} = {before} | (own{id}_{c} << 16u); \
                         let m{id}_{c} = z{id}_{c} ^ (z{id}_{c} >> 8u); let n{id}_{c} = own{id}_{c} ^ (own{id}_{c} >> 8u);",
                        bytes(c, 0)
                    )
                }
            };
        }
        out
    }

    /// The sum of two levels that a step of a trellis is, of what [`PanelCodes::strings`] makes.
    fn step(self, id: &str, state: TrellisState, quad: usize, c: usize) -> String {
        // The oldest bit of the state.
        let first = self.superblock_words() / 16 * (quad + 1);
        let nibble = |name: &str, at: usize| format!("(({name}{id}_{c} >> {at}u) & 15u)");
        let (newest, oldest) = match state {
            TrellisState::Byte => (nibble("z", first + 4), nibble("z", first)),
            TrellisState::TwoBytes => {
                let newest = if first < 4 { nibble("z", first + 12) } else { nibble("own", first - 4) };
                // Of `m`, 24 bits have one that is eight later.
                let oldest = if first + 4 <= 24 { nibble("m", first) } else { nibble("n", first - 16) };
                (newest, oldest)
            }
        };
        format!("table[{newest}] + table[16u + {oldest}]")
    }

    /// Words that hold four columns of a float type.
    fn words_per_quad(self) -> usize {
        self.quant.encoding().code_bits() / 8
    }

    /// Whether values are a scale times a code plus another, with codes that are stored as such.
    pub fn is_linear(self) -> bool {
        !self.planes().is_empty() && self.table_len() == 0
    }

    /// The lines of some quads, for [`PanelCodes::integer_quad`].
    pub fn integer_lines(self, id: &str, quads: &[usize]) -> String {
        // Codes of eight bits are signed bytes, which integers can stay.
        self.lines(id, quads).replace(" ^ 0x80808080u", "")
    }

    /// Four codes of a linear type, a byte each, an expression of type `u32`.
    pub fn integer_quad(self, id: &str, quad: usize) -> String {
        let mut to = 0;
        let mut parts = Vec::new();
        for plane in self.planes() {
            let (line, from) = plane.of_quad(quad);
            let mask = (((1u32 << plane.bits) - 1) << to) * 0x0101_0101;
            // Bits move within their bytes only, or are masked out.
            let moved = match from.cmp(&to) {
                std::cmp::Ordering::Less => format!("(v{id}_{line} << {}u)", to - from),
                std::cmp::Ordering::Equal => format!("v{id}_{line}"),
                std::cmp::Ordering::Greater => format!("(v{id}_{line} >> {}u)", from - to),
            };
            parts.push(if plane.bits == 8 { moved } else { format!("({moved} & 0x{mask:x}u)") });
            to += plane.bits;
        }
        parts.join(" | ")
    }

    /// What a code of a linear type is multiplied by, and what is added: expressions of what [`PanelCodes::scales`] makes.
    pub fn integer_scales(self, id: &str) -> (String, String) {
        let bits: usize = self.planes().iter().map(|plane| plane.bits).sum();
        let a = format!("a{id} * {:?}", 1.0 / (1u32 << bits) as f32);
        // With floats a code is between 1 and 2, and one of eight bits, which is signed, has 128 added.
        let c = if bits == 8 { "0.0".to_owned() } else { format!("(a{id} + c{id})") };
        (a, c)
    }

    /// `f` of a quad, an expression of type `vec4<f32>`.
    pub fn quad(self, id: &str, quad: usize) -> String {
        let values: Vec<String> = (0..4).map(|c| self.value(id, quad, c)).collect();
        format!("vec4<f32>({})", values.join(", "))
    }

    fn value(self, id: &str, quad: usize, c: usize) -> String {
        let word = |c: usize| format!("v{id}_{}", self.words_per_quad() * quad + c);
        if let Encoding::Float(format) = self.quant.encoding() {
            return match format {
                FloatFormat::F32 => format!("bitcast<f32>({})", word(c)),
                FloatFormat::F16 => format!("unpack2x16float({}).{}", word(c / 2), ["x", "y"][c % 2]),
                FloatFormat::Bf16 if c.is_multiple_of(2) => format!("bitcast<f32>({} << 16u)", word(c / 2)),
                FloatFormat::Bf16 => format!("bitcast<f32>({} & 0xffff0000u)", word(c / 2)),
            };
        }
        if let Encoding::Trellis { state, .. } = self.quant.encoding() {
            return self.step(id, state, quad, c);
        }
        let planes = self.planes();
        let bits: usize = planes.iter().map(|plane| plane.bits).sum();
        let linear = self.table_len() == 0;
        // Where the lowest bit of the code goes: the top of the fraction of a float, or bit 0 of an index.
        let mut to = if linear { 23 - bits } else { 0 };
        let mut parts = Vec::new();
        for plane in planes {
            let (line, bit) = plane.of_quad(quad);
            let from = 8 * c + bit;
            let mask = ((1u32 << plane.bits) - 1) << to;
            let shifted = match from.cmp(&to) {
                std::cmp::Ordering::Less => format!("(v{id}_{line} << {}u)", to - from),
                std::cmp::Ordering::Equal => format!("v{id}_{line}"),
                std::cmp::Ordering::Greater => format!("(v{id}_{line} >> {}u)", from - to),
            };
            parts.push(format!("({shifted} & 0x{mask:x}u)"));
            to += plane.bits;
        }
        let code = parts.join(" | ");
        if linear { format!("bitcast<f32>({code} | 0x3f800000u)") } else { format!("table[{code}]") }
    }
}
