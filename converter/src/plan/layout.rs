//! In which order the blocks of a tensor are stored: from its type and shape alone (SPEC.md section 11).

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{Layout, ModelConfig, TensorId, TensorKind};
use qsf_runtime::source::TensorInfo;

use super::tensor_type::TensorType;

/// How many experts a tensor of a model of this `config` is a stack of.
pub fn experts_of(config: &ModelConfig, id: TensorId) -> Option<u32> {
    use TensorKind::*;
    let stacked = matches!(id.kind, ExpertGate | ExpertUp | ExpertDown);
    let experts = id.layer.filter(|_| stacked).and_then(|layer| config.experts(layer));
    experts.map(|experts| experts.count)
}

/// The layout of a tensor that is stored as `quant`: `wanted` where the tensor can have it, else rows.
///
/// Panels need blocks, sixteen rows at least, and of stacked matrices (of experts, of heads) that none ends inside a panel.
pub fn layout_of(wanted: Layout, config: &ModelConfig, info: &TensorInfo, quant: TensorType) -> Layout {
    let whole = config.stacked(info.id).is_none_or(|count| {
        // The count is at least one, and divides the rows: both were checked with the source.
        (info.rows / count as usize).is_multiple_of(PANEL_ROWS)
    });
    if whole && info.rows >= PANEL_ROWS && quant.qsf().is_some_and(|quant| wanted.suits(quant)) {
        wanted
    } else {
        Layout::Rows
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::{Experts, QuantType};

    use super::*;

    #[test]
    fn panels_are_for_block_types_of_sixteen_rows_and_experts_of_whole_panels() {
        use TensorKind::*;
        let experts = Experts {
            count: 3,
            used: 1,
            ffn: 24,
            normalize_weights: false,
            dense_layers: vec![1],
            ..Experts::default()
        };
        let config = ModelConfig { layers: 2, hidden: 32, experts: Some(experts), ..ModelConfig::default() };
        let layout = |kind, layer, rows, quant: QuantType| {
            let id = TensorId { layer, kind };
            let info = TensorInfo { id, name: id.to_string(), rows, cols: 32, stored: QuantType::F32.into() };
            assert_eq!(layout_of(Layout::Rows, &config, &info, quant.into()), Layout::Rows);
            layout_of(Layout::Panels16, &config, &info, quant.into())
        };
        let (rows, panels) = (Layout::Rows, Layout::Panels16);
        assert_eq!(layout(AttnQ, Some(0), 32, QuantType::Q4), panels);
        assert_eq!(layout(AttnQ, Some(0), 17, QuantType::Ternary), panels, "the last row stays a row");
        assert_eq!(layout(AttnQ, Some(0), 15, QuantType::Q4), rows);
        assert_eq!(layout(AttnNorm, Some(0), 1, QuantType::Q8), rows);
        assert_eq!(layout(TokenEmbedding, None, 300, QuantType::Q8), panels);
        assert_eq!(layout(TokenEmbedding, None, 300, QuantType::F16), rows);
        assert_eq!(layout(ExpertUp, Some(0), 3 * 24, QuantType::Q4), rows, "experts of 24 rows");
        assert_eq!(layout(ExpertDown, Some(0), 3 * 32, QuantType::Q4), panels, "experts of 32 rows");
    }
}
