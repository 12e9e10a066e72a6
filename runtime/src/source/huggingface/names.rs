//! What stands before the names of a model's tensors: nothing, the name of the base model, or the place of the language
//! model in a larger one. It is found by the name of the token embedding, which every model has.

use std::path::Path;

use qsf_format::TensorKind;
use qsf_format::printable::quote;

use super::architectures::Architecture;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::TensorStore;
use crate::tensor::{StoredType, Tensor, TensorBytes};

/// Parts of a prefix that say that a language model is a part of a larger model.
const LANGUAGE_PARTS: [&str; 2] = ["language_model", "text_model"];

/// Whether what stands before a name says that it is of the language model in a larger one.
pub(in crate::source) fn is_of_language_part(prefix: &str) -> bool {
    LANGUAGE_PARTS.iter().any(|part| parts(prefix).any(|found| found == *part))
}

/// Beginnings of the names of the other parts of such a model, as they stand in a prefix.
const OTHER_PARTS: [&str; 14] = [
    "embed_vision",
    "embed_audio",
    "vision",
    "visual",
    "image",
    "audio",
    "speech",
    "video",
    "multi_modal_projector",
    "multimodal_projector",
    "mm_projector",
    "projector",
    "connector",
    "patch_merger",
];

/// What stands before names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    /// Before all but the output head.
    pub prefix: String,
    /// Names of the output head, and what stands before them.
    pub heads: Vec<(&'static str, String)>,
}

impl Names {
    /// Finds what stands before the names of a model of `architecture`.
    ///
    /// # Errors
    /// Several tensors could be the embedding.
    pub fn find(architecture: &Architecture, store: &dyn TensorStore, model: &Path) -> Result<Names> {
        let prefix = find_prefix(architecture, store, model)?;
        let is_head = |kinds: &[TensorKind]| matches!(kinds, [TensorKind::Head | TensorKind::HeadBias]);
        let rules = architecture.table.rules.iter().filter(|rule| is_head(rule.kinds));
        let heads = rules.map(|rule| {
            let outside = prefix.strip_suffix(architecture.base).unwrap_or_default();
            // The head stands beside the base model, or beside one of the models around it.
            let places = std::iter::successors(Some(prefix.as_str()), |place| outer(place));
            let found =
                places.into_iter().find(|place| store.describe(&format!("{place}{}", rule.name)).is_some());
            (rule.name, found.unwrap_or(outside).to_owned())
        });
        Ok(Names { heads: heads.collect(), prefix })
    }

    /// Whether there is an output head of its own.
    pub fn has_head(&self, store: &dyn TensorStore) -> bool {
        self.head(store).is_some()
    }

    /// The name of the output head, where there is one.
    pub fn head(&self, store: &dyn TensorStore) -> Option<String> {
        let mut names = self.heads.iter().map(|(name, prefix)| format!("{prefix}{name}"));
        names.find(|name| name.ends_with(".weight") && store.describe(name).is_some())
    }

    /// The name of the token embedding.
    pub fn embedding(&self, architecture: &Architecture) -> String {
        format!("{}{}", self.prefix, architecture.embedding())
    }

    /// Whether the language model is a part of a larger model.
    pub fn is_part(&self) -> bool {
        is_of_language_part(&self.prefix)
    }

    /// Whether a tensor belongs to another part of a larger model: what sees or hears.
    pub fn is_of_another_part(&self, name: &str) -> bool {
        self.is_part()
            && !name.starts_with(&self.prefix)
            && parts(name).take(2).any(|part| OTHER_PARTS.iter().any(|other| part.starts_with(other)))
    }
}

/// The tensors of a model without those of its other parts, where it has some.
#[derive(Debug)]
pub(super) struct LanguagePart {
    inner: Box<dyn TensorStore>,
    names: Names,
}

impl LanguagePart {
    /// `inner` itself when it is a language model and nothing else.
    pub fn of(inner: Box<dyn TensorStore>, names: &Names) -> Box<dyn TensorStore> {
        if !names.is_part() {
            return inner;
        }
        Box::new(LanguagePart { inner, names: names.clone() })
    }
}

impl TensorStore for LanguagePart {
    fn file_of(&self, name: &str) -> &Path {
        self.inner.file_of(name)
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        self.inner.describe(name)
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.inner.names().filter(|name| !self.names.is_of_another_part(name)))
    }

    fn check(&self, name: &str) -> Result<()> {
        self.inner.check(name)
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        self.inner.load(name)
    }

    fn raw(&self, name: &str) -> Result<TensorBytes> {
        self.inner.raw(name)
    }

    fn adds_nothing(&self, name: &str) -> bool {
        self.inner.adds_nothing(name)
    }

    fn release(&self, names: &[&str]) {
        self.inner.release(names);
    }
}

/// `a.b.` of `a.b.c.`.
fn outer(prefix: &str) -> Option<&str> {
    let inner = prefix.strip_suffix('.')?;
    Some(&inner[..inner.rfind('.').map_or(0, |dot| dot + 1)])
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split('.')
}

