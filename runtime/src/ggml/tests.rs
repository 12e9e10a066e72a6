//! Every type against the values of the gguf package for Python (`scripts/make_ggml_vectors.py`), to the bit; types
//! that it lacks also against blocks decoded by hand.

use gguf_rs_lib::format::GGUFTensorType;

use super::blocks::part;
use super::tables::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use super::*;

/// The fixture of the repository, or the file that `QSF_GGML_VECTORS` names. `make_ggml_vectors.py OUT --blocks N` writes one with
/// more blocks than fit the repository.
fn fixture() -> Vec<u8> {
    match std::env::var_os("QSF_GGML_VECTORS") {
        Some(path) => std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        None => include_bytes!("testdata/vectors.bin").to_vec(),
    }
}

/// What is left of a fixture.
struct Fixture<'a>(&'a [u8]);

impl<'a> Fixture<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes(*part(self.take(4), 0))
    }
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn decode(isa: Isa, ty: GgmlType, bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![f32::NAN; bytes.len() / ty.block_bytes() * ty.block_len()];
    decode_row(isa, ty, bytes, &mut out);
    out
}

/// The types and grids that the fixture had.
fn check(fixture: &[u8]) -> (Vec<GgmlType>, usize) {
    let mut fixture = Fixture(fixture);
    assert_eq!(fixture.take(8), b"GGMLVEC1");
    let mut seen = Vec::new();
    for _ in 0..fixture.number() {
        let [id, len, size, count, crc] = std::array::from_fn(|_| fixture.number());
        let first = fixture.take(64);
        let bytes = fixture.take(size as usize * count as usize);
        let ty = GgmlType::from_id(id).unwrap();
        assert_eq!((ty.block_len(), ty.block_bytes()), (len as usize, size as usize), "{ty}");
        for isa in Isa::available() {
            let values = decode(isa, ty, bytes);
            let found = bytes_of(&values);
            let n = found.len().min(first.len());
            assert_eq!(found[..n], first[..n], "{ty} {isa:?}: {:?}", &values[..16.min(values.len())]);
            assert_eq!(crc32fast::hash(&found), crc, "{ty} {isa:?}: not in the first values");
        }
        seen.push(ty);
    }
    let grids = fixture.number();
    for _ in 0..grids {
        let len = fixture.number() as usize;
        let name = std::str::from_utf8(fixture.take(len)).unwrap();
        let points: Vec<u8> = match name {
            "IQ2_XXS" => IQ2_XXS.iter().flat_map(|p| p.to_le_bytes()).collect(),
            "IQ2_XS" => IQ2_XS.iter().flat_map(|p| p.to_le_bytes()).collect(),
            "IQ2_S" => IQ2_S.iter().flat_map(|p| p.to_le_bytes()).collect(),
            "IQ3_XXS" => IQ3_XXS.iter().flat_map(|p| p.to_le_bytes()).collect(),
            "IQ3_S" => IQ3_S.iter().flat_map(|p| p.to_le_bytes()).collect(),
            "IQ1_S" => IQ1.iter().flat_map(|p| p.to_le_bytes()).collect(),
            _ => panic!("no grid {name}"),
        };
        assert_eq!(crc32fast::hash(&points), fixture.number(), "grid of {name}");
    }
    assert!(fixture.0.is_empty());
    (seen, grids as usize)
}

#[test]
fn every_type_has_the_values_of_the_gguf_package() {
    let (seen, grids) = check(&fixture());
    assert!(GgmlType::ALL.iter().all(|ty| seen.contains(ty)), "only {seen:?}");
    assert_eq!(grids, 6);
}

#[test]
fn ids_names_and_geometry_are_those_of_the_library() {
    for id in 0..1000 {
        match (GgmlType::from_id(id), GGUFTensorType::from_u32(id)) {
            (Some(ty), Ok(theirs)) => {
                assert_eq!((ty.id(), ty.name()), (id, theirs.name()));
                assert_eq!(
                    (ty.block_len(), Some(ty.block_bytes())),
                    (theirs.block_size(), theirs.block_size_bytes())
                );
            }
            (None, Err(_)) => {}
            (ours, theirs) => panic!("{id}: {ours:?} {theirs:?}"),
        }
    }
    assert_eq!(GgmlType::from_id(u32::MAX), None);
    assert_eq!(format!("{:>8}", GgmlType::IQ2_XXS), " IQ2_XXS");
}

