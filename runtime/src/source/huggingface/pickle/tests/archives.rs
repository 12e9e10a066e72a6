//! Zip files that two readers could understand differently, that claim too much, or that are of another kind.

use super::writers::Entry;
use super::*;

const PICKLE: &str = "archive/data.pkl";
const STORAGE: &str = "archive/data/0";

fn damaged(zip: &Zip) -> String {
    refusal(open(&zip.bytes()), Failure::BadInput)
}

#[test]
fn archives_with_and_without_zip64_records_open() {
    let mut zip = Zip::sound_but(PICKLE, |_| {});
    assert!(is_w(&open(&zip.bytes()).unwrap(), Dtype::F32, &[2, 3]));
    zip.zip64 = true;
    let file = zip.bytes();
    let tensors = open(&file).unwrap();
    assert!(is_w(&tensors, Dtype::F32, &[2, 3]));
    let values: Vec<u8> = (0..24).collect();
    assert_eq!(file[tensors[0].range.clone()], values);
}

#[test]
fn sizes_of_an_entry_may_stand_in_its_zip64_field() {
    let zip = Zip::sound_but(STORAGE, |entry| {
        entry.size = Some(u32::MAX);
        entry.stored = Some(u32::MAX);
        entry.extra =
            [&[7, 0, 1, 0, 9, 1, 0, 16, 0][..], &24u64.to_le_bytes(), &24u64.to_le_bytes()].concat();
    });
    assert!(is_w(&open(&zip.bytes()).unwrap(), Dtype::F32, &[2, 3]));
    let wrongs: [fn(&mut Entry); 5] = [
        |entry| entry.extra.truncate(17),
        |entry| entry.extra[7] = 8,
        |entry| entry.extra.extend_from_slice(&[1, 0, 0, 0]),
        |entry| entry.size = Some(24),
        |entry| entry.extra[5..].fill(0xff),
    ];
    for wrong in wrongs {
        let mut zip = zip.clone();
        zip.entries.iter_mut().filter(|entry| entry.name == STORAGE).for_each(wrong);
        damaged(&zip);
    }
    let huge = Zip::sound_but(STORAGE, |entry| {
        entry.size = Some(u32::MAX);
        entry.stored = Some(u32::MAX);
        entry.local_size = Some(u32::MAX);
        entry.extra = [&[1, 0, 16, 0][..], &[0xff; 16]].concat();
    });
    assert_says(&damaged(&huge), &["archive/data/0", "18446744073709551615 bytes of data"]);
}

#[test]
fn entries_that_are_packed_encrypted_or_elsewhere_are_not_supported() {
    for (change, says) in [
        ((|entry| entry.method = 8) as fn(&mut Entry), "compression (method 8)"),
        (|entry| entry.flags = 1, "encryption or another feature (flags 0x1)"),
        (|entry| entry.flags = 1 << 6, "flags 0x40"),
        (|entry| entry.flags = 1 << 13, "flags 0x2000"),
        (|entry| entry.disk = 1, "another volume"),
    ] {
        for name in [PICKLE, STORAGE] {
            let message = refusal(open(&Zip::sound_but(name, change).bytes()), Failure::Unsupported);
            assert_says(&message, &["pytorch_model.bin", name, says, "model.safetensors"]);
        }
    }
}

#[test]
fn a_zip_bomb_is_an_error_before_anything_is_unpacked() {
    let bomb = Zip::sound_but(PICKLE, |entry| entry.size = Some(0xffff_fffe));
    assert_says(&damaged(&bomb), &[PICKLE, "4294967294 bytes, as they are not compressed"]);
    let claims = Zip::sound_but(STORAGE, |entry| {
        (entry.size, entry.stored) = (Some(0xffff_fffe), Some(0xffff_fffe));
    });
    assert_says(&damaged(&claims), &[STORAGE, "another size"]);
    let both = Zip::sound_but(STORAGE, |entry| {
        (entry.size, entry.stored) = (Some(0xffff_fffe), Some(0xffff_fffe));
        entry.local_size = Some(0xffff_fffe);
    });
    assert_says(&damaged(&both), &[STORAGE, "expected 4294967294 bytes of data"]);
}

#[test]
fn names_that_lead_out_of_the_archive_or_come_twice_are_refused() {
    for name in ["../data/0", "archive/../x", "/etc/passwd", "a\\b", "a\u{1b}[2J", "", "./a", "a/.."] {
        let message = damaged(&Zip::sound_but(STORAGE, |entry| entry.name = name.to_owned()));
        assert_says(&message, &["a relative name without \"..\""]);
        assert!(!message.contains('\u{1b}'));
    }
    let twice = Zip::sound_but("archive/byteorder", |entry| entry.name = STORAGE.to_owned());
    assert_says(&damaged(&twice), &["each name once", STORAGE]);
}

#[test]
fn entries_on_the_same_bytes_are_refused() {
    let mut zip = Zip::sound_but(PICKLE, |_| {});
    // A second name for the same local header: both agree on everything but the name, so the name is told apart.
    let mut again = Entry::new("archive/data/1", b"");
    again.offset = Some(0);
    zip.entries.push(again);
    assert_says(&damaged(&zip), &["archive/data/1", "another name"]);
    // A whole archive inside of a storage, one of whose entries the outer directory names.
    let mut inner = Zip { entries: vec![Entry::new("archive/data/1", b"1234")], zip64: false }.bytes();
    inner.truncate(30 + "archive/data/1".len() + 4);
    let mut zip = Zip::sound_but(STORAGE, |entry| entry.data = inner.clone());
    let file = zip.bytes();
    let at = file.windows(inner.len()).position(|window| window == inner).unwrap();
    let mut hidden = Entry::new("archive/data/1", b"1234");
    hidden.offset = Some(at as u32);
    zip.entries.push(hidden);
    assert_says(&damaged(&zip), &["entries one after the other"]);
}

