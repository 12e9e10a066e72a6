//! Attention of one query over a part of the positions, and the parts put together (flash attention, arXiv 2205.14135, with
//! the parts of arXiv 2311.01282). Scores are never stored: a running maximum and sum go along.
//!
//! For scores, each thread of a workgroup has a position. For values, it has a chunk of a head, which one load gets, of every few positions; sums of
//! those are added at the end.
//!
//! With codes of 8 bits, what comes out of the sums is rotated as the values are, and is turned back when it is final.

use super::eight_bit::{GROUP, rotate, row_words, scale_words};
use super::template::Template;

const FILE: &str = include_str!("attend.wgsl");

/// Positions that are looked at together, as many as threads.
pub const TILE: usize = 64;
/// Positions of a part, at least.
pub const PART: usize = 128;
/// Loads that are under way at once.
const LOADS: usize = 8;
/// Words of codes that share a scale.
const GROUP_WORDS: usize = GROUP / 4;
/// What a scale, which is the value of code 127, is multiplied with to be that of code 1.
const ONE: f32 = 1.0 / 127.0;

/// How a head is stored at a position.
#[derive(Debug, Clone, Copy)]
struct Stored {
    /// Values of a head.
    dim: usize,
    eight_bit: bool,
}

impl Stored {
    /// Values of a word.
    fn lanes(self) -> usize {
        if self.eight_bit { 4 } else { 2 }
    }

    /// Words of a head. Behind the last value are zeros.
    fn words(self) -> usize {
        if self.eight_bit { row_words(self.dim) } else { self.dim.div_ceil(2) }
    }

    /// Words of a chunk.
    fn chunk_words(self) -> usize {
        [4, 2, 1].into_iter().find(|words| self.words().is_multiple_of(*words)).unwrap_or(1)
    }

    /// The type of a chunk.
    fn chunk(self) -> &'static str {
        ["u32", "vec2<u32>", "vec4<u32>"][self.chunk_words() / 2]
    }

    /// Chunks of a head.
    fn chunks(self) -> usize {
        self.words() / self.chunk_words()
    }

    /// Values of a head with what is behind the last one in its word.
    fn width(self) -> usize {
        self.words() * self.lanes()
    }

    /// The words of a chunk.
    fn words_of(self, chunk: &str) -> Vec<String> {
        match self.chunk_words() {
            1 => vec![chunk.to_owned()],
            words => ["x", "y", "z", "w"][..words].iter().map(|word| format!("{chunk}.{word}")).collect(),
        }
    }
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attend {
    /// Width of a head of queries and keys.
    pub key_dim: usize,
    /// Width of a head of values.
    pub value_dim: usize,
    /// Whether scores are capped at `job.softcap`.
    pub softcap: bool,
    /// Whether scores fall with the distance, by slopes at `job.slopes`.
    pub slopes: bool,
    /// Whether each head has a score at `job.sinks` that takes part in the softmax and has no value.
    pub sinks: bool,
    /// Whether windows do not slide, but begin at each multiple of their length.
    pub in_chunks: bool,
    /// Whether there is one part only, of any length: then results are final, in rows `job.stride` apart.
    pub is_whole: bool,
    /// Whether the cache has codes of 8 bits, and their scales; else it has f16.
    pub eight_bit: bool,
}

impl Attend {
    fn keys(&self) -> Stored {
        Stored { dim: self.key_dim, eight_bit: self.eight_bit }
    }

    fn values(&self) -> Stored {
        Stored { dim: self.value_dim, eight_bit: self.eight_bit }
    }

