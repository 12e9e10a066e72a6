//! What a decoder relies on in a configuration.

use super::{
    Activation, ExpertGroups, Experts, ModelConfig, NormKind, NormPlacement, PositionConfig, Recurrent,
    RecurrentMixer, Residual, RopeScaling, RouterScore,
};

/// More tokens than the convolution of any model sees.
const MAX_TAPS: u32 = 64;
/// Most values of the state of a layer, 1 GiB.
const MAX_STATE: u128 = 1 << 28;
/// Most rows, and columns, of all matrices of a state.
const MAX_WIDTH: u128 = 1 << 24;

impl ModelConfig {
    /// Checks what a decoder relies on: no zero or absurd dimension, heads that divide, token ids inside the vocabulary,
    /// factors that are numbers, lists of layers that the model has.
    ///
    /// # Errors
    /// A sentence that names the field, its value and what it should be.
    pub fn check(&self) -> Result<(), String> {
        let ModelConfig {
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            ffn,
            vocab,
            max_positions,
            norm,
            // check_position
            position: _,
            // check_factors
            attention_scale: _,
            attention_softcap: _,
            logit_softcap: _,
            embedding_scale: _,
            residual_scale: _,
            logit_scale: _,
            qkv_clip: _,
            query_growth: _,
            // check_combinations
            residual: _,
            gate_clip: _,
            activation: _,
            gated_ffn: _,
            latent,
            full_attention,
            shared_kv,
            per_layer_embedding,
            value_norm: _,
            layer_scale: _,
            streams,
            laurel,
            gate_sparsity,
            sub_norms: _,
            window_chunks: _,
            sliding_window,
            recurrent,
            half_layers,
            multipliers,
            experts,
            bos,
            stop_tokens,
            pad,
            // Any text, any of the enum's values, or either truth is possible.
            architecture: _,
            tied_head: _,
            qk_norm: _,
            attention_sinks: _,
            window_sinks: _,
            value_heads,
            embedding_norm: _,
            attention_gate: _,
        } = self;
        let limits = [
            ("layers", *layers, 1 << 16),
            ("hidden", *hidden, 1 << 20),
            ("heads", *heads, 1 << 16),
            ("kv_heads", *kv_heads, 1 << 16),
            ("head_dim", *head_dim, 1 << 16),
            ("ffn", *ffn, 1 << 24),
            ("vocab", *vocab, 1 << 26),
            ("max_positions", *max_positions, 1 << 30),
        ];
        for (name, value, limit) in limits {
            up_to(name, value, limit)?;
        }
        if !heads.is_multiple_of(*kv_heads) {
            return Err(format!("heads is {heads}, expected a multiple of kv_heads = {kv_heads}"));
        }
        if u64::from(*heads) * u64::from(*head_dim) > 1 << 24 {
            return Err(format!("heads * head_dim is {}, expected at most {}", self.q_rows(), 1 << 24));
        }
        if !(norm.epsilon.is_finite() && norm.epsilon >= 0.0) {
            return Err(format!("norm epsilon is {}, expected a finite number of 0 or more", norm.epsilon));
        }
        for (name, id) in [("bos", *bos), ("pad", *pad)]
            .into_iter()
            .chain(stop_tokens.iter().map(|&t| ("stop_tokens", Some(t))))
        {
            if let Some(id) = id.filter(|id| id >= vocab) {
                return Err(format!("{name} holds token {id}, expected below vocab = {vocab}"));
            }
        }
        self.check_factors()?;
        self.check_combinations()?;
        if let Some(window) = sliding_window {
            up_to("sliding_window size", window.size, 1 << 30)?;
            self.check_layers("sliding_window layers", &window.layers)?;
        }
        recurrent.as_ref().map_or(Ok(()), |recurrent| self.check_recurrent(recurrent))?;
        half_layers.as_ref().map_or(Ok(()), |halves| self.check_half_layers(halves))?;
        multipliers.map_or(Ok(()), |multipliers| self.check_multipliers(&multipliers))?;
        experts.as_ref().map_or(Ok(()), |experts| self.check_experts(experts))?;
        latent.map_or(Ok(()), |latent| self.check_latent(latent))?;
        full_attention.map_or(Ok(()), |full| self.check_full_attention(full))?;
        value_heads.map_or(Ok(()), |values| self.check_value_heads(values))?;
        shared_kv.map_or(Ok(()), |shared| self.check_shared_kv(shared))?;
        per_layer_embedding.map_or(Ok(()), |of_layers| self.check_per_layer_embedding(of_layers))?;
        streams.map_or(Ok(()), |streams| self.check_streams(streams))?;
        laurel.map_or(Ok(()), |rank| self.check_laurel(rank))?;
        self.check_gate_sparsity(gate_sparsity)?;
        self.check_position()
    }

