//! The type that is nearest to a name of another program, such as `Q4_K_M`, `int8`, `fp16` or `4-bit`.

use qsf_format::QuantType;

/// Names without a number of bits, and beginnings of names whose number means something else.
const WORDS: [(&str, QuantType); 12] = [
    ("half", QuantType::F16),
    ("float", QuantType::F32),
    ("single", QuantType::F32),
    ("full", QuantType::F16),
    ("bfloat", QuantType::Bf16),
    ("bf", QuantType::Bf16),
    ("copy", QuantType::F16),
    ("tq", QuantType::Ternary),
    ("tern", QuantType::Ternary),
    ("bitnet", QuantType::Ternary),
    ("1.58", QuantType::Ternary),
    ("b1.58", QuantType::Ternary),
];

/// Which of the `known` names whoever writes `name` most likely means; `None` where it is like none.
pub(super) fn nearest_name(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    if let Some(same) = known.iter().find(|known| **known == name) {
        return Some(same);
    }
    // Long words are texts or names of files.
    let is_path = name.contains(['/', '\\', ' ']) || name.ends_with(".qsf") || name.ends_with(".gguf");
    if name.is_empty() || name.len() > 16 || is_path {
        return None;
    }
    let of_word =
        WORDS.iter().find(|(word, _)| name == *word || (name.starts_with(word) && *word != "float"));
    if let Some((_, quant)) = of_word {
        return Some(quant.name());
    }
    if let Some(bits) = bits(&name) {
        return by_bits(bits).map(QuantType::name);
    }
    let like = |known: &&'static str| strsim::jaro(&name, known);
    let near = known.iter().copied().filter(|known| like(known) > 0.75);
    near.max_by(|a, b| like(a).total_cmp(&like(b)))
}

/// The first number in a name that begins as types do.
fn bits(name: &str) -> Option<u32> {
    const STARTS: [&str; 17] = [
        "q", "iq", "int", "uint", "i", "u", "fp", "float", "f", "w", "nf", "mxfp", "nvfp", "mx", "e", "k", "",
    ];
    let start = name.find(|c: char| c.is_ascii_digit())?;
    let (word, rest) = name.split_at(start);
    if !STARTS.contains(&word.trim_end_matches(['-', '_'])) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    // A number alone, or one of the many endings: bit, bits, _0, _K_M, a16.
    rest[..end].parse().ok()
}

fn by_bits(bits: u32) -> Option<QuantType> {
    Some(match bits {
        1 => QuantType::Ternary,
        // Of the types of so many bits, those that lose least.
        2 => QuantType::X2,
        3 => QuantType::X3,
        4 => QuantType::N4,
        5 => QuantType::N5,
        6 => QuantType::Q6,
        7 | 8 => QuantType::Q8,
        16 => QuantType::F16,
        32 | 64 => QuantType::F32,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(name: &str) -> Option<&'static str> {
        let known: Vec<&str> = QuantType::ALL.map(QuantType::name).into_iter().chain(["mixed"]).collect();
        nearest_name(name, &known)
    }

    #[test]
    fn names_of_other_programs_have_a_nearest_type() {
        for (name, wanted) in [
            ("q4", "n4"),
            ("int4", "n4"),
            ("4-bit", "n4"),
            ("4bits", "n4"),
            ("Q4_K_M", "n4"),
            ("Q4_0", "n4"),
            ("nf4", "n4"),
            ("mxfp4", "n4"),
            ("w4a16", "n4"),
            ("Q8_0", "8bit"),
            ("fp8", "8bit"),
            ("Q6_K", "6bit"),
            ("q5_k_s", "n5"),
            ("IQ2_XXS", "x2"),
            ("q3", "x3"),
            ("TQ1_0", "ternary"),
            ("1.58bit", "ternary"),
            ("fp16", "f16"),
            ("float16", "f16"),
            ("half", "f16"),
            ("bfloat16", "bf16"),
            ("float32", "f32"),
            ("tenary", "ternary"),
            ("mixd", "mixed"),
        ] {
            assert_eq!(nearest(name), Some(wanted), "{name}");
        }
        for other in ["", "model", "out.qsf", "Llama-3.2-1B", "a text of words", "q99", "gpt2", "v4"] {
            assert_eq!(nearest(other), None, "{other}");
        }
    }
}
