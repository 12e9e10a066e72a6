//! The statistics of one layer, and which of them a matrix is quantized by.

use std::borrow::Cow;
use std::collections::BTreeMap;

use qsf_format::TensorKind;
use qsf_runtime::LinearInput;

use crate::moments::Moments;

/// Moments of every distinct input of one layer, or of the model's head.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LayerStats {
    /// The layer, counted from 0; `None` for the head.
    pub layer: Option<u32>,
    /// 1 minus the mean cosine between the hidden state of a token before and behind the layer: how much the layer changes
    /// (the block influence of arXiv 2403.03853). `None` for the head, and where no stream ran to the end of the layer.
    pub influence: Option<f64>,
    /// Moments of each input. An expert that no token went through has none.
    pub inputs: BTreeMap<LinearInput, Moments>,
}

impl LayerStats {
    /// The moments that matrices of `kind` are quantized by; `expert` for those of experts, else `None`. `None` for tensors
    /// that multiply nothing, or inputs that were never seen.
    ///
    /// An expert that fewer tokens went through than its input has columns has a second moment that is singular, or none.
    /// For gate and up the moments of all tokens of the layer take its place: the inputs are the same, only of tokens that
    /// other experts were chosen for. For down, whose inputs each expert makes itself, those of all experts together.
    pub fn moments(&self, kind: TensorKind, expert: Option<u32>) -> Option<Cow<'_, Moments>> {
        use TensorKind::*;
        let input = match (kind, expert) {
            (AttnQ, _) if self.inputs.contains_key(&LinearInput::QueryLatent) => LinearInput::QueryLatent,
            (AttnQ | AttnK | AttnV | AttnQDown | AttnKvDown | AttnGate | LaurelDown, _) => {
                LinearInput::Attention
            }
            (LaurelUp, _) => LinearInput::LaurelUp,
            (MixerGate, _) if self.inputs.contains_key(&LinearInput::MixerGate) => LinearInput::MixerGate,
            (MixerIn | MixerGateDown | MixerGate | MixerStep | MixerBeta, _) => LinearInput::Attention,
            (AttnKUp, _) => LinearInput::KeyUp,
            (AttnVUp, _) => LinearInput::ValueUp,
            (PerLayerGate, _) => LinearInput::PerLayerGate,
            (PerLayerUp, _) => LinearInput::PerLayerUp,
            (AttnOutput, _) => LinearInput::AttnOutput,
            // Files of earlier versions have it under the name of attention, which such a layer had not.
            (MixerOutput, _) if !self.inputs.contains_key(&LinearInput::MixerOutput) => {
                LinearInput::AttnOutput
            }
            (MixerOutput, _) => LinearInput::MixerOutput,
            (MixerSelect, _) => LinearInput::MixerSelect,
            (MixerStepUp, _) => LinearInput::MixerStep,
            (FfnGate | FfnUp | Router | SharedGate | SharedUp, _) => LinearInput::Ffn,
            (ExpertGate | ExpertUp, None) => self.of_all_experts(),
            (FfnDown | SharedDown, _) => LinearInput::FfnDown,
            (Head | TokenEmbedding, _) => LinearInput::Head,
            (ExpertGate | ExpertUp, Some(expert)) => match self.enough(LinearInput::ExpertFfn(expert)) {
                Some(moments) => return Some(Cow::Borrowed(moments)),
                None => self.of_all_experts(),
            },
            (ExpertDown, expert) => {
                let own = expert.and_then(|expert| self.enough(LinearInput::ExpertDown(expert)));
                return own.map(Cow::Borrowed).or_else(|| self.all_experts_down().map(Cow::Owned));
            }
            _ => return None,
        };
        self.inputs.get(&input).map(Cow::Borrowed)
    }

    /// What experts read, of all tokens.
    fn of_all_experts(&self) -> LinearInput {
        let own = self.inputs.contains_key(&LinearInput::Experts);
        if own { LinearInput::Experts } else { LinearInput::Ffn }
    }

    /// Moments of at least as many tokens as columns.
    fn enough(&self, input: LinearInput) -> Option<&Moments> {
        self.inputs.get(&input).filter(|moments| moments.tokens() >= moments.cols() as u64)
    }

    /// The down inputs of all experts, added in their order.
    fn all_experts_down(&self) -> Option<Moments> {
        let of_experts = |input: &LinearInput| matches!(input, LinearInput::ExpertDown(_));
        let mut all = self.inputs.iter().filter(|(input, _)| of_experts(input)).map(|(_, moments)| moments);
        let mut sum = all.next()?.clone();
        all.for_each(|moments| sum.merge(moments));
        Some(sum)
    }

    /// How many tokens went through each of `experts` experts.
    pub fn coverage(&self, experts: u32) -> Vec<u64> {
        let tokens = |expert| self.inputs.get(&LinearInput::ExpertFfn(expert)).map_or(0, Moments::tokens);
        (0..experts).map(tokens).collect()
    }

    /// How many tokens went through an expert, by what its matrix of this kind read.
    pub fn expert_tokens(&self, kind: TensorKind, expert: u32) -> u64 {
        let input = match kind {
            TensorKind::ExpertDown => LinearInput::ExpertDown(expert),
            _ => LinearInput::ExpertFfn(expert),
        };
        self.inputs.get(&input).map_or(0, Moments::tokens)
    }

    /// The first input with a sum that is not finite, in words.
    pub(crate) fn first_not_finite(&self) -> Option<String> {
        let (input, _) = self.inputs.iter().find(|(_, moments)| !moments.is_finite())?;
        let place = self.layer.map_or(String::new(), |layer| format!(" of layer {layer}"));
        Some(format!("activations that are not finite, as input {input:?}{place}"))
    }
}
