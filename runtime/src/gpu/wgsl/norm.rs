//! The residual stream: what is added to it, and its norms. A workgroup has the row of a token.

use qsf_format::{NormKind, Residual};

/// Most threads of a workgroup.
const MAX_THREADS: usize = 1024;
/// Threads that add up what the others have.
const ADDERS: usize = 32;

/// Threads of a workgroup for rows of `width` values: as many as there are, for one workgroup has only itself to hide the time that memory
/// takes.
pub fn threads(width: usize, max_threads: usize) -> usize {
    width.next_power_of_two().clamp(64, MAX_THREADS.min(max_threads.max(64)))
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddAndNorm {
    /// Which statistics are removed.
    pub kind: NormKind,
    /// Whether something is added, and normalized before: gains at `job.added`.
    pub added: Added,
    /// What is normalized: the stream with what was added, the stream before that, or nothing.
    pub residual: Residual,
    /// Whether it is normalized (gains at `job.next`) or copied.
    pub next: bool,
    /// Whether norms have biases, which stand behind their gains.
    pub bias: bool,
    /// Values of a row.
    pub width: usize,
    /// Threads of a workgroup, see [`threads`].
    pub threads: usize,
}

/// What is added to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Added {
    /// Nothing.
    Nothing,
    /// What is there.
    Plain,
    /// What is there, normalized.
    Normalized,
}

impl AddAndNorm {
    /// The text of the kernel. Rows of what is normed are `job.stride` apart. A thread has its values in registers all along.
    pub fn wgsl(&self) -> String {
        let AddAndNorm { width, threads, .. } = *self;
        let rows = Rows { width, threads, kind: self.kind, bias: self.bias };
        let mut out = format!(
            "struct Job {{ next: u32, added: u32, epsilon: f32, stride: u32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(1) var<storage, read> projected: array<f32>;
@group(0) @binding(2) var<storage, read_write> normed: array<f32>;
@group(0) @binding(3) var<storage, read> vectors: array<f32>;
{}@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let at = group.x * {width}u;
",
            rows.sum()
        );
        out += &rows.each(|i, at| format!("let h{i} = hidden[at + {at}];"));
        if self.added != Added::Nothing {
            out += &rows.each(|i, at| format!("let p{i} = projected[at + {at}];"));
        }
        if self.added == Added::Normalized {
            out += &rows.normalized("p", "added", "job.added");
        }
        if self.residual == Residual::Parallel {
            self.write_normed(&rows, "h", &mut out);
        }
        let stream = match self.added {
            Added::Nothing => "h",
            Added::Plain => {
                out += &rows.each(|i, _| format!("let s{i} = h{i} + p{i};"));
                "s"
            }
            Added::Normalized => {
                out += &rows.each(|i, _| format!("let s{i} = h{i} + added{i};"));
                "s"
            }
        };
        if self.added != Added::Nothing {
            out += &rows.store(|i, at| format!("hidden[at + {at}] = s{i};"));
        }
        if self.residual == Residual::Sequential {
            self.write_normed(&rows, stream, &mut out);
        }
        out += "}\n";
        out
    }

    fn write_normed(&self, rows: &Rows, from: &str, out: &mut String) {
        let mut name = from;
        if self.next {
            *out += &rows.normalized(from, "next", "job.next");
            name = "next";
        }
        *out += &rows.store(|i, at| format!("normed[group.x * job.stride + {at}] = {name}{i};"));
    }
}

/// A part of each row is normalized where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NormInPlace {
    /// Which statistics are removed.
    pub kind: NormKind,
    /// Whether there is a bias, behind the gains.
    pub bias: bool,
    /// Values of the part.
    pub width: usize,
    /// Threads of a workgroup, see [`threads`].
    pub threads: usize,
}

impl NormInPlace {
    /// The text of the kernel. Rows are `job.stride` apart, and the part begins at `job.first` in its row.
    pub fn wgsl(self) -> String {
        let NormInPlace { kind, bias, width, threads } = self;
        let rows = Rows { width, threads, kind, bias };
        format!(
            "struct Job {{ stride: u32, first: u32, gains: u32, epsilon: f32 }}
var<immediate> job: Job;
@group(0) @binding(0) var<storage, read_write> rows: array<f32>;
@group(0) @binding(1) var<storage, read> vectors: array<f32>;
{}@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {{
let at = group.x * job.stride + job.first;
{}{}{}}}
",
            rows.sum(),
            rows.each(|i, at| format!("let v{i} = rows[at + {at}];")),
            rows.normalized("v", "n", "job.gains"),
            rows.store(|i, at| format!("rows[at + {at}] = n{i};"))
        )
    }
}