    /// The type of the values of a word.
    fn vector(&self) -> &'static str {
        if self.eight_bit { "vec4<f32>" } else { "vec2<f32>" }
    }

    /// The values of a word; codes without their scale.
    fn unpack(&self, word: &str) -> String {
        if self.eight_bit {
            format!("vec4<f32>(unpack4xI8({word}))")
        } else {
            format!("unpack2x16float({word})")
        }
    }

    /// Groups of threads that share the positions of a tile for values.
    fn groups(&self) -> usize {
        (TILE / self.values().chunks()).max(1)
    }

    /// The text of the kernel.
    pub fn wgsl(&self) -> String {
        let Attend { value_dim, is_whole, eight_bit, .. } = *self;
        let turn_back = is_whole && eight_bit;
        let (keys, values) = (self.keys(), self.values());
        let sums: Vec<String> =
            (0..self.groups()).map(|group| format!("sums[{}u + i]", group * values.width())).collect();
        self.text(Template::new(FILE))
            .when("SOFTCAP", self.softcap)
            .when("SLOPES", self.slopes)
            .when("SINKS", self.sinks)
            .when("IN_CHUNKS", self.in_chunks)
            .when("WHOLE", is_whole)
            .when("TURN_BACK", turn_back)
            .word("KEY_CHUNK", keys.chunk())
            .word("VALUE_CHUNK", values.chunk())
            .number("WORDS", keys.words())
            .number("KEY_WIDTH", self.key_dim)
            .number("SCORE_QUADS", TILE / 4)
            .number("SUMS", self.groups() * values.width())
            .number("WIDTH", value_dim)
            .number("ROW", value_dim + 2)
            .number("LAST", value_dim + 1)
            .word("SUM_OF_GROUPS", sums.join(" + "))
            .word("HADAMARD", if turn_back { rotate("sums", value_dim, TILE) } else { String::new() })
            .word("OUTPUTS", self.each_output("output"))
            .word("PRODUCTS", self.products())
            .word("MOST", over_tile("most"))
            .word("ALL", over_tile("all"))
            .word("VALUES", self.columns().map(|column| self.weighed(column)).collect::<String>())
            .word("PUT_SUMS", self.columns().map(|column| self.put_sums(column)).collect::<String>())
            .make()
    }

    /// A text with what all parts of the file need.
    fn text(&self, text: Template) -> Template {
        text.when("EIGHT_BIT", self.eight_bit)
            .word("VECTOR", self.vector())
            .number("TILE", TILE)
            .number("KEY_CHUNKS", self.keys().chunks())
            .number("VALUE_CHUNKS", self.values().chunks())
            .number("KEY_SCALE_WORDS", scale_words(self.key_dim))
            .number("VALUE_SCALE_WORDS", scale_words(self.value_dim))
            .word("ONE", ONE)
    }

    fn part(&self, name: &str) -> Template {
        self.text(Template::part(FILE, name))
    }

    /// A statement for the words of each chunk of a thread.
    fn each_output(&self, part: &str) -> String {
        self.columns().map(|column| self.each_word(part, column)).collect()
    }

    fn each_word(&self, part: &str, column: usize) -> String {
        let statement = |word: usize| self.part(part).word("COLUMN", column).word("WORD", word).make();
        (0..self.values().chunk_words()).map(statement).collect()
    }

    /// Chunks of a thread: more than one where a head has more chunks than there are threads.
    fn columns(&self) -> std::ops::Range<usize> {
        0..self.values().chunks().div_ceil(TILE)
    }

    /// Statements that add to `d` the products of the query with the key of a position.
    fn products(&self) -> String {
        let keys = self.keys();
        let (chunks, words) = (keys.chunks(), keys.chunk_words());
        let mut out = String::new();
        if self.eight_bit {
            for index in 0..scale_words(self.key_dim) {
                out += &self.part("load_scale").word("INDEX", index).make();
            }
        }
        for first in (0..chunks).step_by(LOADS) {
            let run = first..chunks.min(first + LOADS);
            for index in run.clone() {
                out += &self.part("load_key").word("INDEX", index).make();
            }
            for index in run {
                for (word, text) in keys.words_of(&format!("k{index}")).iter().enumerate() {
                    out += &self.product(index * words + word, &self.unpack(text));
                }
            }
        }
        if self.eight_bit {
            out += &self.end_group((keys.words() - 1) / GROUP_WORDS);
        }
        out
    }

    /// Statements that add the product of word `at` of the query with that of a key, to `d`, or with codes to the sum of the group, where
    /// the sum of the group before is done with then.
    fn product(&self, at: usize, key: &str) -> String {
        let group = at / GROUP_WORDS;
        let statement = |part| self.part(part).word("AT", at).word("GROUP", group).word("KEY", key).make();
        if !self.eight_bit {
            statement("add_product")
        } else if !at.is_multiple_of(GROUP_WORDS) {
            statement("add_to_group")
        } else if group == 0 {
            statement("begin_group")
        } else {
            self.end_group(group - 1) + &statement("begin_group")
        }
    }

    /// A statement that adds the sum of a group, with the scale of its codes.
    fn end_group(&self, group: usize) -> String {
        let scale = format!("s{}.{}", group / 2, ["x", "y"][group % 2]);
        self.part("end_group").word("GROUP", group).word("SCALE", scale).make()
    }

    /// Statements that add the values of a tile, in a column of chunks, with the weights that scores give them.
    fn weighed(&self, column: usize) -> String {
        let (chunks, groups) = (self.values().chunks(), self.groups());
        let (threads, mine) = if chunks > TILE {
            (chunks, format!("lid + {}u", column * TILE))
        } else {
            (groups * chunks, format!("lid % {chunks}u"))
        };
        let mut turns = String::new();
        let count = TILE.div_ceil(groups);
        for first in (0..count).step_by(LOADS) {
            let run = first..count.min(first + LOADS);
            for turn in run.clone() {
                turns += &self.part("load_value").word("TURN", turn).number("FIRST", turn * groups).make();
            }
            for turn in run {
                turns += &self.weighed_value(column, turn);
            }
        }
        self.each_word("fade", column)
            + &self
                .part("values")
                .number("FIRST", column * TILE)
                .number("THREADS", threads)
                .word("MINE", mine)
                .word("GROUP", self.group())
                .number("CHUNKS_OF_SCALE", GROUP_WORDS / self.values().chunk_words())
                .word("TURNS", turns)
                .make()
    }

    /// Statements that add a value that was loaded.
    fn weighed_value(&self, column: usize, turn: usize) -> String {
        let inside = (turn + 1) * self.groups() <= TILE;
        let part = if self.eight_bit { "weigh_codes" } else { "weigh" };
        let mut out = self.part(part).when("INSIDE", inside).word("TURN", turn).make();
        for (word, text) in self.values().words_of(&format!("v{turn}")).iter().enumerate() {
            let add = self.part("add_value").word("COLUMN", column).word("WORD", word).word("TURN", turn);
            out += &add.word("VALUE", self.unpack(text)).make();
        }
        out
    }

    /// The group of a thread.
    fn group(&self) -> String {
        let chunks = self.values().chunks();
        if chunks > TILE { "0u".into() } else { format!("lid / {chunks}u") }
    }

    /// Statements that put the sums of a thread, in a column of chunks, where all threads find them.
    fn put_sums(&self, column: usize) -> String {
        let values = self.values();
        let (chunks, lanes) = (values.chunks(), values.lanes());
        let mut puts = String::new();
        for (at, (word, lane)) in (0..values.chunk_words())
            .flat_map(|word| ["x", "y", "z", "w"][..lanes].iter().map(move |lane| (word, lane)))
            .enumerate()
        {
            let put = self.part("put_sum").number("AT", at).word("COLUMN", column);
            puts += &put.word("WORD", word).word("LANE", lane).make();
        }
        self.part("put_sums")
            .number("FIRST", column * TILE)
            .number("THREADS", if chunks > TILE { chunks } else { self.groups() * chunks })
            .number("VALUES_OF_CHUNK", lanes * values.chunk_words())
            .word("PUTS", puts)
            .make()
    }
}