    fn check_factors(&self) -> Result<(), String> {
        for (name, factor) in [
            ("attention_scale", self.attention_scale),
            ("attention_softcap", self.attention_softcap),
            ("logit_softcap", self.logit_softcap),
            ("embedding_scale", self.embedding_scale),
            ("residual_scale", self.residual_scale),
            ("logit_scale", self.logit_scale),
            ("qkv_clip", self.qkv_clip),
            ("query_growth factor", self.query_growth.map(|growth| growth.factor)),
            ("gate_clip alpha", self.gate_clip.map(|clip| clip.alpha)),
            ("gate_clip limit", self.gate_clip.map(|clip| clip.limit)),
        ] {
            factor.map_or(Ok(()), |factor| positive(name, factor))?;
        }
        let positions = self.query_growth.map(|growth| growth.original_positions);
        positions.map_or(Ok(()), |positions| up_to("query_growth original_positions", positions, 1 << 30))
    }

    /// Values of which each is possible, and not all together.
    fn check_combinations(&self) -> Result<(), String> {
        if self.gate_clip.is_some() && (!self.gated_ffn || self.activation != Activation::Silu) {
            return Err("gate_clip is there, which goes with gated_ffn and activation silu only".into());
        }
        if self.window_chunks && self.sliding_window.is_none() {
            return Err("window_chunks are there, which go with sliding_window only".into());
        }
        if self.window_sinks && (!self.attention_sinks || self.sliding_window.is_none()) {
            return Err(
                "window_sinks are there, which go with attention_sinks and sliding_window only".into()
            );
        }
        if self.sub_norms && (self.experts.is_some() || self.latent.is_some() || self.recurrent.is_some()) {
            return Err("sub_norms are there, which go without experts, latent and recurrent only".into());
        }
        if self.activation == Activation::Xielu && (self.gated_ffn || self.experts.is_some()) {
            return Err("activation is xielu, which goes without gated_ffn and experts only".into());
        }
        let beside_ffn = self.experts.as_ref().is_some_and(|experts| experts.beside_ffn);
        if self.norm.placement == NormPlacement::ByMixer && (self.recurrent.is_none() || beside_ffn) {
            return Err(
                "norm placement is by_mixer, which goes with recurrent, and without experts beside_ffn only"
                    .into(),
            );
        }
        if self.residual != Residual::Sequential && self.norm.placement != NormPlacement::Pre {
            return Err("residual is parallel, which goes with norm placement pre only".into());
        }
        Ok(())
    }

    fn check_experts(&self, experts: &Experts) -> Result<(), String> {
        let &Experts {
            count, used, ffn, groups, weight_scale, margin, score, shared, ref dense_layers, ..
        } = experts;
        up_to("experts count", count, 1 << 16)?;
        up_to("experts used", used, count)?;
        up_to("experts ffn", ffn, 1 << 24)?;
        for (name, width) in [("ffn", ffn), ("hidden", self.hidden)] {
            if u64::from(count) * u64::from(width) > u64::from(u32::MAX) {
                return Err(format!("experts count * {name} is beyond 2^32 - 1, the rows of a tensor"));
            }
        }
        if let Some(ExpertGroups { count: groups, used: chosen, best }) = groups {
            up_to("experts groups count", groups, count)?;
            if !count.is_multiple_of(groups) {
                return Err(format!(
                    "experts count is {count}, expected a multiple of groups count = {groups}"
                ));
            }
            up_to("experts groups used", chosen, groups)?;
            up_to("experts groups best", best, count / groups)?;
            if used > chosen * (count / groups) {
                let there = chosen * (count / groups);
                return Err(format!(
                    "experts used is {used}, expected at most {there}, those of the groups used"
                ));
            }
        }
        weight_scale.map_or(Ok(()), |scale| positive("experts weight_scale", scale))?;
        margin.map_or(Ok(()), |margin| positive("experts margin", margin))?;
        let plain =
            groups.is_none() && !experts.choice_bias && !experts.normalize_weights && weight_scale.is_none();
        match score {
            RouterScore::SparseMixer if margin.is_none() || !plain => {
                return Err("experts score is sparse_mixer, which goes with margin, and without groups, choice_bias, \
                            normalize_weights and weight_scale only"
                    .into());
            }
            RouterScore::Softmax | RouterScore::Sigmoid if margin.is_some() => {
                return Err("experts margin is there, which goes with score sparse_mixer only".into());
            }
            _ => {}
        }
        shared.map_or(Ok(()), |shared| up_to("experts shared ffn", shared.ffn, 1 << 24))?;
        let norms = self.norm.placement.has_pre() && self.norm.kind == NormKind::RmsNorm;
        let alone = shared.is_none() && self.residual == Residual::Sequential;
        if experts.beside_ffn && !(norms && alone) {
            return Err("experts beside_ffn is true, which goes with norm kind rms_norm, placement pre or pre_and_post, residual \
                        sequential, and without shared only"
                .into());
        }
        self.check_layers("experts dense_layers", dense_layers)
    }

