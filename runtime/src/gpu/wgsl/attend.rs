//! Attention of one query over a part of the positions, and the parts put together (flash attention, arXiv 2205.14135, with
//! the parts of arXiv 2311.01282). Scores are never stored: a running maximum and sum go along.
//!
//! For scores, each thread of a workgroup has a position. For values, it has a chunk of a head, which one load gets, of every few positions; sums of
//! those are added at the end.
//!
//! With codes of 8 bits, what comes out of the sums is rotated as the values are, and is turned back when it is final.

use std::fmt::Write;

use super::eight_bit::{GROUP, rotate, row_words, scale_words};

/// Positions that are looked at together, as many as threads.
pub const TILE: usize = 64;
/// Positions of a part.
pub const PART: usize = 128;
/// Loads that are under way at once.
const LOADS: usize = 8;
/// Words of codes that share a scale.
const GROUP_WORDS: usize = GROUP / 4;
/// What a scale, which is the value of code 127, is multiplied with to be that of code 1.
const ONE: f32 = 1.0 / 127.0;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attend {
    /// Width of a head, even.
    pub head_dim: usize,
    /// Whether scores are capped at `job.softcap`.
    pub softcap: bool,
    /// Whether scores fall with the distance, by slopes at `job.slopes`.
    pub slopes: bool,
    /// Whether there is one part only, of any length: then results are final, in rows `job.stride` apart.
    pub is_whole: bool,
    /// Whether the cache has codes of 8 bits, and their scales; else it has f16.
    pub eight_bit: bool,
}

impl Attend {
    /// Values of a word.
    fn lanes(&self) -> usize {
        if self.eight_bit { 4 } else { 2 }
    }

    /// Words of a head.
    fn words(&self) -> usize {
        if self.eight_bit { row_words(self.head_dim) } else { self.head_dim / 2 }
    }

    /// Words of a chunk.
    fn chunk_words(&self) -> usize {
        [4, 2, 1].into_iter().find(|words| self.words().is_multiple_of(*words)).unwrap_or(1)
    }

    /// Chunks of a head.
    fn chunks(&self) -> usize {
        self.words() / self.chunk_words()
    }

    /// Values of a head with what is behind the last one in its word.
    fn width(&self) -> usize {
        self.words() * self.lanes()
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
        (TILE / self.chunks()).max(1)
    }

    /// The text of the kernel. A workgroup is a head (x), a part (y) and a token (z). It writes `head_dim` values, the maximum and
    /// the sum.
    pub fn wgsl(&self) -> String {
        let Attend { head_dim, is_whole, eight_bit, .. } = *self;
        let (words, chunks, groups) = (self.words(), self.chunks(), self.groups());
        let chunk = ["u32", "vec2<u32>", "vec4<u32>"][self.chunk_words() / 2];
        let range = if is_whole {
            "let first = seen; let end = position + 1u;".to_owned()
        } else {
            format!(
                "let first = max(seen, group.y * {PART}u); let end = min(position + 1u, (group.y + 1u) * {PART}u);"
            )
        };
        let mut out = format!(
            "struct Job {{ heads: u32, kv_heads: u32, position: u32, context: u32, window: u32, scale: f32, softcap: f32, slopes: u32, stride: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> keys: array<{chunk}>;
@group(0) @binding(2) var<storage, read> values: array<{chunk}>;
@group(0) @binding(3) var<storage, read_write> parts: array<f32>;
@group(0) @binding(4) var<storage, read> vectors: array<f32>;
{scales}var<workgroup> query: array<{vector}, {words}>;
var<workgroup> scores: array<vec4<f32>, {quads}>;
var<workgroup> sums: array<f32, {sums}>;
@compute @workgroup_size({TILE})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let head = group.x; let token = group.z; let position = job.position + token;
let kv = head / (job.heads / job.kv_heads);
let begin = (token * (job.heads + 2u * job.kv_heads) + head) * {head_dim}u;
for (var i = lid; i < {words}u; i += {TILE}u) {{ query[i] = {query} * job.scale; }}
let seen = select(0u, position + 1u - job.window, position + 1u > job.window);
{range}
let base = kv * job.context * {chunks}u;
var largest = -1e30; var total = 0.0;
",
            quads = TILE / 4,
            sums = groups * self.width(),
            vector = self.vector(),
            scales = if eight_bit { "@group(0) @binding(5) var<storage, read> scales: array<u32>;\n" } else { "" },
            query = if eight_bit {
                // What is read behind the end of a head meets zeros.
                "vec4<f32>(qkv[begin + 4u * i], qkv[begin + 4u * i + 1u], qkv[begin + 4u * i + 2u], qkv[begin + 4u * i + 3u])"
            } else {
                "vec2<f32>(qkv[begin + 2u * i], qkv[begin + 2u * i + 1u])"
            },
        );
        for (c, word) in self.columns().flat_map(|c| (0..self.chunk_words()).map(move |word| (c, word))) {
            let _ = writeln!(out, "var o{c}_{word} = {}();", self.vector());
        }
        let _ =
            writeln!(out, "for (var start = first; start < end; start += {TILE}u) {{\nworkgroupBarrier();");
        self.write_scores(&mut out);
        self.write_softmax(&mut out);
        self.write_values(&mut out);
        out += "}\n";
        self.write_outputs(&mut out);
        out += "}\n";
        out
    }

