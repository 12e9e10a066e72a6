//! Files that others wrote.

use qsf_format::PositionConfig;

use super::*;
use crate::source::WeightSource;
use crate::test_data::shared;

#[test]
fn a_llama_of_260_thousand_parameters_opens() {
    let Some(path) = shared("gguf/stories260K.gguf") else { return };
    let source = open_gguf(&path).unwrap();
    let config = source.config();
    assert_eq!(
        (config.layers, config.hidden, config.heads, config.kv_heads, config.vocab),
        (5, 64, 8, 4, 512)
    );
    assert_eq!(config.position, PositionConfig::rope(10_000.0, None));
    assert_eq!((config.bos, config.stop_tokens.as_slice()), (Some(1), &[2][..]));
    let values: usize = source.tensors().iter().map(|info| info.rows * info.cols).sum();
    let stored: usize =
        source.tensors().iter().map(|info| source.load(info.id).unwrap().stored_bytes() as usize).sum();
    assert_eq!(stored, 4 * values);
    assert_eq!(source.files(), [path]);
}

#[test]
fn vocabularies_open_as_files_and_not_as_models() {
    let Some(folder) = shared("vocab") else { return };
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "gguf") {
            let file = GgufFile::open(&path).unwrap();
            assert!(file.metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap().len() > 30_000);
            assert!(open_gguf(&path).is_err());
        }
    }
}
