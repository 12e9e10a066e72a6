//! A file of torch 2.15, made by `scripts/make_torch_checkpoint.py`.

use half::{bf16, f16};

use super::*;

pub(super) const SMALL: &[u8] = include_bytes!("../testdata/small.bin");

#[test]
fn a_file_of_torch_has_the_tensors_that_were_saved() {
    let tensors = open(SMALL).unwrap();
    let found: Vec<_> = tensors
        .iter()
        .map(|tensor| {
            (tensor.name.as_str(), tensor.dtype, tensor.shape.as_slice(), &SMALL[tensor.range.clone()])
        })
        .collect();
    let embed: Vec<u8> = (0..12).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let norm: Vec<u8> = (0..5).flat_map(|i| bf16::from_f32(i as f32).to_le_bytes()).collect();
    let rows: Vec<u8> = (2..6).flat_map(|i| f16::from_f32(i as f32).to_le_bytes()).collect();
    // 0 to 5 in E4M3: exponent bias 7, 3 bits of mantissa.
    let packed = [0x00, 0x38, 0x40, 0x44, 0x48, 0x4a];
    assert_eq!(
        found,
        [
            ("embed.weight", Dtype::F32, &[3, 4][..], &embed[..]),
            ("head.weight", Dtype::F32, &[3, 4], &embed),
            ("mask", Dtype::BOOL, &[1, 1, 2], &[0, 1]),
            ("none", Dtype::F64, &[0, 4], &[]),
            ("norm", Dtype::BF16, &[5], &norm),
            ("packed", Dtype::F8_E4M3, &[2, 3], &packed),
            ("rows", Dtype::F16, &[2, 2], &rows),
            ("steps", Dtype::I64, &[], &7i64.to_le_bytes()),
        ]
    );
    assert_eq!(tensors[0].range, tensors[1].range, "tied");
}
