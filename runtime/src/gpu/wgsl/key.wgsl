// A key of the bits of a logit: it grows with the logit, and is 0 for NaN and negative infinity, which are never chosen. By integers, as
// kernels may take it for granted that floats are numbers. Zeros are equal, and infinity is the largest number, as for the CPU's sampler.
fn key(bits: u32) -> u32 {
    if ((bits & 0x7fffffffu) > 0x7f800000u || bits == 0xff800000u) { return 0u; }
    if (bits > 0x80000000u) { return ~bits; }
    return min(bits & 0x7fffffffu, 0x7f7fffffu) | 0x80000000u;
}
