//! The residual stream: what is added to it, and its norms. A workgroup has the row of a token.

use qsf_format::{NormKind, Residual};

use super::template::Template;

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
    /// Whether what is added is multiplied, with `job.given` before its norm and with `job.share` behind it, and the sum with
    /// `job.scale`.
    pub scaled: bool,
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
    /// The text of the kernel.
    pub fn wgsl(&self) -> String {
        let AddAndNorm { width, threads, added, residual, .. } = *self;
        let file = include_str!("add_and_norm.wgsl");
        let rows = Rows { width, threads, kind: self.kind, bias: self.bias };
        let none = String::new;
        let adds = added != Added::Nothing;
        let stream = if adds { "s" } else { "h" };
        let mut load_added = none();
        if adds {
            let load = Template::part(file, "load_added").when("SCALED", self.scaled);
            load_added += &rows.each(load, |_, text| text);
        }
        if added == Added::Normalized {
            load_added += &rows.normalized("p", "added", "job.added");
        }
        let mut add = none();
        if adds {
            let value = if added == Added::Normalized { "added" } else { "p" };
            let sum = Template::part(file, "add").when("SCALED", self.scaled);
            add += &rows.each(sum, |i, text| text.word("VALUE", format!("{value}{i}")));
            add += &rows.store("hidden", "at", "s");
        }
        let when = |wanted, from| if residual == wanted { self.normed(&rows, from) } else { none() };
        Template::new(file)
            .number("THREADS", threads)
            .number("WIDTH", width)
            .word("SUM", rows.sum())
            .word("LOAD", rows.each(Template::part(file, "load"), |_, text| text))
            .word("LOAD_ADDED", load_added)
            .word("NORM_OF_STREAM", when(Residual::Parallel, "h"))
            .word("ADD", add)
            .word("NORM_OF_SUM", when(Residual::Sequential, stream))
            .make()
    }

    fn normed(&self, rows: &Rows, from: &str) -> String {
        let base = "group.x * job.stride";
        if self.next {
            rows.normalized(from, "next", "job.next") + &rows.store("normed", base, "next")
        } else {
            rows.store("normed", base, from)
        }
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
    /// The text of the kernel.
    pub fn wgsl(self) -> String {
        let NormInPlace { kind, bias, width, threads } = self;
        let file = include_str!("norm_in_place.wgsl");
        let rows = Rows { width, threads, kind, bias };
        Template::new(file)
            .number("THREADS", threads)
            .number("WIDTH", width)
            .word("SUM", rows.sum())
            .word("LOAD", rows.each(Template::part(file, "load"), |_, text| text))
            .word("NORM", rows.normalized("v", "n", "job.gains"))
            .word("STORE", rows.store("rows", "at", "n"))
            .make()
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
    fn part(&self, name: &str) -> Template {
        Template::part(include_str!("norm_rows.wgsl"), name)
            .number("THREADS", self.threads)
            .number("WIDTH", self.width)
            .float("MEAN_OF", self.width as f32)
            .when("BIAS", self.bias)
    }

    /// Values of a thread.
    fn count(&self) -> usize {
        self.width.div_ceil(self.threads)
    }

    /// A statement for each value of a thread, with its number and place, and what `fill` sets. Values behind the row are read as its
    /// last, and weigh nothing.
    fn each(&self, statement: Template, fill: impl Fn(usize, Template) -> Template) -> String {
        let text = |i| fill(i, statement.clone().word("INDEX", i).word("PLACE", self.place(i))).make();
        (0..self.count()).map(text).collect()
    }

    /// Statements that write the variables `value` to an array; nothing behind the row.
    fn store(&self, array: &str, base: &str, value: &str) -> String {
        let statement = self.part("store").word("ARRAY", array).word("BASE", base);
        self.each(statement, |i, text| {
            text.when("INSIDE", self.is_whole(i))
                .word("PLACE", format!("(lid + {}u)", i * self.threads))
                .word("VALUE", format!("{value}{i}"))
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
        let part = |name| self.part(name).word("TO", to);
        let squares = |of: &str| self.total(|i| format!("{of}{i} * {of}{i}"));
        let (statistics, centred) = match self.kind {
            NormKind::RmsNorm => (part("rms_factor").word("SQUARES", squares(from)).make(), from.to_owned()),
            NormKind::LayerNorm => {
                let centred = format!("{to}_d");
                let mean = part("mean").word("VALUES", self.total(|i| format!("{from}{i}"))).make();
                let distances =
                    self.each(part("distance"), |i, text| text.word("VALUE", format!("{from}{i}")));
                let factor = part("rms_factor").word("SQUARES", squares(&centred)).make();
                (mean + &distances + &factor, centred)
            }
        };
        let normalized = self.each(part("normalized").word("GAINS", gains), |i, text| {
            text.word("RESULT", format!("{to}{i}")).word("VALUE", format!("{centred}{i}"))
        });
        statistics + &normalized
    }

    /// The sum over the values of a thread, those behind the row left out.
    fn total(&self, term: impl Fn(usize) -> String) -> String {
        let weight = |i: usize| {
            if self.is_whole(i) {
                String::new()
            } else {
                format!(" * select(0.0, 1.0, lid + {}u < {}u)", i * self.threads, self.width)
            }
        };
        let terms: Vec<String> = (0..self.count()).map(|i| term(i) + &weight(i)).collect();
        terms.join(" + ")
    }

    /// A function that adds a value of every thread up, for every thread, always in the same order.
    fn sum(&self) -> String {
        let parts: Vec<String> =
            (0..self.threads / ADDERS).map(|i| format!("part[lid + {}u]", i * ADDERS)).collect();
        let some: Vec<String> = (0..ADDERS).map(|i| format!("some[{i}u]")).collect();
        self.part("sum")
            .number("ADDERS", ADDERS)
            .word("SUM_OF_PARTS", parts.join(" + "))
            .word("SUM_OF_SOME", some.join(" + "))
            .make()
    }
}
