//! Zstd frames: by the C library, and where there is none (WebAssembly) by a decoder in Rust that only reads.

#[cfg(not(target_family = "wasm"))]
mod c_library;
#[cfg(any(test, target_family = "wasm"))]
mod in_rust;

#[cfg(not(target_family = "wasm"))]
pub(crate) use c_library::{Decoder, check_one_frame, compress, stated_size};
#[cfg(target_family = "wasm")]
pub(crate) use in_rust::{Decoder, check_one_frame, compress, stated_size};

/// How a frame begins that is not skippable (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Checks that `stored` begins as a frame with content does.
fn check_magic(stored: &[u8]) -> Result<(), String> {
    if stored.starts_with(&ZSTD_MAGIC) { Ok(()) } else { Err("bytes that begin in another way".into()) }
}

/// What is wrong where a frame ends before its bytes do.
fn bytes_behind(count: usize) -> String {
    format!("{count} bytes behind the frame")
}

#[cfg(test)]
mod tests {
    use super::{c_library, in_rust};

    fn both(stored: &[u8], room: usize) -> [Result<Vec<u8>, ()>; 2] {
        let by_c = c_library::check_one_frame(stored).and_then(|()| {
            let mut raw = vec![0; room];
            let bytes = c_library::Decoder::new()?.decode(stored, &mut raw)?;
            raw.truncate(bytes);
            Ok(raw)
        });
        let by_rust = in_rust::check_one_frame(stored).and_then(|()| {
            let mut raw = vec![0; room];
            let bytes = in_rust::Decoder::new()?.decode(stored, &mut raw)?;
            raw.truncate(bytes);
            Ok(raw)
        });
        [by_c.map_err(drop), by_rust.map_err(drop)]
    }

    /// Bytes that compress, of both kinds of blocks, and longer than one block.
    fn text() -> Vec<u8> {
        (0..300_000_u32).map(|i| if i % 7 < 3 { (i.wrapping_mul(i) >> 5) as u8 } else { b'q' }).collect()
    }

    #[test]
    fn both_decoders_read_what_was_written() {
        for raw in [&[][..], b"q", &[7; 1000], &text()] {
            let stored = c_library::compress(raw).unwrap();
            assert_eq!(both(&stored, raw.len()), [Ok(raw.to_vec()), Ok(raw.to_vec())]);
            assert_eq!(in_rust::stated_size(&stored), c_library::stated_size(&stored));
        }
    }

    #[test]
    fn both_decoders_refuse_frames_that_are_longer_shorter_or_followed_by_more() {
        let raw = text();
        let stored = c_library::compress(&raw).unwrap();
        assert_eq!(both(&stored, raw.len() - 1), [Err(()), Err(())], "no room");
        assert_eq!(both(&[&stored[..], &[0]].concat(), raw.len()), [Err(()), Err(())], "a byte behind it");
        for cut in [0, 3, 4, 5, 9, 100, stored.len() - 1] {
            assert_eq!(both(&stored[..cut], raw.len()), [Err(()), Err(())], "cut at {cut}");
        }
        // A frame that can be passed over, and a header that says another size than there is.
        assert_eq!(both(&[0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 0], 9), [Err(()), Err(())]);
        let mut other_size = stored;
        let size_at = 5;
        assert_eq!(other_size[size_at..size_at + 4], 300_000_u32.to_le_bytes());
        other_size[size_at..size_at + 4].copy_from_slice(&300_001_u32.to_le_bytes());
        assert_eq!(both(&other_size, 300_001), [Err(()), Err(())]);
    }

    #[test]
    fn what_is_flipped_is_an_error_or_other_bytes_and_never_more_than_there_is_room_for() {
        let raw = text();
        let stored = c_library::compress(&raw).unwrap();
        for at in (0..stored.len()).step_by(stored.len() / 300) {
            let mut flipped = stored.clone();
            flipped[at] ^= 0x20;
            let [_, by_rust] = both(&flipped, raw.len());
            assert!(by_rust.is_err() || by_rust.is_ok_and(|found| found.len() <= raw.len()), "byte {at}");
        }
    }

    #[test]
    fn a_window_beyond_every_use_is_refused_before_there_is_memory_for_it() {
        // No single segment, no stated size; a window of 2^41 bytes; one raw block of one byte, the last.
        let stored = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xF8, 0x09, 0x00, 0x00, b'q'];
        let mut raw = [0; 1];
        assert!(in_rust::Decoder::new().unwrap().decode(&stored, &mut raw).is_err());
    }
}