    /// Chunks of a thread: more than one where a head has more chunks than there are threads.
    fn columns(&self) -> std::ops::Range<usize> {
        0..self.chunks().div_ceil(TILE)
    }

    /// The words of a chunk.
    fn words_of(&self, chunk: &str) -> Vec<String> {
        match self.chunk_words() {
            1 => vec![chunk.to_owned()],
            words => ["x", "y", "z", "w"][..words].iter().map(|word| format!("{chunk}.{word}")).collect(),
        }
    }

    fn write_scores(&self, out: &mut String) {
        let (chunks, words) = (self.chunks(), self.chunk_words());
        let _ = writeln!(
            out,
            "let p = start + lid; var score = -1e30;\nif (p < end) {{\nvar d = {}(); let at = base + p * {chunks}u;",
            self.vector()
        );
        if self.eight_bit {
            let count = scale_words(self.head_dim);
            for i in 0..count {
                let at = format!("(kv * job.context + p) * {count}u + {i}u");
                let _ = writeln!(out, "let s{i} = unpack2x16float(scales[{at}]) * {ONE};");
            }
        }
        for first in (0..chunks).step_by(LOADS) {
            let run = first..chunks.min(first + LOADS);
            for i in run.clone() {
                let _ = writeln!(out, "let k{i} = keys[at + {i}u];");
            }
            for i in run {
                for (j, word) in self.words_of(&format!("k{i}")).iter().enumerate() {
                    let at = i * words + j;
                    let product = format!("query[{at}] * {}", self.unpack(word));
                    if self.eight_bit {
                        write_scaled(out, at, &product);
                    } else {
                        let _ = writeln!(out, "d += {product};");
                    }
                }
            }
        }
        if self.eight_bit {
            let last = (self.words() - 1) / GROUP_WORDS;
            let _ = writeln!(out, "d += e{last} * {};\nscore = d.x + d.y + d.z + d.w;", scale_of(last));
        } else {
            out.push_str("score = d.x + d.y;\n");
        }
        if self.softcap {
            out.push_str("score = job.softcap * tanh(clamp(score / job.softcap, -15.0, 15.0));\n");
        }
        if self.slopes {
            out.push_str("score -= vectors[job.slopes + head] * f32(position - p);\n");
        }
        out.push_str("}\nscores[lid >> 2u][lid & 3u] = score;\nworkgroupBarrier();\n");
    }