/// Statements that go through the scores of a tile, four at a time and the first done with.
fn over_tile(part: &str) -> String {
    (1..TILE / 4).map(|index| Template::part(FILE, part).word("INDEX", index).make()).collect()
}

/// The kernel that puts parts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Join {
    /// Width of a head of values.
    pub value_dim: usize,
    /// Whether the parts are of values that were rotated, as codes of 8 bits are.
    pub eight_bit: bool,
}

impl Join {
    /// Threads of a workgroup: one for each value, as far as every device has so many.
    fn threads(self) -> usize {
        self.value_dim.next_power_of_two().clamp(TILE, 256)
    }

    /// The text of the kernel.
    pub fn wgsl(self) -> String {
        let Join { value_dim, eight_bit } = self;
        let file = include_str!("join.wgsl");
        let threads = self.threads();
        let each = |part: &str| -> String {
            let statement = |column: usize| {
                Template::part(file, part)
                    .when("EIGHT_BIT", eight_bit)
                    .word("COLUMN", column)
                    .number("FIRST", column * threads)
                    .number("WIDTH", value_dim)
                    .number("LAST_VALUE", value_dim - 1)
                    .make()
            };
            (0..value_dim.div_ceil(threads)).map(statement).collect()
        };
        Template::new(file)
            .when("EIGHT_BIT", eight_bit)
            .number("THREADS", threads)
            .number("HALF", threads / 2)
            .number("WIDTH", value_dim)
            .number("ROW", value_dim + 2)
            .number("LAST", value_dim + 1)
            .word("SUMS", each("sum"))
            .word("ADD", each("add"))
            .word("PUT", each("put"))
            .word("HADAMARD", if eight_bit { rotate("head", value_dim, threads) } else { String::new() })
            .make()
    }
}
