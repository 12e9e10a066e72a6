//! Which files of a repository make the model that is to be converted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use qsf_format::printable::{message, quote};
use qsf_format::{JsonLimits, from_json};

use super::error::{HubError, Result};
use super::reference::is_plain_path;

const CONFIG: &str = "config.json";

/// What belongs to a model beside `config.json` and its weights: all that a source of this project reads, and all that names a
/// token.
const COMPANIONS: [&str; 13] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    // How GPTQ and AWQ checkpoints of older tools were quantized.
    "quantize_config.json",
    "quant_config.json",
    "quantization_config.json",
];

/// Weights, best first: one file, or an index that names several.
const WEIGHTS: [(&str, &str); 2] = [
    ("model.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
];

/// How many names a message lists.
const MAX_LISTED: usize = 12;

/// The files to fetch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// Names, each of them safe to write to.
    pub files: Vec<String>,
    /// The one of them that names further files.
    pub index: Option<String>,
    /// The GGUF file to open; `None` where the folder is the model.
    pub gguf: Option<String>,
}

/// Chooses from the `names` of a repository: the GGUF model `file`, else the weights beside `config.json`, else the only GGUF
/// model.
pub(super) fn select(repo: &str, names: &[String], file: Option<&str>) -> Result<Selection> {
    let has = |name: &str| names.iter().any(|n| n == name);
    let no_model = |expected: &str, found: String| {
        Err(HubError::NoModel { repo: repo.to_owned(), expected: expected.to_owned(), found })
    };
    let models = gguf_models(names);
    if let Some(file) = file {
        let chosen = models.values().find(|parts| parts.contains(&file));
        return match chosen {
            Some(parts) => gguf(repo, parts),
            None => no_model(&format!("the file {}", quote(file)), described(&models)),
        };
    }
    let weights = WEIGHTS.iter().find(|(single, index)| has(single) || has(index));
    match weights {
        Some((single, index)) if has(CONFIG) => {
            let indexed = !has(single);
            let first = if indexed { *index } else { *single };
            let companions = COMPANIONS.into_iter().filter(|name| has(name));
            let files = [CONFIG].into_iter().chain(companions).chain([first]).map(str::to_owned).collect();
            Ok(Selection { files, index: indexed.then(|| first.to_owned()), gguf: None })
        }
        _ if models.len() == 1 => gguf(repo, models.values().next().unwrap_or(&Vec::new())),
        _ if models.len() > 1 => Err(HubError::Ambiguous {
            repo: repo.to_owned(),
            count: models.len(),
            example: models.values().filter_map(|parts| parts.first()).next().unwrap_or(&"").to_string(),
            found: described(&models),
        }),
        Some(_) => no_model(CONFIG, "none".into()),
        None => {
            let expected = "model.safetensors, pytorch_model.bin, an index of either, or a GGUF file";
            no_model(expected, format!("none of them among {} files", names.len()))
        }
    }
}

/// Most files of a model; the largest have some hundred.
const MAX_FILES: usize = 1 << 16;

/// The values of an object, each once: an index has a line for each tensor, and few files.
struct IndexedFiles(BTreeSet<String>);

impl<'de> Deserialize<'de> for IndexedFiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<IndexedFiles, D::Error> {
        struct Files;

        impl<'de> Visitor<'de> for Files {
            type Value = IndexedFiles;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with the file of each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<IndexedFiles, A::Error> {
                let mut files = BTreeSet::new();
                while let Some((_, file)) = map.next_entry::<IgnoredAny, String>()? {
                    files.insert(file);
                    if files.len() > MAX_FILES {
                        return Err(A::Error::custom(format!("more than {MAX_FILES} files")));
                    }
                }
                Ok(IndexedFiles(files))
            }
        }

        deserializer.deserialize_map(Files)
    }
}

/// The files that an index names in its `weight_map`, each of which must be one of `names` where those are known.
pub(super) fn indexed_files(
    repo: &str,
    index: &str,
    content: &[u8],
    names: Option<&[String]>,
) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: IndexedFiles,
    }
    let wrong = |expected: String, found| HubError::NoModel { repo: repo.to_owned(), expected, found };
    let Index { weight_map: IndexedFiles(files) } = from_json(content, JsonLimits::LIST)
        .map_err(|e| wrong(format!("an object with `weight_map` in {index}"), message(e)))?;
    for file in &files {
        check_name(repo, file)?;
        if names.is_some_and(|names| !names.contains(file)) {
            return Err(wrong(format!("the file {}, which {index} names", quote(file)), "none".into()));
        }
    }
    Ok(files.into_iter().collect())
}

/// Refuses a name that could lead out of the folder that the files go to.
pub(super) fn check_name(repo: &str, name: &str) -> Result<()> {
    if is_plain_path(name) {
        return Ok(());
    }
    Err(HubError::FileName { repo: repo.to_owned(), name: name.to_owned() })
}

fn gguf(repo: &str, parts: &[&str]) -> Result<Selection> {
    parts.iter().try_for_each(|part| check_name(repo, part))?;
    let Some(first) = parts.first() else {
        let expected = "a GGUF file".to_owned();
        return Err(HubError::NoModel { repo: repo.to_owned(), expected, found: "none".into() });
    };
    if let Some((_, number, count)) = split_name(first)
        && (number != 1 || parts.len() as u64 != count)
    {
        let expected = format!("{count} parts of {}", quote(first));
        return Err(HubError::NoModel { repo: repo.to_owned(), expected, found: parts.len().to_string() });
    }
    let files = parts.iter().map(|part| part.to_string()).collect();
    Ok(Selection { files, index: None, gguf: Some(first.to_string()) })
}