    fn write_softmax(&self, out: &mut String) {
        let over_all = |name: &str, combine: &dyn Fn(&str, &str) -> String| {
            let mut text = format!("var {name} = scores[0];\n");
            for i in 1..TILE / 4 {
                let _ = writeln!(text, "{name} = {};", combine(name, &format!("scores[{i}]")));
            }
            text
        };
        out.push_str(&over_all("most", &|a, b| format!("max({a}, {b})")));
        out.push_str(
            "let now = max(largest, max(max(most.x, most.y), max(most.z, most.w))); let factor = exp(largest - now); largest = now;
workgroupBarrier();
scores[lid >> 2u][lid & 3u] = select(0.0, exp(score - now), p < end);
workgroupBarrier();
",
        );
        out.push_str(&over_all("all", &|a, b| format!("{a} + {b}")));
        out.push_str("total = total * factor + all.x + all.y + all.z + all.w;\n");
    }

    fn write_values(&self, out: &mut String) {
        let (chunks, groups) = (self.chunks(), self.groups());
        out.push_str("let last = min(63u, end - start - 1u);\n");
        for c in self.columns() {
            for word in 0..self.chunk_words() {
                let _ = writeln!(out, "o{c}_{word} *= factor;");
            }
            // Positions behind the last one weigh nothing, and are read as it.
            let (threads, mine) = if chunks > TILE {
                (chunks, format!("lid + {}u", c * TILE))
            } else {
                (groups * chunks, format!("lid % {chunks}u"))
            };
            let _ = writeln!(
                out,
                "if (lid + {}u < {threads}u) {{ let mine = base + {mine}; let g = {};",
                c * TILE,
                self.group()
            );
            if self.eight_bit {
                // Scales of values follow those of keys. A chunk has one, in one half of a word.
                let _ = writeln!(
                    out,
                    "let f = ({mine}) / {}u; let h = (job.kv_heads + kv) * job.context * {}u + (f >> 1u); let half_at = (f & 1u) * 16u;",
                    GROUP_WORDS / self.chunk_words(),
                    scale_words(self.head_dim)
                );
            }
            let turns = TILE.div_ceil(groups);
            for first in (0..turns).step_by(LOADS) {
                let run = first..turns.min(first + LOADS);
                for i in run.clone() {
                    let _ = writeln!(
                        out,
                        "let p{i} = g + {}u; let v{i} = values[mine + (start + min(p{i}, last)) * {chunks}u];",
                        i * groups
                    );
                    if self.eight_bit {
                        let count = scale_words(self.head_dim);
                        let _ = writeln!(out, "let f{i} = scales[h + (start + min(p{i}, last)) * {count}u];");
                    }
                }
                for i in run {
                    let within = if (i + 1) * groups > TILE {
                        format!("select(0.0, scores[min(p{i}, 63u) >> 2u][p{i} & 3u], p{i} < {TILE}u)")
                    } else {
                        format!("scores[p{i} >> 2u][p{i} & 3u]")
                    };
                    if self.eight_bit {
                        let scale = format!("unpack2x16float(f{i} >> half_at).x * {ONE}");
                        let _ = writeln!(out, "let w{i} = {within} * ({scale});");
                    } else {
                        let _ = writeln!(out, "let w{i} = {within};");
                    }
                    for (word, text) in self.words_of(&format!("v{i}")).iter().enumerate() {
                        let _ = writeln!(out, "o{c}_{word} += w{i} * {};", self.unpack(text));
                    }
                }
            }
            out.push_str("}\n");
        }
    }

    /// The group of a thread.
    fn group(&self) -> String {
        if self.chunks() > TILE { "0u".into() } else { format!("lid / {}u", self.chunks()) }
    }