#[test]
fn a_local_header_that_says_something_else_is_refused() {
    for (change, says) in [
        ((|entry| entry.local_name = Some("archive/data/9".to_owned())) as fn(&mut Entry), "another name"),
        (|entry| entry.local_flags = Some(1), "other flags"),
        (|entry| entry.local_size = Some(23), "another size"),
        (|entry| entry.offset = Some(1), "no header of an entry"),
        (|entry| entry.offset = Some(0xffff_fffe), "no header of an entry"),
    ] {
        assert_says(&damaged(&Zip::sound_but(STORAGE, change)), &["zip entry \"archive/data/0\"", says]);
    }
}

#[test]
fn size_and_checksum_may_follow_the_data_but_must_be_right() {
    let follows = |count: u64, width: usize, crc_change: u32| {
        Zip::sound_but(STORAGE, |entry| {
            (entry.flags, entry.local_size) = (8, Some(0));
            let crc = crc32fast::hash(&entry.data) ^ crc_change;
            entry.behind = [&b"PK\x07\x08"[..], &crc.to_le_bytes()].concat();
            entry.behind.extend([count.to_le_bytes(); 2].iter().flat_map(|bytes| &bytes[..width]));
        })
    };
    for width in [4, 8] {
        assert!(is_w(&open(&follows(24, width, 0).bytes()).unwrap(), Dtype::F32, &[2, 3]));
        assert_says(&damaged(&follows(23, width, 0)), &[STORAGE, "another descriptor"]);
        assert_says(&damaged(&follows(24, width, 1)), &[STORAGE, "another descriptor"]);
    }
    let none = Zip::sound_but(STORAGE, |entry| (entry.flags, entry.local_size) = (8, Some(0)));
    assert_says(&damaged(&none), &[STORAGE, "another descriptor"]);
}

#[test]
fn bytes_that_belong_to_no_entry_are_refused() {
    for name in [PICKLE, STORAGE] {
        let gap = Zip::sound_but(name, |entry| entry.behind = b"x".to_vec());
        assert_says(&damaged(&gap), &["entries one after the other"]);
    }
}

#[test]
fn a_pickle_whose_checksum_is_wrong_is_damaged() {
    let wrong = Zip::sound_but(PICKLE, |entry| entry.crc = Some(1));
    assert_says(&damaged(&wrong), &[PICKLE, "expected CRC32 00000001"]);
    let none = Zip::sound_but(PICKLE, |entry| entry.crc = Some(0));
    assert!(open(&none.bytes()).is_ok(), "torch can leave checksums out");
}

#[test]
fn end_records_that_lie_are_refused() {
    let mut zip = Zip::sound_but(PICKLE, |_| {});
    let plain = zip.bytes();
    zip.zip64 = true;
    let wide = zip.bytes();
    // Offsets from the end: fields of the end record, the locator, the zip64 end record.
    for (file, places) in [(&plain, &[4, 6, 8, 10, 12, 16, 20][..]), (&wide, &[4, 6, 20])] {
        for &place in places {
            let mut bad = file.clone();
            let at = bad.len() - 22 + place;
            bad[at] ^= 1;
            refusal(open(&bad), Failure::BadInput);
        }
    }
    for back in [22 + 20, 22 + 16, 22 + 12, 22 + 4, 98, 94, 82, 78, 74, 66, 58, 50] {
        for value in [1, 0x80, 0xff] {
            for byte in [0, 3] {
                let mut bad = wide.clone();
                let at = bad.len() - back + byte;
                bad[at] ^= value;
                refusal(open(&bad), Failure::BadInput);
            }
        }
    }
    refusal(open(&[&plain[..], b"more"].concat()), Failure::BadInput);
    refusal(open(&[b"PK\x03\x04", &plain[..]].concat()), Failure::BadInput);
}

#[test]
fn a_file_of_another_kind_is_told_from_a_damaged_one() {
    assert_says(&refusal(open(b""), Failure::BadInput), &["an empty file"]);
    assert_says(&refusal(open(b"{\"a\": 1}"), Failure::BadInput), &["a zip file as torch.save writes it"]);
    let mut legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec();
    assert_says(&refusal(open(&legacy), Failure::Unsupported), &["torch before 1.6", "model.safetensors"]);
    legacy[2] = b'.';
    refusal(open(&legacy), Failure::BadInput);
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    assert_says(&refusal(open(&tar), Failure::Unsupported), &["torch before 1.6"]);
    let renamed = |name: &str| Zip::sound_but(PICKLE, |entry| entry.name = name.to_owned());
    for name in ["data.pkl", "archive/constants.pkl", "a/b/data.pkl"] {
        assert_says(&damaged(&renamed(name)), &["one entry NAME/data.pkl, found none"]);
    }
    let second = Zip::sound_but("archive/byteorder", |entry| entry.name = "other/data.pkl".to_owned());
    assert_says(&damaged(&second), &["found several"]);
    let big = Zip::sound_but("archive/byteorder", |entry| entry.data = b"big".to_vec());
    assert_says(&refusal(open(&big.bytes()), Failure::Unsupported), &["byte order \"big\""]);
}
