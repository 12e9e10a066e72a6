//! The state of a recurrent mixer, over all tokens of a step: the rules of Mamba-1 (arXiv 2312.00752), of Mamba-2 (arXiv 2405.21060) and
//! the gated delta rule (arXiv 2412.06464), as `qsf_cpu` states them. A workgroup has some rows of the state of a head.

use super::template::Template;

const FILE: &str = include_str!("recurrence.wgsl");

/// Most columns of a thread: what it keeps of a state is in registers.
const MOST_COLUMNS: usize = 16;
/// Most threads that share a row.
const MOST_PARTS: usize = 8;
/// Least threads of a workgroup.
const LEAST_THREADS: usize = 64;
/// Rows of a workgroup, where they make as many threads.
const BLOCK: usize = 32;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recurrence {
    /// What becomes of a state.
    pub rule: Rule,
    /// Heads, each with a state.
    pub heads: usize,
    /// Rows of a state: values of a head.
    pub rows: usize,
    /// Columns of a state.
    pub columns: usize,
    /// Groups of heads that share what belongs to columns.
    pub groups: usize,
}

/// What becomes of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Mamba-1: the one head has a row for each channel, which has a step of its own.
    Selective,
    /// Mamba-2.
    StateSpace,
    /// The gated delta rule.
    Delta {
        /// Whether each column decays for itself.
        by_channel: bool,
    },
}

impl Recurrence {
    /// Workgroups that share the rows of a head.
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(self.block())
    }

    /// Threads that share a row.
    fn parts(&self) -> usize {
        self.columns.div_ceil(MOST_COLUMNS).next_power_of_two().min(MOST_PARTS)
    }

    /// Columns of a thread.
    fn columns_of_thread(&self) -> usize {
        self.columns.div_ceil(self.parts())
    }

    /// Sums over the columns of a row.
    fn sums(&self) -> &'static [&'static str] {
        match self.rule {
            Rule::Selective | Rule::StateSpace => &["seen"],
            Rule::Delta { .. } => &["sk", "sq", "kq", "kk", "qq"],
        }
    }

    /// Rows of a workgroup.
    fn block(&self) -> usize {
        BLOCK.max(LEAST_THREADS / self.parts())
    }

    fn threads(&self) -> usize {
        self.block() * self.parts()
    }

    /// The text of the kernel.
    pub fn wgsl(self) -> String {
        let rates = match self.rule {
            Rule::Selective => self.each("rate"),
            Rule::StateSpace | Rule::Delta { .. } => String::new(),
        };
        let (token, column) = match self.rule {
            Rule::Selective => ("selective", "selective_column"),
            Rule::StateSpace => ("state_space", "state_space_column"),
            Rule::Delta { .. } => ("delta", "delta_column"),
        };
        let token = self
            .numbers(Template::part(FILE, token))
            .word("COLUMNS_READ", self.each(column))
            .word("TOTALS", self.totals())
            .word("CHANGES", self.each("delta_change"))
            .float("SCALE", 1.0 / (self.columns as f32).sqrt())
            .make();
        self.numbers(Template::new(FILE))
            .when("PARTS", self.parts() > 1)
            .number("SUMS", 2 * self.sums().len() * self.threads())
            .number("HALF", self.sums().len() * self.threads())
            .word("SOFTPLUS", include_str!("softplus.wgsl"))
            .word("LOAD", self.each("place") + &rates)
            .word("TOKEN", token)
            .word("STORE", self.each("store"))
            .make()
    }

    fn numbers(&self, text: Template) -> Template {
        let by_channel = self.rule == Rule::Delta { by_channel: true };
        text.when("BY_CHANNEL", by_channel)
            .when("GUARDED", self.parts() * self.columns_of_thread() != self.columns)
            .number("BLOCK", self.block())
            .number("THREADS", self.threads())
            .number("HEADS", self.heads)
            .number("ROWS", self.rows)
            .number("COLUMNS", self.columns)
            .number("COLUMNS_OF_THREAD", self.columns_of_thread())
            .number("LAST", self.columns - 1)
            .number("GROUPS", self.groups)
            .number("SHARING", self.heads / self.groups)
    }

    /// A statement for each column of a thread.
    fn each(&self, part: &str) -> String {
        let statement = self.numbers(Template::part(FILE, part));
        (0..self.columns_of_thread()).map(|column| statement.clone().word("COLUMN", column).make()).collect()
    }

    /// Statements that add up, for every thread of a row, what all of them have.
    fn totals(&self) -> String {
        let (parts, threads) = (self.parts(), self.threads());
        let name_of = |part: &str, index: usize, name: &str| {
            self.numbers(Template::part(FILE, part)).word("INDEX", index).word("NAME", name)
        };
        let total =
            |index: usize, name: &str, sum: String| name_of("total", index, name).word("SUM", sum).make();
        let named = || self.sums().iter().enumerate();
        if parts == 1 {
            return named().map(|(index, name)| total(index, name, (*name).to_owned())).collect();
        }
        let shared: String = named().map(|(index, name)| name_of("share", index, name).make()).collect();
        let added = |index: usize| -> String {
            let of_part =
                |part: usize| format!("sums[half + {}u + lane]", index * threads + part * self.block());
            (0..parts).map(of_part).collect::<Vec<_>>().join(" + ")
        };
        let totals: String = named().map(|(index, name)| total(index, name, added(index))).collect();
        shared + "workgroupBarrier();\n" + &totals
    }
}
