//! Codes of 1 to 8 bits one behind the other, the first in the lowest bits of the first byte.

/// The codes of a row as floats, of any width from 2 to 8 bits.
///
/// # Panics
/// When there are fewer bytes than codes take.
pub fn unpack_codes(bits: u32, codes: &[u8], out: &mut [f32]) {
    match bits {
        2 => unpack::<2>(codes, out),
        3 => unpack::<3>(codes, out),
        4 => unpack::<4>(codes, out),
        5 => unpack::<5>(codes, out),
        6 => unpack::<6>(codes, out),
        7 => unpack::<7>(codes, out),
        _ => unpack::<8>(codes, out),
    }
}

/// Codes of `bits` bits into whole bytes, of which `out` has as many as they take.
pub fn pack_codes(bits: u32, codes: &[u8], out: &mut [u8]) {
    out.fill(0);
    for (i, code) in codes.iter().enumerate() {
        let at = i * bits as usize;
        let word = u16::from(*code) << (at % 8);
        for (byte, part) in out[at / 8..].iter_mut().zip(word.to_le_bytes()) {
            *byte |= part;
        }
    }
}

/// Codes of `BITS` bits. Eight of them are `BITS` bytes.
fn unpack<const BITS: usize>(codes: &[u8], out: &mut [f32]) {
    let (eights, rest) = out.as_chunks_mut();
    let (whole, last) = codes.split_at(eights.len() * BITS);
    let (whole, _) = whole.as_chunks();
    for (out, codes) in eights.iter_mut().zip(whole) {
        *out = eight_codes::<BITS>(codes);
    }
    if !rest.is_empty() {
        let mut codes = [0; BITS];
        codes[..last.len()].copy_from_slice(last);
        rest.copy_from_slice(&eight_codes(&codes)[..rest.len()]);
    }
}

fn eight_codes<const BITS: usize>(codes: &[u8; BITS]) -> [f32; 8] {
    let mut bytes = [0; 8];
    bytes[..BITS].copy_from_slice(codes);
    let word = u64::from_le_bytes(bytes);
    // Through a type that vector units convert.
    std::array::from_fn(|i| (word >> (BITS * i) & ((1 << BITS) - 1)) as i32 as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_every_width_come_out_as_they_went_in() {
        for bits in 2..=8u32 {
            for count in [1usize, 7, 8, 9, 32, 45] {
                let codes: Vec<u8> =
                    (0..count).map(|i| (i * 73 + 5) as u8 & ((1u32 << bits) - 1) as u8).collect();
                let mut bytes = vec![0xFF; (count * bits as usize).div_ceil(8)];
                pack_codes(bits, &codes, &mut bytes);
                let mut out = vec![0.0; count];
                unpack_codes(bits, &bytes, &mut out);
                assert_eq!(out, codes.iter().map(|&code| f32::from(code)).collect::<Vec<_>>(), "{bits} bits");
            }
        }
    }
}