/// Rows of which each thread has some values: variables with a name and a number.
struct Rows {
    width: usize,
    threads: usize,
    kind: NormKind,
    bias: bool,
}

impl Rows {
    /// Values of a thread.
    fn count(&self) -> usize {
        self.width.div_ceil(self.threads)
    }

    /// Statements for the values of a thread, by number and place. Those behind the row are read as its last, and weigh nothing.
    fn each(&self, statement: impl Fn(usize, &str) -> String) -> String {
        (0..self.count()).map(|i| statement(i, &self.place(i)) + "\n").collect()
    }

    /// The same, for writing: nothing behind the row.
    fn store(&self, statement: impl Fn(usize, &str) -> String) -> String {
        self.each(|i, _| {
            let place = format!("(lid + {}u)", i * self.threads);
            let guard =
                if self.is_whole(i) { String::new() } else { format!("if ({place} < {}u) ", self.width) };
            format!("{guard}{{ {} }}", statement(i, &place))
        })
    }

    fn is_whole(&self, i: usize) -> bool {
        (i + 1) * self.threads <= self.width
    }

    fn place(&self, i: usize) -> String {
        let place = format!("(lid + {}u)", i * self.threads);
        if self.is_whole(i) { place } else { format!("min({place}, {}u)", self.width - 1) }
    }

    /// Statements that make variables `to` of variables `from`, with gains at `gains`.
    fn normalized(&self, from: &str, to: &str, gains: &str) -> String {
        let weight = |i: usize| {
            if self.is_whole(i) {
                String::new()
            } else {
                format!(" * select(0.0, 1.0, lid + {}u < {}u)", i * self.threads, self.width)
            }
        };
        let total = |each: &dyn Fn(usize) -> String| {
            let terms: Vec<String> = (0..self.count()).map(|i| each(i) + &weight(i)).collect();
            format!("sum(lid, {}) / {:?}", terms.join(" + "), self.width as f32)
        };
        let mut out = match self.kind {
            NormKind::RmsNorm => {
                let squares = total(&|i| format!("{from}{i} * {from}{i}"));
                format!("let {to}_factor = inverseSqrt({squares} + job.epsilon);\n")
            }
            NormKind::LayerNorm => {
                let mean = total(&|i| format!("{from}{i}"));
                let mut text = format!("let {to}_mean = {mean};\n");
                text += &self.each(|i, _| format!("let {to}_d{i} = {from}{i} - {to}_mean;"));
                let squares = total(&|i| format!("{to}_d{i} * {to}_d{i}"));
                text + &format!("let {to}_factor = inverseSqrt({squares} + job.epsilon);\n")
            }
        };
        out += &self.each(|i, at| {
            let value = match self.kind {
                NormKind::RmsNorm => format!("{from}{i}"),
                NormKind::LayerNorm => format!("{to}_d{i}"),
            };
            let bias = if self.bias {
                format!(" + vectors[{gains} + {}u + {at}]", self.width)
            } else {
                String::new()
            };
            format!("let {to}{i} = {value} * {to}_factor * vectors[{gains} + {at}]{bias};")
        });
        out
    }

    /// A function that adds a value of every thread up, for every thread, always in the same order.
    fn sum(&self) -> String {
        let threads = self.threads;
        let each: Vec<String> =
            (0..threads / ADDERS).map(|i| format!("part[lid + {}u]", i * ADDERS)).collect();
        let all: Vec<String> = (0..ADDERS).map(|i| format!("some[{i}u]")).collect();
        format!(
            "var<workgroup> part: array<f32, {threads}>;
var<workgroup> some: array<f32, {ADDERS}>;
fn sum(lid: u32, value: f32) -> f32 {{
workgroupBarrier();
part[lid] = value;
workgroupBarrier();
if (lid < {ADDERS}u) {{ some[lid] = {}; }}
workgroupBarrier();
return {};
}}
",
            each.join(" + "),
            all.join(" + ")
        )
    }
}
