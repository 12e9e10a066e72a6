//! Which conversion an unfinished one is.

/// Bytes of a [`Fingerprint`].
pub(crate) const FINGERPRINT_BYTES: usize = 32;

/// SHA-256 of everything that the result depends on.
pub(crate) type Fingerprint = [u8; FINGERPRINT_BYTES];
