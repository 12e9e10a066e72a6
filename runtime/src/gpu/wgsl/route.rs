//! Which experts a token goes through. A workgroup has a token.

use qsf_format::{Experts, RouterScore};

use super::template::Template;

/// Threads of a workgroup.
const THREADS: usize = 64;
/// More groups do not fit into the memory of a workgroup.
pub const MOST_GROUPS: u32 = 1024;

/// The kernel that chooses experts. Of each token it writes, for each choice, the expert and then the bits of its weight. Of equal ones,
/// the first is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// How outputs of the router become scores.
    pub score: RouterScore,
    /// Whether a bias is added to the scores where experts are chosen.
    pub bias: bool,
    /// Groups of experts that the best are chosen of first; 0: none.
    pub groups: usize,
    /// Whether weights are divided by their sum.
    pub normalize: bool,
    /// Whether each expert has a factor of its weight.
    pub factors: bool,
}

impl Route {
    /// The kernel of a mixture, and its job with `bias` and `factors` among the vectors.
    pub fn of(experts: &Experts, bias: Option<u32>, factors: Option<u32>) -> (Route, [u32; 9]) {
        let Experts {
            count,
            used,
            normalize_weights,
            score,
            choice_bias: _,
            groups,
            margin,
            weight_scale,
            // `step/experts`, the buffers of `state`.
            ffn: _,
            weigh_inputs: _,
            // Weights of the layers say it.
            dense_layers: _,
            shared: _,
            beside_ffn: _,
        } = experts;
        let of_groups = groups.map_or([0; 3], |groups| [groups.count, groups.used, groups.best]);
        let kernel = Route {
            score: *score,
            bias: bias.is_some(),
            groups: of_groups[0] as usize,
            normalize: *normalize_weights,
            factors: factors.is_some(),
        };
        let [group_count, used_groups, best] = of_groups;
        let scale = weight_scale.unwrap_or(1.0).to_bits();
        let margin = margin.unwrap_or_default().to_bits();
        let (bias, factors) = (bias.unwrap_or(0), factors.unwrap_or(0));
        (kernel, [*count, *used, bias, factors, scale, margin, group_count, used_groups, best])
    }

    /// The text of the kernel.
    pub fn wgsl(self) -> String {
        Template::new(include_str!("route.wgsl"))
            .number("THREADS", THREADS)
            .number("HALF", THREADS / 2)
            .number("GROUP_COUNT", self.groups)
            .when("SIGMOID", self.score == RouterScore::Sigmoid)
            .when("SOFTMAX", self.score == RouterScore::Softmax)
            .when("MIXER", self.score == RouterScore::SparseMixer)
            .when("PLAIN", self.score != RouterScore::Sigmoid && !self.bias && self.groups == 0)
            .when("BIAS", self.bias)
            .when("GROUPS", self.groups > 0)
            .when("FACTORS", self.factors)
            .word("NORMALIZE", self.normalize)
            .make()
    }
}
