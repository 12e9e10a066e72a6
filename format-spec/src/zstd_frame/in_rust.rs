//! Frames by a decoder in Rust.

#![cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "only tests"))]

use std::io::{Error, ErrorKind, Read};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{bytes_behind, check_magic};

/// Largest window. The decoder keeps one beside the output; RFC 8878 (section 3.1.1.1.2) wants 8 MiB of all decoders. A frame in a
/// single segment has its size for a window, which is bounded before.
const MAX_WINDOW: u64 = 8 << 20;

/// Nothing writes files here.
pub(crate) fn compress(_raw: &[u8]) -> std::io::Result<Vec<u8>> {
    Err(Error::from(ErrorKind::Unsupported))
}

/// Checks that `stored` begins as a frame with content does. Where it ends is known when it is [decoded](Decoder::decode).
pub(crate) fn check_one_frame(stored: &[u8]) -> Result<(), String> {
    check_magic(stored)
}

/// The bytes that the frame says it has (RFC 8878, section 3.1.1.1).
pub(crate) fn stated_size(stored: &[u8]) -> Option<u64> {
    let descriptor = *stored.get(4)?;
    let single_segment = descriptor >> 5 & 1 == 1;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let at = 5 + usize::from(!single_segment) + dictionary;
    let field = |bytes: usize| {
        let field = stored.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    match descriptor >> 6 {
        0 if !single_segment => None,
        0 => field(1),
        1 => field(2).map(|value| value + 256),
        2 => field(4),
        _ => field(8),
    }
}

/// What decodes frames.
pub(crate) struct Decoder(FrameDecoder);

impl Decoder {
    /// # Errors
    /// None here.
    pub(crate) fn new() -> Result<Decoder, String> {
        Ok(Decoder(FrameDecoder::new()))
    }

    /// The frame, which is all of `stored`, into `raw`; gives how many bytes it has.
    ///
    /// # Errors
    /// When it is damaged, is followed by more, has more bytes than there is room for, or needs a larger window than there is.
    pub(crate) fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<usize, String> {
        let stated = stated_size(stored);
        if let Some(bytes) = stated.filter(|&bytes| bytes > raw.len() as u64) {
            return Err(format!("{bytes} bytes"));
        }
        let decoder = &mut self.0;
        decoder.set_max_window_size(MAX_WINDOW.max(raw.len() as u64));
        let mut rest = stored;
        decoder.reset(&mut rest).map_err(|e| e.to_string())?;
        let mut at = 0;
        while !decoder.is_finished() {
            decoder
                .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|e| e.to_string())?;
            at += decoder.read(&mut raw[at..]).map_err(|e| e.to_string())?;
            // What is left in the decoder while there is room is its window.
            if at == raw.len() && decoder.can_collect() > 0 {
                return Err(format!("more than {at} bytes"));
            }
        }
        if !rest.is_empty() {
            return Err(bytes_behind(rest.len()));
        }
        match stated {
            Some(bytes) if bytes != at as u64 => Err(format!("{at} bytes where it says {bytes}")),
            _ => Ok(at),
        }
    }

    /// The frame as at most as many bytes as `raw`, which is empty, has room for.
    ///
    /// # Errors
    /// As of [`Decoder::decode`].
    pub(crate) fn decode_to_vec(&mut self, stored: &[u8], raw: &mut Vec<u8>) -> Result<(), String> {
        raw.resize(raw.capacity(), 0);
        let decoded = self.decode(stored, raw);
        raw.truncate(*decoded.as_ref().unwrap_or(&0));
        decoded.map(drop)
    }
}
