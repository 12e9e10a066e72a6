//! Float arithmetic in one fixed order: 16 lanes, fused multiply-add, one tree at the end. What is computed this way has
//! the same bits on every processor and instruction set, so that conversion and calibration are reproducible.
//!
//! Everything here is `#[inline(always)]`: called inside [`Vectorized`](super::Vectorized) work, the compiler turns the
//! 16 lanes into the registers of the instruction set.

/// Number of lanes.
pub const LANES: usize = 16;

/// One value per lane.
pub type Lanes = [f32; LANES];

/// Sum of all lanes: halves are added until one is left.
#[inline(always)]
pub fn sum(lanes: Lanes) -> f32 {
    let mut v8 = [0.0; 8];
    for i in 0..8 {
        v8[i] = lanes[i] + lanes[i + 8];
    }
    let mut v4 = [0.0; 4];
    for i in 0..4 {
        v4[i] = v8[i] + v8[i + 4];
    }
    (v4[0] + v4[2]) + (v4[1] + v4[3])
}

/// `acc + a * b` in every lane, rounded once.
#[inline(always)]
pub fn mul_add(acc: &mut Lanes, a: &Lanes, b: &Lanes) {
    #[cfg(target_feature = "simd128")]
    {
        *acc = fma(a, b, *acc);
    }
    #[cfg(not(target_feature = "simd128"))]
    for i in 0..LANES {
        acc[i] = a[i].mul_add(b[i], acc[i]);
    }
}

/// `a * b + acc` in every lane, rounded once; [`mul_add`] by value.
#[inline(always)]
#[must_use]
pub fn fma(a: &Lanes, b: &Lanes, acc: Lanes) -> Lanes {
    #[cfg(target_feature = "simd128")]
    return crate::fused::fused_lanes(a, b, &acc);
    #[cfg(not(target_feature = "simd128"))]
    {
        let mut out = [0.0; LANES];
        for i in 0..LANES {
            out[i] = a[i].mul_add(b[i], acc[i]);
        }
        out
    }
}

/// The first 16 values of `values`, zeros where there are fewer.
#[inline(always)]
pub fn load(values: &[f32]) -> Lanes {
    let mut lanes = [0.0; LANES];
    if let Some(full) = values.first_chunk::<LANES>() {
        lanes = *full;
    } else {
        lanes[..values.len()].copy_from_slice(values);
    }
    lanes
}

/// Dot product: element i goes to lane i % 16, in ascending order.
///
/// # Panics
/// When the lengths differ.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let mut acc = [0.0; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        mul_add(&mut acc, &load(a), &load(b));
    }
    sum(acc)
}
/// The largest magnitude; NaN, which is above infinity, where there is one.
#[inline(always)]
pub fn largest_magnitude(values: &[f32]) -> f32 {
    // As integers magnitudes order like the floats, and the maximum is that of whole vectors.
    let mut top = 0;
    for value in values {
        top = top.max(value.to_bits() & 0x7FFF_FFFF);
    }
    f32::from_bits(top)
}
