//! `--tensor-type PATTERN=TYPE`: another type for the tensors that a pattern names.

use std::fmt;
use std::str::FromStr;

use qsf_format::TensorId;

use super::finer_rows::FinerRows;
use super::stored_form::{OutlierShare, parse_form};
use super::tensor_type::TensorType;

/// One override. Its pattern is compared, whole and in any case, with the name of the kind (`attn_q`) and with the name
/// of the tensor (`layer 3 attn_q`); `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeOverride {
    pattern: String,
    quant: TensorType,
    outliers: Option<OutlierShare>,
    finer: FinerRows,
}

impl TypeOverride {
    /// An override of the one tensor that has this name (`layer 3 attn_q`, `head`).
    ///
    /// # Errors
    /// When `form` is no type, with or without a share of outliers.
    pub fn exactly(name: &str, form: &str) -> Result<TypeOverride, String> {
        let (quant, outliers, finer) = parse_form(form)?;
        Ok(TypeOverride { pattern: name.to_ascii_lowercase(), quant, outliers, finer })
    }

    /// The pattern, in lower case.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The type that the pattern's tensors are stored in.
    pub fn quant(&self) -> TensorType {
        self.quant
    }

    /// How many of the weights are stored apart, where the rule says so.
    pub fn outliers(&self) -> Option<OutlierShare> {
        self.outliers
    }

    /// Rows that are stored in other types.
    pub fn finer(&self) -> FinerRows {
        self.finer
    }

    /// Whether the pattern names this tensor.
    pub fn names(&self, id: TensorId) -> bool {
        matches(&self.pattern, id.kind.name()) || matches(&self.pattern, &id.to_string())
    }
}

impl fmt::Display for TypeOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}{}", self.pattern, self.finer, self.quant)?;
        self.outliers.map_or(Ok(()), |share| write!(f, "+{share}"))
    }
}

impl FromStr for TypeOverride {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (pattern, quant) = s
            .rsplit_once('=')
            .map(|(pattern, quant)| (pattern.trim().to_ascii_lowercase(), quant.trim()))
            .filter(|(pattern, _)| !pattern.is_empty())
            .ok_or_else(|| format!("'{s}' is not PATTERN=TYPE, such as ffn_down=8bit or 'layer 0 *=4bit'"))?;
        let (quant, outliers, finer) = parse_form(quant)?;
        Ok(TypeOverride { pattern, quant, outliers, finer })
    }
}

/// Whether `text` is `pattern` with every `*` replaced by some characters or none.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    // Taking the first place for each middle piece leaves the most for what follows; the last piece must end the text.
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        let Some(at) = text.find(piece) else { return false };
        text = &text[at + piece.len()..];
    }
    text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use qsf_format::{QuantType, TensorKind};

    use super::*;

    #[test]
    fn stars_stand_for_any_run_of_characters() {
        for (pattern, text, expected) in [
            ("attn_q", "attn_q", true),
            ("attn_q", "attn_q_bias", false),
            ("*", "", true),
            ("ffn_*", "ffn_down", true),
            ("layer 1 *", "layer 11 attn_q", false),
            ("layer * ffn_*n", "layer 3 ffn_down", true),
            ("*_*_*", "attn_q_bias", true),
            ("*_*_*", "attn_q", false),
            ("ab*ba", "aba", false),
            ("*down*down", "ffn_down", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_names_a_kind_in_every_layer_or_a_tensor_of_one_layer() {
        let parse = |s: &str| s.parse::<TypeOverride>().unwrap();
        let id = TensorId::of_layer(3, TensorKind::AttnQ);
        assert!(parse("attn_q=8bit").names(id) && parse("Layer 3 *=8").names(id));
        assert!(!parse("layer 2 *=8bit").names(id) && !parse("attn=8bit").names(id));
        assert_eq!(parse("head = F16").quant(), QuantType::F16);
    }

    #[test]
    fn an_override_without_pattern_or_with_an_unknown_type_is_refused_with_an_example() {
        for wrong in ["8bit", "=8bit", ""] {
            assert!(wrong.parse::<TypeOverride>().unwrap_err().contains("ffn_down=8bit"), "{wrong}");
        }
        assert!(
            "head=q4".parse::<TypeOverride>().unwrap_err().contains("the nearest is n4; types are 2bit-sym")
        );
    }
}
