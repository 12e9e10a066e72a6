//! The architecture as the header names it.

/// The architecture as the binary header knows it; META has the exact description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum HeaderArchitecture {
    /// GPT-2.
    Gpt2 = 0,
    /// LLaMA and everything computed the same way.
    Llama = 1,
    /// Mistral.
    Mistral = 2,
    /// Phi.
    Phi = 3,
    /// Anything else: read META.
    Custom = 4,
}

impl HeaderArchitecture {
    /// The header's word for a HuggingFace `model_type`.
    pub fn of_model_type(model_type: &str) -> HeaderArchitecture {
        match model_type {
            "gpt2" => HeaderArchitecture::Gpt2,
            "llama" => HeaderArchitecture::Llama,
            "mistral" => HeaderArchitecture::Mistral,
            "phi" => HeaderArchitecture::Phi,
            _ => HeaderArchitecture::Custom,
        }
    }

    /// The HuggingFace `model_type`, `None` for `Custom`.
    pub fn model_type(self) -> Option<&'static str> {
        match self {
            HeaderArchitecture::Gpt2 => Some("gpt2"),
            HeaderArchitecture::Llama => Some("llama"),
            HeaderArchitecture::Mistral => Some("mistral"),
            HeaderArchitecture::Phi => Some("phi"),
            HeaderArchitecture::Custom => None,
        }
    }

    /// By its id in files.
    pub(super) fn from_id(id: u32) -> Option<HeaderArchitecture> {
        [Self::Gpt2, Self::Llama, Self::Mistral, Self::Phi, Self::Custom]
            .into_iter()
            .find(|a| *a as u32 == id)
    }
}
