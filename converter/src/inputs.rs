//! Which matrices read the same.

use qsf_format::TensorKind;
use qsf_runtime::LinearInput;

/// Which inputs a layer has in place of the one that others read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnInputs {
    /// Whether queries are made of latents.
    pub query_latent: bool,
    /// Whether gates of recurrent mixers are made of a few values.
    pub mixer_gate: bool,
}

/// What matrices of a kind read.
pub(crate) fn input_of(kind: TensorKind, expert: Option<u32>, own: OwnInputs) -> Option<LinearInput> {
    use TensorKind::*;
    Some(match (kind, expert) {
        (AttnQ, _) if own.query_latent => LinearInput::QueryLatent,
        (AttnQ | AttnK | AttnV | AttnQDown | AttnKvDown | AttnGate | LaurelDown, _) => LinearInput::Attention,
        (LaurelUp, _) => LinearInput::LaurelUp,
        (MixerGate, _) if own.mixer_gate => LinearInput::MixerGate,
        (MixerIn | MixerGateDown | MixerGate | MixerStep | MixerBeta, _) => LinearInput::Attention,
        (AttnKUp, _) => LinearInput::KeyUp,
        (AttnVUp, _) => LinearInput::ValueUp,
        (PerLayerGate, _) => LinearInput::PerLayerGate,
        (PerLayerUp, _) => LinearInput::PerLayerUp,
        (AttnOutput, _) => LinearInput::AttnOutput,
        (MixerOutput, _) => LinearInput::MixerOutput,
        (MixerSelect, _) => LinearInput::MixerSelect,
        (MixerStepUp, _) => LinearInput::MixerStep,
        (ExpertGate | ExpertUp, Some(expert)) => LinearInput::ExpertFfn(expert),
        (FfnGate | FfnUp | ExpertGate | ExpertUp | SharedGate | SharedUp, _) => LinearInput::Ffn,
        (ExpertDown, Some(expert)) => LinearInput::ExpertDown(expert),
        // What shared experts read is another input, and may have another width.
        (ExpertDown, None) => LinearInput::ExpertDown(u32::MAX),
        (FfnDown | SharedDown, _) => LinearInput::FfnDown,
        (Head | TokenEmbedding, _) => LinearInput::Head,
        _ => return None,
    })
}