/// Values of one block, repeated, on every instruction set.
fn by_hand(ty: GgmlType, block: &[u8], expected: &[f32]) {
    assert_eq!((block.len(), expected.len()), (ty.block_bytes(), ty.block_len()));
    for isa in Isa::available() {
        let found = decode(isa, ty, &block.repeat(3));
        assert!(bytes_of(&found) == bytes_of(&expected.repeat(3)), "{ty} {isa:?}: {found:?}");
    }
}

/// 0x3800 is 0.5 and 0xC000 -2 in half precision.
#[test]
fn types_that_the_gguf_package_lacks_have_the_values_of_their_definition() {
    // Bits 0, 2 and 15.
    let mut block = [0; 18];
    block[..4].copy_from_slice(&[0x00, 0x38, 0b101, 0x80]);
    let mut expected = [-0.5; 128];
    for plus in [0, 2, 15] {
        expected[plus] = 0.5;
    }
    by_hand(GgmlType::Q1_0, &block, &expected);

    // Codes 3 2 1 0, then one code 1; zero times the negative scale is minus zero.
    block = [0; 18];
    block[..4].copy_from_slice(&[0x00, 0xC0, 0b00_01_10_11, 0b01]);
    let mut expected = [2.0; 64];
    expected[..5].copy_from_slice(&[-4.0, -2.0, -0.0, 2.0, -0.0]);
    by_hand(GgmlType::Q2_0, &block, &expected);

    // The sum, here no number, is not used.
    let mut block = [0; 36];
    block[..8].copy_from_slice(&[0x00, 0x38, 0xFF, 0x7F, 0x80, 0x7F, 0xFF, 0x03]);
    let mut expected = [0.0; 32];
    expected[..4].copy_from_slice(&[-64.0, 63.5, -0.5, 1.5]);
    by_hand(GgmlType::Q8_1, &block, &expected);

    let mut block = [0; 292];
    block[..4].copy_from_slice(&0.1f32.to_le_bytes());
    block[4..7].copy_from_slice(&[0x80, 3, 0xFF]);
    block[259..].fill(0x7F);
    let mut expected = [0.0; 256];
    expected[..3].copy_from_slice(&[-12.8, 3.0 * 0.1f32, -0.1]);
    expected[255] = 127.0 * 0.1f32;
    by_hand(GgmlType::Q8_K, &block, &expected);

    // Scales 1, 0.5, the lowest subnormal number, and the code for no number; value 1 in the first place of the first
    // group, -6 in its ninth, 0.5 in the first of the second ...
    let mut block = [0; 36];
    block[..4].copy_from_slice(&[0x38, 0x30, 0x01, 0x7F]);
    block[4] = 0xF2;
    block[12] = 0x81;
    block[20] = 0x75;
    block[28] = 0x77;
    let mut expected = [0.0; 64];
    (expected[0], expected[8]) = (1.0, -6.0);
    (expected[16], expected[24]) = (0.25, 0.0);
    (expected[32], expected[40]) = (3.0 / 512.0, 6.0 / 512.0);
    by_hand(GgmlType::NVFP4, &block, &expected);
}

#[test]
fn wide_numbers_are_rounded_to_the_nearest_even() {
    let wide = [1.0 + 2f64.powi(-24), 1.0 + 3.0 * 2f64.powi(-24), 1e300, -1e-300];
    let bytes = wide.map(f64::to_le_bytes).concat();
    let expected = [1.0, 1.0 + 2.0 * f32::EPSILON, f32::INFINITY, -0.0];
    for isa in Isa::available() {
        assert_eq!(bytes_of(&decode(isa, GgmlType::F64, &bytes)), bytes_of(&expected));
        let whole = decode(isa, GgmlType::I32, &[16_777_217i32, -16_777_219].map(i32::to_le_bytes).concat());
        assert_eq!(whole, [16_777_216.0, -16_777_220.0]);
    }
}

#[test]
fn no_bytes_panic() {
    for &ty in GgmlType::ALL {
        for fill in [0x00, 0x7C, 0x7F, 0x80, 0xFC, 0xFF] {
            let bytes = vec![fill; 2 * ty.block_bytes()];
            let all: Vec<_> = Isa::available().into_iter().map(|isa| decode(isa, ty, &bytes)).collect();
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(
                all.iter().all(|one| one.iter().zip(&all[0]).all(|(&a, &b)| same(a, b))),
                "{ty} {fill:#x}"
            );
        }
        assert!(decode(Isa::SCALAR, ty, &[]).is_empty());
    }
}

#[test]
#[should_panic(expected = "36 bytes and 63 values are no whole blocks of Q4_0")]
fn half_a_block_is_a_mistake_of_the_caller() {
    decode_row(Isa::SCALAR, GgmlType::Q4_0, &[0; 36], &mut [0.0; 63]);
}