    fn check_recurrent(&self, recurrent: &Recurrent) -> Result<(), String> {
        up_to("recurrent taps", recurrent.taps, MAX_TAPS)?;
        self.check_layers("recurrent layers", &recurrent.layers)?;
        if recurrent.layers.is_empty() {
            return Err("recurrent layers are none, expected at least one".into());
        }
        if recurrent.beside_attention
            && (self.latent.is_some() || self.residual != Residual::Sequential || self.sub_norms)
        {
            return Err("recurrent beside_attention is true, which goes with residual sequential, and without latent and \
                        sub_norms only"
                .into());
        }
        if recurrent.without_norm && !matches!(recurrent.mixer, RecurrentMixer::Mamba2 { .. }) {
            return Err("recurrent without_norm is true, which goes with the mixer mamba2 only".into());
        }
        let is_delta = matches!(recurrent.mixer, RecurrentMixer::GatedDelta { .. });
        let of_delta = [
            recurrent.beta_scale.is_some(),
            recurrent.norm_epsilon.is_some(),
            recurrent.channel_rank.is_some(),
        ];
        if of_delta.contains(&true) && !is_delta {
            return Err("recurrent beta_scale, norm_epsilon or channel_rank is there, which go with the mixer gated_delta only"
                .into());
        }
        recurrent.channel_rank.map_or(Ok(()), |rank| up_to("recurrent channel_rank", rank, 1 << 16))?;
        recurrent.beta_scale.map_or(Ok(()), |scale| positive("recurrent beta_scale", scale))?;
        recurrent.norm_epsilon.map_or(Ok(()), |epsilon| positive("recurrent norm_epsilon", epsilon))?;
        match recurrent.mixer {
            RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } => {
                check_widths([
                    ("key_heads", key_heads),
                    ("key_dim", key_dim),
                    ("value_heads", value_heads),
                    ("value_dim", value_dim),
                ])?;
                check_shared(("value_heads", value_heads), ("key_heads", key_heads))?;
                if recurrent.channel_rank.is_some() && value_heads != key_heads {
                    return Err(format!(
                        "recurrent value_heads is {value_heads}, expected key_heads = {key_heads}, as there is channel_rank"
                    ));
                }
                check_state(value_heads, value_dim, key_dim)
            }
            RecurrentMixer::Mamba2 { heads, head_dim, groups, state } => {
                check_widths([
                    ("heads", heads),
                    ("head_dim", head_dim),
                    ("groups", groups),
                    ("state", state),
                ])?;
                check_shared(("heads", heads), ("groups", groups))?;
                check_state(heads, head_dim, state)
            }
            RecurrentMixer::Mamba1 { width, state, rank, norm_epsilon, norm_gains } => {
                check_widths([("width", width), ("state", state), ("rank", rank)])?;
                up_to("recurrent rank", rank, width)?;
                match norm_epsilon {
                    Some(epsilon) if !(epsilon.is_finite() && epsilon >= 0.0) => {
                        return Err(format!(
                            "recurrent norm_epsilon is {epsilon}, expected a finite number of 0 or more"
                        ));
                    }
                    None if norm_gains => {
                        return Err("recurrent norm_gains are there, which go with norm_epsilon only".into());
                    }
                    _ => {}
                }
                check_state(width, 1, state)
            }
            RecurrentMixer::ShortConv {} => Ok(()),
        }
    }

    /// Ascending, so that they can be searched, and layers of this model.
    pub(super) fn check_layers(&self, name: &str, layers: &[u32]) -> Result<(), String> {
        if !layers.is_sorted_by(|a, b| a < b) || layers.last().is_some_and(|&last| last >= self.layers) {
            return Err(format!("{name}: expected ascending numbers below layers = {}", self.layers));
        }
        Ok(())
    }

    fn check_position(&self) -> Result<(), String> {
        let (theta, scaling, dims, sliding_theta, unrotated_layers) = match &self.position {
            PositionConfig::Learned {} => return Ok(()),
            PositionConfig::Alibi { slope_scale } => {
                return slope_scale.map_or(Ok(()), |scale| positive("alibi slope_scale", scale));
            }
            PositionConfig::Rope { theta, scaling, dims, sliding_theta, unrotated_layers } => {
                (theta, scaling, dims, sliding_theta, unrotated_layers)
            }
        };
        let widest = self.full_attention.map_or(self.head_dim, |full| full.head_dim);
        let rotated = dims.unwrap_or(widest);
        if !rotated.is_multiple_of(2) || rotated == 0 || rotated > widest {
            return Err(format!(
                "rotated dims are {rotated}, expected an even number from 2 to head_dim = {}",
                widest
            ));
        }
        // Of layers with a window, where these have heads of another width.
        if dims.unwrap_or(self.head_dim) > self.head_dim || !self.head_dim.is_multiple_of(2) && dims.is_none()
        {
            return Err(format!(
                "head_dim is {}, expected even, and at least the rotated dims",
                self.head_dim
            ));
        }
        positive("rope theta", *theta)?;
        sliding_theta.map_or(Ok(()), |theta| positive("rope sliding_theta", theta))?;
        self.check_layers("unrotated_layers", unrotated_layers)?;
        if matches!(scaling, Some(RopeScaling::Yarn { .. })) && *theta <= 1.0 {
            return Err(format!("rope theta is {theta}, expected above 1 with yarn"));
        }
        scaling.as_ref().map_or(Ok(()), |scaling| check_scaling(scaling, rotated))
    }
}

