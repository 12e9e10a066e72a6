//! Words of a command line. What is read must come back as the text that it is shown as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qsf_converter::plan::{Recipe, TypeOverride};
use qsf_format::{BlockSize, QuantType, TensorId, TensorKind};

fuzz_target!(|text: &str| {
    for word in std::iter::once(text).chain(text.lines()) {
        if let Ok(recipe) = word.parse::<Recipe>() {
            assert_eq!(recipe.to_string().parse(), Ok(recipe));
        }
        if let Ok(rule) = word.parse::<TypeOverride>() {
            for &kind in TensorKind::ALL.iter() {
                rule.names(TensorId::of_model(kind));
                rule.names(TensorId::of_layer(3, kind));
            }
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
        if let Ok(block) = word.parse::<BlockSize>() {
            assert_eq!(block.to_string().parse(), Ok(block));
        }
        if let Ok(quant) = word.parse::<QuantType>() {
            assert_eq!(quant.to_string().parse(), Ok(quant));
        }
    }
});
