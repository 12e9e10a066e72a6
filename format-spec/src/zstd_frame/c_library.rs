//! Frames by the C library.

use super::{bytes_behind, check_magic};

/// Weights compress alike at every level (docs/measurements/format.md); 3 is zstd's default.
const ZSTD_LEVEL: i32 = 3;

/// `raw` as one frame.
pub(crate) fn compress(raw: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::bulk::compress(raw, ZSTD_LEVEL)
}

/// Checks that `stored` is one frame with content, and nothing else.
pub(crate) fn check_one_frame(stored: &[u8]) -> Result<(), String> {
    check_magic(stored)?;
    match zstd::zstd_safe::find_frame_compressed_size(stored) {
        Ok(bytes) if bytes == stored.len() => Ok(()),
        Ok(bytes) => Err(bytes_behind(stored.len().saturating_sub(bytes))),
        Err(code) => Err(zstd::zstd_safe::get_error_name(code).to_owned()),
    }
}

/// The bytes that the frame says it has. It may keep that to itself.
pub(crate) fn stated_size(stored: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(stored).ok().flatten()
}

/// What decodes frames, with the memory that it needs.
pub(crate) struct Decoder(zstd::bulk::Decompressor<'static>);

impl Decoder {
    /// # Errors
    /// When memory runs out.
    pub(crate) fn new() -> Result<Decoder, String> {
        zstd::bulk::Decompressor::new().map(Decoder).map_err(|e| e.to_string())
    }

    /// The frame, which was [checked](check_one_frame), into `raw`; gives how many bytes it has. In one go, so that no window is
    /// kept beside the output, whatever the frame asks for.
    ///
    /// # Errors
    /// When it is damaged, or has more bytes than there is room for.
    pub(crate) fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<usize, String> {
        self.0.decompress_to_buffer(stored, raw).map_err(|e| e.to_string())
    }

    /// The frame, which was [checked](check_one_frame), as at most as many bytes as `raw`, which is empty, has room for.
    ///
    /// # Errors
    /// As of [`Decoder::decode`].
    pub(crate) fn decode_to_vec(&mut self, stored: &[u8], raw: &mut Vec<u8>) -> Result<(), String> {
        self.0.decompress_to_buffer(stored, raw).map(drop).map_err(|e| e.to_string())
    }
}
