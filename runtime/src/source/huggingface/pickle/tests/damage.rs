//! Sound files with something broken: an error or the same tensors, quickly, and never a panic.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::real::SMALL;
use super::*;

fn sound_files() -> [Vec<u8>; 3] {
    let mut zip = Zip::sound_but("", |_| {});
    let plain = zip.bytes();
    zip.zip64 = true;
    [plain, zip.bytes(), SMALL.to_vec()]
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for file in sound_files() {
        for end in 0..file.len() {
            refusal(open(&file[..end]), Failure::BadInput);
        }
    }
}

#[test]
fn a_flipped_byte_is_an_error_or_changes_no_place_of_a_tensor() {
    for file in sound_files() {
        let sound = open(&file).unwrap();
        for at in 0..file.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = file.clone();
                bad[at] ^= flip;
                match open(&bad) {
                    Ok(tensors) => assert_eq!(tensors, sound, "byte {at} ^ {flip:#x}"),
                    Err(error) => assert!(!error.to_string().contains(char::is_control)),
                }
            }
        }
    }
}

#[test]
fn a_flipped_byte_of_a_pickle_without_checksum_never_gives_bytes_outside_of_a_storage() {
    let pickle = Pickle::of_dict(&[("w", &Pickle::sound_tensor)]);
    for at in 0..pickle.0.len() {
        for value in 0..=255 {
            let mut bad = pickle.clone();
            bad.0[at] = value;
            let file = Zip::of_checkpoint(&bad.0).bytes();
            for tensor in open(&file).unwrap_or_default() {
                let bytes = &file[tensor.range];
                assert!(bytes.windows(2).all(|pair| pair[0] + 1 == pair[1]) && bytes.len() <= 24);
            }
        }
    }
}

#[test]
fn no_bomb_takes_a_second() {
    let repeated = |program: &[u8]| Pickle::new().op(b"}q\0").op(&program.repeat((8 << 20) / program.len()));
    let big_text = Pickle::new().text(&"x".repeat(32 << 20)).op(b".");
    let mut slow = Vec::new();
    for pickle in [
        repeated(b"]"),
        repeated(b"}}b"),
        repeated(b"h\0h\0b"),
        repeated(b"NNs"),
        repeated(b"(t"),
        repeated(b"ccollections\nOrderedDict\n)R"),
        repeated(b"\x8c\x01xh\0s"),
        repeated(b"c"),
        big_text,
    ] {
        let file = Zip::of_checkpoint(&pickle.0).bytes();
        let started = Instant::now();
        refusal(open(&file), Failure::BadInput);
        slow.push(started.elapsed());
    }
    assert!(slow.iter().all(|&took| took < Duration::from_secs(1)), "{slow:?}");
}

proptest! {
    #[test]
    fn random_programs_never_panic(program in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = open_pickle(&Pickle::new().op(b"}").op(&program));
    }

    #[test]
    fn random_programs_of_known_operations_never_panic(
        program in proptest::collection::vec(proptest::sample::select(
            b"NK0Jh\0q\0(t)\x85\x86\x87}su]ae\x94\x93QRbX\0\0\0\0\x8c\x01wctorch\nSize\nctorch\nFloatStorage\n".to_vec()), 0..60)
    ) {
        let _ = open_pickle(&Pickle::new().op(b"}").op(&program).op(b"."));
    }
}