fn find_prefix(architecture: &Architecture, store: &dyn TensorStore, model: &Path) -> Result<String> {
    let embedding = architecture.embedding();
    let mut found: Vec<&str> = store
        .names()
        .filter_map(|name| name.strip_suffix(embedding))
        .filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        .collect();
    found.sort_unstable();
    let of_language: Vec<&str> = found.iter().copied().filter(|prefix| is_of_language_part(prefix)).collect();
    let usual = found.iter().copied().find(|&prefix| prefix == architecture.base);
    match (found.as_slice(), of_language.as_slice(), usual) {
        // Missing: reported under its usual name.
        ([], ..) => Ok(architecture.base.to_owned()),
        ([only], ..) | (_, [only], _) => Ok((*only).to_owned()),
        (_, _, Some(usual)) => Ok(usual.to_owned()),
        ([one, other, ..], ..) => {
            let expected = format!("one token embedding ({embedding})");
            let found = format!(
                "{} and {}",
                quote(&format!("{one}{embedding}")),
                quote(&format!("{other}{embedding}"))
            );
            Err(RuntimeError::bad_input(model, "the tensors", expected, found))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::huggingface::architectures::of_model_type;

    #[derive(Debug)]
    struct OnlyNames(Vec<&'static str>);

    impl TensorStore for OnlyNames {
        fn file_of(&self, _: &str) -> &Path {
            Path::new("file")
        }

        fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
            self.0.contains(&name).then_some((&[], qsf_format::QuantType::F32.into()))
        }

        fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
            Box::new(self.0.iter().copied())
        }

        fn load(&self, _: &str) -> Result<Tensor> {
            unreachable!("names are enough")
        }
    }

    fn find(model_type: &str, names: &[&'static str]) -> Result<Names> {
        Names::find(of_model_type(model_type).unwrap(), &OnlyNames(names.to_vec()), Path::new("model"))
    }

    #[test]
    fn prefixes_are_found_by_the_embedding_and_heads_beside_them() {
        for (model_type, names, prefix, head) in [
            ("llama", &["model.embed_tokens.weight", "lm_head.weight"][..], "model.", ""),
            ("llama", &["embed_tokens.weight"], "", ""),
            ("llama", &[], "model.", ""),
            (
                "llama",
                &["language_model.model.embed_tokens.weight", "language_model.lm_head.weight"],
                "language_model.model.",
                "language_model.",
            ),
            (
                "llama",
                &["language_model.model.embed_tokens.weight"],
                "language_model.model.",
                "language_model.",
            ),
            (
                "gemma3",
                &["model.language_model.embed_tokens.weight", "lm_head.weight"],
                "model.language_model.",
                "",
            ),
            (
                "llama",
                &["_orig_mod.model.embed_tokens.weight", "_orig_mod.lm_head.weight"],
                "_orig_mod.model.",
                "_orig_mod.",
            ),
            ("gpt2", &["transformer.wte.weight"], "transformer.", ""),
            ("opt", &["model.decoder.embed_tokens.weight", "lm_head.weight"], "model.decoder.", ""),
            ("opt", &["decoder.embed_tokens.weight"], "decoder.", ""),
            ("bloom", &["word_embeddings.weight"], "", ""),
            ("gpt_neox", &["gpt_neox.embed_in.weight", "embed_out.weight"], "gpt_neox.", ""),
        ] {
            let found = find(model_type, names).unwrap();
            assert_eq!((found.prefix.as_str(), found.heads[0].1.as_str()), (prefix, head), "{names:?}");
        }
    }

    #[test]
    fn of_several_embeddings_that_of_the_language_model_is_taken_and_else_none() {
        let audio = "audio_tower.embed_tokens.weight";
        let text = "language_model.model.embed_tokens.weight";
        assert_eq!(find("llama", &[audio, text]).unwrap().prefix, "language_model.model.");
        assert_eq!(find("llama", &[audio, "model.embed_tokens.weight"]).unwrap().prefix, "model.");
        let message =
            find("llama", &["b.embed_tokens.weight", "a.embed_tokens.weight"]).unwrap_err().to_string();
        assert!(message.contains(r#""a.embed_tokens.weight" and "b.embed_tokens.weight""#), "{message}");
    }

    #[test]
    fn other_parts_are_left_out_only_beside_a_language_model() {
        let part = find("llama", &["language_model.model.embed_tokens.weight"]).unwrap();
        for name in
            ["vision_tower.x.weight", "model.visual.x.weight", "multi_modal_projector.linear_1.weight"]
        {
            assert!(part.is_of_another_part(name), "{name}");
            assert!(!find("llama", &["model.embed_tokens.weight"]).unwrap().is_of_another_part(name));
        }
        for name in ["language_model.model.vision.weight", "score.weight", "language_model.lm_head.weight"] {
            assert!(!part.is_of_another_part(name), "{name}");
        }
    }
}
