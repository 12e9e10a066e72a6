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

use qsf_format::{BlockSize, QuantType};

/// A block type in panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PanelCodes {
    /// The type.
    pub quant: QuantType,
    /// Values per block.
    pub block: BlockSize,
}

/// Where the codes of a plane are: `bits` of each, in `lines` lines, quads one line after the other and then at the next higher bits.
#[derive(Clone, Copy)]
struct Plane {
    first_line: usize,
    lines: usize,
    bits: usize,
    /// Whether the quads of a line come one after the other, a bit each, instead.
    by_line: bool,
}

impl Plane {
    /// Line of a quad, and the bit of each byte there at which its code begins.
    fn place(self, quad: usize) -> (usize, usize) {
        if self.by_line {
            (self.first_line + quad / 8, quad % 8)
        } else {
            (self.first_line + quad % self.lines, self.bits * (quad / self.lines))
        }
    }
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
        match self.quant {
            QuantType::Q2 | QuantType::Q3 | QuantType::Q4 => 16,
            QuantType::Q2Sym | QuantType::Ternary | QuantType::Q8 => 8,
            QuantType::T2 | QuantType::T3 | QuantType::F16 | QuantType::Bf16 | QuantType::F32 => 0,
            _ => 4,
        }
    }

    /// Levels that codes are looked up in, in the order of [`PanelCodes::table`]; 0: none.
    pub fn table_len(self) -> usize {
        match self.quant {
            QuantType::N2 => 4,
            QuantType::N3 => 8,
            QuantType::N4 => 16,
            QuantType::N5 | QuantType::T2 | QuantType::T3 => 32,
            _ => 0,
        }
    }

    /// The planes of a code, the lowest bits first.
    fn planes(self) -> Vec<Plane> {
        let n = self.block().get();
        let plane = |first_line, lines, bits| Plane { first_line, lines, bits, by_line: false };
        match self.quant {
            QuantType::Q2Sym | QuantType::Q2 | QuantType::Ternary | QuantType::N2 => {
                vec![plane(0, n / 16, 2)]
            }
            QuantType::Q4 | QuantType::N4 => vec![plane(0, n / 8, 4)],
            QuantType::Q8 => vec![plane(0, n / 4, 8)],
            QuantType::Q3 | QuantType::N3 => {
                let high = Plane { first_line: n / 16, lines: n / 32, bits: 1, by_line: true };
                vec![plane(0, n / 16, 2), high]
            }
            QuantType::N5 => {
                vec![plane(0, n / 8, 4), Plane { first_line: n / 8, lines: n / 32, bits: 1, by_line: true }]
            }
            QuantType::Q6 => vec![plane(0, n / 8, 4), plane(n / 8, n / 16, 2)],
            _ => Vec::new(),
        }
    }

    /// Groups of quads that share lines: what is loaded and used together. At most `quads` in each, where lines allow that.
    pub fn groups(self, quads: usize) -> Vec<Vec<usize>> {
        let planes = self.planes();
        let Some(low) = planes.first() else { return vec![(0..self.quads()).collect()] };
        let parts = self.quads() / low.lines;
        let lines = (quads / parts).clamp(1, low.lines);
        let group = |first: usize| {
            let lines = first..low.lines.min(first + lines);
            (0..parts).flat_map(|part| lines.clone().map(move |line| part * low.lines + line)).collect()
        };
        (0..low.lines).step_by(lines).map(group).collect()
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
        match self.quant {
            QuantType::Q2Sym => pair("8.0 * {s}", "-11.0 * {s}", false),
            QuantType::Ternary => pair("4.0 * {s}", "-5.0 * {s}", false),
            QuantType::Q8 => pair("256.0 * {s}", "-384.0 * {s}", false),
            QuantType::Q2 => pair("4.0 * {s}", "{m} - 4.0 * {s}", true),
            QuantType::Q3 => pair("8.0 * {s}", "{m} - 8.0 * {s}", true),
            QuantType::Q4 => pair("16.0 * {s}", "{m} - 16.0 * {s}", true),
            QuantType::F16 | QuantType::Bf16 | QuantType::F32 => {
                format!("let a{id} = 1.0; let c{id} = 0.0;\n")
            }
            QuantType::T2 | QuantType::T3 => {
                format!("let a{id} = head{id} * {:?}; let c{id} = 0.0;\n", 1.0 / 128.0)
            }
            _ => {
                // The scale is the upper 7 bits of a signed byte, the choice of grid its lowest.
                let byte = format!(
                    "let g{id} = bitcast<i32>(w[at{id} + (row >> 2u)] << (24u - ((row & 3u) << 3u))) >> 24u;\n\
                     let s{id} = head{id} * {:?} * f32(g{id} >> 1u); let t{id} = f32(g{id} & 1) * shift;\n",
                    1.0 / 4096.0
                );
                if self.quant == QuantType::Q6 {
                    byte + &format!("let a{id} = 128.0 * s{id}; let c{id} = s{id} * (t{id} - 192.0);\n")
                } else {
                    byte + &format!("let a{id} = s{id}; let c{id} = s{id} * t{id};\n")
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
        if self.quant.is_trellis() {
            return self.strings(id);
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
                let line = plane.place(quad).0;
                if !seen.contains(&line) {
                    seen.push(line);
                    let flip = if self.quant == QuantType::Q8 { " ^ 0x80808080u" } else { "" };
                    let word = self.field_words() + 16 * line;
                    let _ = writeln!(out, "let v{id}_{line} = w[at{id} + {word}u + row]{flip};");
                }
            }
        }
        out
    }

    /// The bits that columns c, 4 + c, ... of a trellis type are chosen by, for each c: the byte before, and then theirs.
    fn strings(self, id: &str) -> String {
        let words = self.superblock_words() / 16;
        let mut out = String::new();
        for word in 0..words {
            let _ = writeln!(out, "let v{id}_{word} = w[at{id} + {}u + row];", 16 * word);
        }
        let last = 16 * (words - 1);
        let before = format!("w[at{id} + {last}u + row - {}u] >> 24u", self.superblock_words());
        let _ = writeln!(out, "var before{id} = 0u; if (b > 0u) {{ before{id} = {before}; }}");
        for c in 0..4 {
            let first = match c {
                0 => format!("before{id}"),
                _ => format!("((v{id}_{} >> {}u) & 255u)", words - 1, 8 * (c - 1)),
            };
            let bytes: String = (0..words)
                .map(|word| format!(" | (((v{id}_{word} >> {}u) & 255u) << {}u)", 8 * c, 8 * (word + 1)))
                .collect();
            let _ = writeln!(out, "let z{id}_{c} = {first}{bytes};");
        }
        out
    }

    /// Words that hold four columns of a float type.
    fn words_per_quad(self) -> usize {
        if self.quant == QuantType::F32 { 4 } else { 2 }
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
            let (line, from) = plane.place(quad);
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
        match self.quant {
            QuantType::F32 => return format!("bitcast<f32>({})", word(c)),
            QuantType::F16 => return format!("unpack2x16float({}).{}", word(c / 2), ["x", "y"][c % 2]),
            QuantType::Bf16 if c.is_multiple_of(2) => return format!("bitcast<f32>({} << 16u)", word(c / 2)),
            QuantType::Bf16 => return format!("bitcast<f32>({} & 0xffff0000u)", word(c / 2)),
            _ => {}
        }
        if self.quant.is_trellis() {
            let shift = self.superblock_words() / 16 * (quad + 1);
            let nibble = |at: usize| format!("((z{id}_{c} >> {at}u) & 15u)");
            return format!("table[{}] + table[16u + {}]", nibble(shift + 4), nibble(shift));
        }
        let planes = self.planes();
        let bits: usize = planes.iter().map(|plane| plane.bits).sum();
        let linear = self.table_len() == 0;
        // Where the lowest bit of the code goes: the top of the fraction of a float, or bit 0 of an index.
        let mut to = if linear { 23 - bits } else { 0 };
        let mut parts = Vec::new();
        for plane in planes {
            let (line, bit) = plane.place(quad);
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