/// The GGUF models: their files in order, by what the parts of one have in common. A file with a projector for images is no
/// language model (llama.cpp names it `mmproj`).
fn gguf_models(names: &[String]) -> BTreeMap<(&str, u64), Vec<&str>> {
    let mut models: BTreeMap<(&str, u64), Vec<&str>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with(".gguf")) {
        let file = name.rsplit_once('/').map_or(name.as_str(), |(_, file)| file);
        if file.starts_with("mmproj") {
            continue;
        }
        let key = split_name(name).map_or((name.as_str(), 1), |(stem, _, count)| (stem, count));
        models.entry(key).or_default().push(name);
    }
    for parts in models.values_mut() {
        parts.sort_unstable();
        parts.dedup();
    }
    models
}

/// Stem, number and count of a part of a split model: `STEM-00001-of-00003.gguf` (llama.cpp, `llama_split_path`).
fn split_name(name: &str) -> Option<(&str, u64, u64)> {
    let number = |text: &str| {
        let digits = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    Some((stem, number(part)?, number(count)?))
}

fn described(models: &BTreeMap<(&str, u64), Vec<&str>>) -> String {
    let mut firsts: Vec<String> =
        models.values().filter_map(|parts| parts.first()).map(|f| quote(f)).collect();
    if firsts.is_empty() {
        return "no GGUF file".into();
    }
    if firsts.len() > MAX_LISTED {
        let more = firsts.len() - MAX_LISTED;
        firsts.truncate(MAX_LISTED);
        firsts.push(format!("{more} more"));
    }
    firsts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(names: &[&str], file: Option<&str>) -> Result<Selection> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        select("org/name", &names, file)
    }

    fn files(names: &[&str]) -> Vec<String> {
        choose(names, None).unwrap().files
    }

    #[test]
    fn a_model_is_its_configuration_tokenizer_and_one_kind_of_weights() {
        let all = [
            ".gitattributes",
            "README.md",
            "config.json",
            "merges.txt",
            "model.safetensors",
            "pytorch_model.bin",
            "tf_model.h5",
            "onnx/model.onnx",
            "tokenizer.json",
            "model.safetensors.index.json",
        ];
        assert_eq!(files(&all), ["config.json", "tokenizer.json", "merges.txt", "model.safetensors"]);
        assert_eq!(files(&["config.json", "pytorch_model.bin"]), ["config.json", "pytorch_model.bin"]);
        let sharded =
            choose(&["config.json", "model.safetensors.index.json", "pytorch_model.bin"], None).unwrap();
        assert_eq!(sharded.index.as_deref(), Some("model.safetensors.index.json"));
        assert!(!sharded.files.contains(&"pytorch_model.bin".to_owned()));
    }

    #[test]
    fn a_gguf_model_is_chosen_by_name_or_because_it_is_the_only_one() {
        let one = ["README.md", "config.json", "m.gguf", "mmproj-m.gguf"];
        assert_eq!(choose(&one, None).unwrap().gguf.as_deref(), Some("m.gguf"));
        let many = ["q4/m-00001-of-00002.gguf", "q4/m-00002-of-00002.gguf", "m-q8.gguf"];
        let error = choose(&many, None).unwrap_err();
        assert!(matches!(error, HubError::Ambiguous { count: 2, .. }), "{error}");
        for part in &many[..2] {
            let split = choose(&many, Some(part)).unwrap();
            assert_eq!(split.files, many[..2]);
            assert_eq!(split.gguf.as_deref(), Some(many[0]));
        }
        assert_eq!(choose(&many, Some("m-q8.gguf")).unwrap().files, ["m-q8.gguf"]);
        let absent = choose(&many, Some("other.gguf")).unwrap_err().to_string();
        assert!(absent.contains("m-q8.gguf"), "{absent}");
        let halves = choose(&many[1..2], None).unwrap_err().to_string();
        assert!(halves.contains("2 parts"), "{halves}");
        let weights = ["config.json", "model.safetensors", "m.gguf"];
        assert_eq!(
            choose(&weights, None).unwrap().gguf,
            None,
            "the original comes before what was made of it"
        );
    }

    #[test]
    fn what_is_no_model_is_named() {
        assert!(
            choose(&["model.safetensors"], None).unwrap_err().to_string().contains("expected config.json")
        );
        let none = choose(&["config.json", "tf_model.h5"], None).unwrap_err().to_string();
        assert!(none.contains("among 2 files"), "{none}");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["../m.gguf", "/etc/m.gguf", "a\\..\\m.gguf", "C:m.gguf", "a//m.gguf", "m\u{1b}[2J.gguf"]
        {
            let error = choose(&[name], None).unwrap_err();
            assert!(matches!(error, HubError::FileName { .. }), "{name:?}: {error}");
            let index = serde_json::json!({"weight_map": {"t": name}}).to_string();
            let names = [name.to_owned()];
            let error = indexed_files("org/name", "i", index.as_bytes(), Some(&names)).unwrap_err();
            assert!(matches!(error, HubError::FileName { .. }), "{name:?}: {error}");
        }
    }

    #[test]
    fn an_index_names_each_file_once_and_only_what_is_there() {
        let index =
            br#"{"metadata":{},"weight_map":{"a":"2.safetensors","b":"1.safetensors","c":"2.safetensors"}}"#;
        let names = ["1.safetensors".to_owned(), "2.safetensors".to_owned()];
        assert_eq!(indexed_files("org/name", "i", index, Some(&names)).unwrap(), names);
        assert!(indexed_files("org/name", "i", index, Some(&names[..1])).is_err());
        for broken in ["", "[]", "{}", r#"{"weight_map":{"a":1}}"#, r#"{"weight_map":["#] {
            assert!(indexed_files("org/name", "i", broken.as_bytes(), None).is_err(), "{broken}");
        }
    }
}
