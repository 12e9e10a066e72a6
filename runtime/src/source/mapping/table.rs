//! Tables of tensor names: one line says what a stored tensor is and how it lies there.

use qsf_format::{ModelConfig, Residual, TensorKind};

/// The tensor names of an architecture in one kind of source.
#[derive(Debug, Clone, Copy)]
pub struct NameTable {
    /// One rule per stored tensor. Several may give the same kind where sources differ; a model that has two of those
    /// is refused.
    pub rules: &'static [NameRule],
    /// Ends of names that are left out: constants that some versions saved. With a dot at its end, what names begin with:
    /// parts beside the model that predict more than one token.
    pub ignored: &'static [&'static str],
}

/// What one stored tensor is.
#[derive(Debug, Clone, Copy)]
pub struct NameRule {
    /// The name without the prefix of the source; `{}` stands for the layer, `{e}` for the expert.
    pub name: &'static str,
    /// What it holds: one kind, or several together.
    pub kinds: &'static [TensorKind],
    /// How.
    pub form: Form,
}

impl NameRule {
    /// Whether a model of this configuration has the name: norms of parts that stand side by side, each with its own, have names of
    /// their own, in tables of models that can do without.
    pub fn suits(&self, config: &ModelConfig) -> bool {
        let side_by_side = self.name.contains(".ln_attn.") || self.name.contains(".ln_mlp.");
        !side_by_side || config.residual == Residual::Parallel
    }
}

/// How a tensor is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Outputs x inputs, kinds one below another; vectors one behind another. Experts one below another, or of one
    /// expert where the name has `{e}`.
    Rows,
    /// Inputs x outputs.
    Transposed,
    /// The kinds (query, key, value) alternate with each head.
    HeadByHead,
    /// The kinds (query, key, value) alternate with each head of keys: all its queries, then the key, then the value.
    GroupByGroup,
    /// The kinds (query, value, key) alternate with each of four shards, and rows of queries and keys as in
    /// [`Form::NeighbouringPairs`].
    Sharded,
    /// The kinds (gate, up) alternate with each expert.
    ExpertByExpert,
    /// The kinds (gate, up) alternate with each row; experts one below another.
    RowByRow,
    /// Experts one below another, each inputs x outputs, kinds one behind another.
    TransposedExperts,
    /// Experts one below another, each inputs x outputs; the kinds (gate, up) alternate with each output.
    TransposedRowByRow,
    /// Rows of each rotated part of a head of queries and keys alternate between its first and second half, for rotation of neighbouring
    /// pairs; kinds one below another.
    NeighbouringPairs,
    /// Rows of whole heads of queries and keys alternate between their first and second half, even where only a part is rotated.
    WholeHeadPairs,
    /// The last rows of each head are rotated, those of the first half before those of the second.
    RotatedLast,
    /// The same, but rows of first and second half alternate.
    RotatedLastPairs,
    /// Of each head the rows that make its key of a latent, then those that make its value: kinds [`AttnKUp`] and [`AttnVUp`].
    ///
    /// [`AttnKUp`]: TensorKind::AttnKUp
    /// [`AttnVUp`]: TensorKind::AttnVUp
    KeysAndValuesOfLatents,
    /// So many rows at the start mean nothing.
    Skip(usize),
    /// Filters of a convolution, channels x 1 x taps or channels x taps.
    Filters,
    /// Some of the outputs of the one kind: first those of the first rule of this form for it, and so on. Matrices as [`Form::Rows`],
    /// vectors and filters with their values one behind another.
    Piece,
    /// Each value v stands for `-e^v`.
    MinusExp,
    /// The kinds alternate with each key head of a gated delta rule: queries, keys and values together, then gates; or rates, then
    /// steps.
    KeyHeadByKeyHead,
    /// Value heads of a gated delta rule stand in another order: the first of each key head, then the second of each, and so on.
    /// Matrices and vectors of one kind; of what the mixer gives, the inputs.
    TiledHeads,
    /// Each value is 1 too large: a norm's 1 + w where the model stores w.
    PlusOne,
}

/// A tensor of one kind, outputs x inputs.
pub const fn rows(name: &'static str, kinds: &'static [TensorKind]) -> NameRule {
    NameRule { name, kinds, form: Form::Rows }
}

/// A tensor in another form.
pub const fn formed(name: &'static str, kinds: &'static [TensorKind], form: Form) -> NameRule {
    NameRule { name, kinds, form }
}

/// The rules of several groups, as one table: architectures have most of their names in common. `N` is the number of all
/// rules, as [`join_rules!`](crate::source::mapping::join_rules) counts it.
pub const fn join<const N: usize>(groups: &[&[NameRule]]) -> [NameRule; N] {
    let mut all = [rows("", &[]); N];
    let (mut group, mut at) = (0, 0);
    while group < groups.len() {
        let mut rule = 0;
        while rule < groups[group].len() {
            all[at] = groups[group][rule];
            rule += 1;
            at += 1;
        }
        group += 1;
    }
    assert!(at == N, "as many rules as were counted");
    all
}

/// `join_rules!(A, B)`: the rules of the groups `A` and `B` as one `&'static [NameRule]`.
macro_rules! join_rules {
    ($($group:expr),+ $(,)?) => {{
        const GROUPS: &[&[$crate::source::mapping::NameRule]] = &[$($group),+];
        const COUNT: usize = 0 $(+ $group.len())+;
        const ALL: [$crate::source::mapping::NameRule; COUNT] = $crate::source::mapping::join(GROUPS);
        &ALL
    }};
}

pub(crate) use join_rules;