    fn write_outputs(&self, out: &mut String) {
        let Attend { head_dim, is_whole, eight_bit, .. } = *self;
        let (chunks, groups, words) = (self.chunks(), self.groups(), self.chunk_words());
        let lanes = self.lanes();
        for c in self.columns() {
            let threads = if chunks > TILE { chunks } else { groups * chunks };
            let _ = writeln!(
                out,
                "if (lid + {0}u < {threads}u) {{ let to = (lid + {0}u) * {1}u;",
                c * TILE,
                lanes * words
            );
            for word in 0..words {
                let each = ["x", "y", "z", "w"][..lanes].iter().zip(lanes * word..);
                let each = each.map(|(lane, at)| format!("sums[to + {at}u] = o{c}_{word}.{lane};"));
                let _ = writeln!(out, "{}", each.collect::<Vec<_>>().join(" "));
            }
            out.push_str("}\n");
        }
        let to = if is_whole {
            format!("token * job.stride + head * {head_dim}u; let share = 1.0 / total")
        } else {
            format!("((token * job.heads + head) * groups.y + group.y) * {}u; let share = 1.0", head_dim + 2)
        };
        let each: Vec<String> = (0..groups).map(|g| format!("sums[{}u + i]", g * self.width())).collect();
        let _ = writeln!(out, "workgroupBarrier();\nlet to = {to};");
        let mut each = format!("({})", each.join(" + "));
        if is_whole && eight_bit {
            let _ = writeln!(
                out,
                "for (var i = lid; i < {head_dim}u; i += {TILE}u) {{ sums[i] = {each}; }}\nworkgroupBarrier();"
            );
            out.push_str(&rotate("sums", head_dim, TILE));
            each = "sums[i]".to_owned();
        }
        let _ = writeln!(
            out,
            "for (var i = lid; i < {head_dim}u; i += {TILE}u) {{ parts[to + i] = {each} * share; }}"
        );
        if !is_whole {
            let _ = writeln!(
                out,
                "if (lid == 0u) {{ parts[to + {head_dim}u] = largest; parts[to + {}u] = total; }}",
                head_dim + 1
            );
        }
    }
}

/// The scale of a group of keys.
fn scale_of(group: usize) -> String {
    format!("s{}.{}", group / 2, ["x", "y"][group % 2])
}

/// Statements that add `product`, of word `at` of a head, to the sum of its group; the sum of the group before is done with then.
fn write_scaled(out: &mut String, at: usize, product: &str) {
    let group = at / GROUP_WORDS;
    if !at.is_multiple_of(GROUP_WORDS) {
        let _ = writeln!(out, "e{group} += {product};");
        return;
    }
    if group > 0 {
        let _ = writeln!(out, "d += e{} * {};", group - 1, scale_of(group - 1));
    }
    let _ = writeln!(out, "var e{group} = {product};");
}

/// The kernel that puts parts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Join {
    /// Width of a head.
    pub head_dim: usize,
    /// Whether the parts are of values that were rotated, as codes of 8 bits are.
    pub eight_bit: bool,
}

impl Join {
    /// The text of the kernel: a workgroup is a head (x) of a token (y).
    pub fn wgsl(self) -> String {
        let Join { head_dim, eight_bit } = self;
        let row = head_dim + 2;
        let (array, final_place, rotation) = if eight_bit {
            let write = format!(
                "for (var i = lid; i < {head_dim}u; i += {TILE}u) {{ attended[group.y * job.stride + group.x * {head_dim}u + i] = head[i]; }}\n"
            );
            (
                format!("var<workgroup> head: array<f32, {head_dim}>;\n"),
                "head[i]".to_owned(),
                format!("\nworkgroupBarrier();\n{}{write}", rotate("head", head_dim, TILE)),
            )
        } else {
            let place = format!("attended[group.y * job.stride + group.x * {head_dim}u + i]");
            (String::new(), place, " ".to_owned())
        };
        format!(
            "struct Job {{ heads: u32, parts: u32, stride: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read_write> attended: array<f32>;
{array}@compute @workgroup_size({TILE})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let unit = group.y * job.heads + group.x; let at = unit * job.parts * {row}u;
var largest = -1e30;
for (var p = 0u; p < job.parts; p++) {{ largest = max(largest, parts[at + p * {row}u + {head_dim}u]); }}
var total = 0.0;
for (var p = 0u; p < job.parts; p++) {{ let o = at + p * {row}u; total += parts[o + {last}u] * exp(parts[o + {head_dim}u] - largest); }}
for (var i = lid; i < {head_dim}u; i += {TILE}u) {{
var s = 0.0;
for (var p = 0u; p < job.parts; p++) {{ let o = at + p * {row}u; s += parts[o + i] * exp(parts[o + {head_dim}u] - largest); }}
{final_place} = s / total;
}}{rotation}}}
",
            last = head_dim + 1
        )
    }
}