fn check_widths<const N: usize>(widths: [(&str, u32); N]) -> Result<(), String> {
    widths.into_iter().try_for_each(|(name, value)| up_to(&format!("recurrent {name}"), value, 1 << 16))
}

fn check_shared((name, all): (&str, u32), (of, parts): (&str, u32)) -> Result<(), String> {
    if all.is_multiple_of(parts) {
        return Ok(());
    }
    Err(format!("recurrent {name} is {all}, expected a multiple of {of} = {parts}"))
}

/// A state of `heads` matrices.
fn check_state(heads: u32, rows: u32, cols: u32) -> Result<(), String> {
    let state = u128::from(heads) * u128::from(rows) * u128::from(cols);
    let widest = u128::from(heads) * u128::from(rows.max(cols));
    if state <= MAX_STATE && widest <= MAX_WIDTH {
        return Ok(());
    }
    Err(format!(
        "the recurrent state is {heads} matrices of {rows} x {cols}, expected at most {MAX_STATE} values, and {MAX_WIDTH} rows and \
         columns of all of them"
    ))
}

fn check_scaling(scaling: &RopeScaling, rotated: u32) -> Result<(), String> {
    match scaling {
        RopeScaling::Linear { factor } => positive("rope scaling factor", *factor),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
            positive("rope scaling factor", *factor)?;
            positive("low_freq_factor", *low_freq_factor)?;
            positive("high_freq_factor", *high_freq_factor)?;
            if high_freq_factor <= low_freq_factor || *original_positions == 0 {
                return Err(format!(
                    "rope scaling has low_freq_factor {low_freq_factor}, high_freq_factor {high_freq_factor}, \
                     original_positions {original_positions}; expected low below high and positions above 0"
                ));
            }
            Ok(())
        }
        RopeScaling::Dynamic { factor, original_positions } => {
            at_least_one("rope scaling factor", *factor)?;
            up_to("rope original_positions", *original_positions, 1 << 30)
        }
        RopeScaling::Yarn {
            factor,
            original_positions,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate: _,
        } => {
            at_least_one("rope scaling factor", *factor)?;
            up_to("rope original_positions", *original_positions, 1 << 30)?;
            positive("rope beta_fast", *beta_fast)?;
            positive("rope beta_slow", *beta_slow)?;
            positive("rope attention_factor", *attention_factor)
        }
        RopeScaling::LongRope { original_positions, short_factors, long_factors, attention_factor } => {
            up_to("rope original_positions", *original_positions, 1 << 30)?;
            check_factors("rope short_factors", short_factors, rotated)?;
            check_factors("rope long_factors", long_factors, rotated)?;
            positive("rope attention_factor", *attention_factor)
        }
        RopeScaling::Factors { factors } => check_factors("rope factors", factors, rotated),
    }
}

fn check_factors(name: &str, factors: &[f32], rotated: u32) -> Result<(), String> {
    if factors.len() != rotated as usize / 2 {
        return Err(format!(
            "{name} are {}, expected {}, half of the rotated dims",
            factors.len(),
            rotated / 2
        ));
    }
    factors.iter().try_for_each(|&factor| positive(name, factor))
}

pub(super) fn up_to(name: &str, value: u32, limit: u32) -> Result<(), String> {
    if value == 0 || value > limit {
        return Err(format!("{name} is {value}, expected 1 to {limit}"));
    }
    Ok(())
}

pub(super) fn positive(name: &str, value: f32) -> Result<(), String> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(format!("{name} is {value}, expected a finite number above 0"))
    }
}

fn at_least_one(name: &str, value: f32) -> Result<(), String> {
    if value.is_finite() && value >= 1.0 {
        Ok(())
    } else {
        Err(format!("{name} is {value}, expected a finite number of 1 or more"))
    }
}
