//! A row of logits as codes of 16 bits: how far each logit is below the largest, by a square law.
//!
//! A code `c` of a row whose logits span `range` stands for `range * (c / 65535)^2` below the largest. So steps are fine where
//! probabilities are large, and coarse where they are small: at `x` below the largest a log-probability is off by
//! `sqrt(range * x) / 65535` at most. For a range of 40 these are 0.0001 at 1 and 0.0004 at 16.

/// The largest code.
const TOP: f32 = 65_535.0;

/// Codes of the row `logits`, whose bytes go behind those of `out`; its range. `None` where a logit is not finite.
pub(super) fn encode(logits: &[f32], out: &mut Vec<u8>) -> Option<f32> {
    let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
    for logit in logits {
        // `min` and `max` leave out NaN.
        if !logit.is_finite() {
            return None;
        }
        (least, most) = (least.min(*logit), most.max(*logit));
    }
    let range = most - least;
    if !range.is_finite() {
        return None;
    }
    let scale = if range > 0.0 { range.recip() } else { 0.0 };
    for logit in logits {
        let code = (TOP * ((most - logit) * scale).sqrt()).min(TOP).round_ties_even() as u16;
        out.extend(code.to_le_bytes());
    }
    Some(range)
}

/// The logits that codes stand for; the largest is 0.
pub(super) fn decode(codes: &[[u8; 2]], range: f32, out: &mut [f32]) {
    for (code, logit) in codes.iter().zip(out) {
        let part = f32::from(u16::from_le_bytes(*code)) / TOP;
        *logit = -(range * (part * part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_come_back_as_near_as_is_said_and_the_largest_exactly() {
        let logits: Vec<f32> = (0..50_000).map(|i| ((i * 7_919) % 50_021) as f32 * 0.0008 - 17.0).collect();
        let mut bytes = Vec::new();
        let range = encode(&logits, &mut bytes).unwrap();
        let mut found = vec![0.0; logits.len()];
        decode(bytes.as_chunks::<2>().0, range, &mut found);
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        for (logit, found) in logits.iter().zip(&found) {
            let below = most - logit;
            // And what f32 rounds.
            let bound = (range * below).sqrt() / TOP + 4e-6 * (1.0 + below);
            assert!((found + below).abs() <= bound, "{logit}: {found}, {below} below, bound {bound}");
            assert_eq!(*found == 0.0, below == 0.0);
        }
    }

    #[test]
    fn rows_of_one_value_and_broken_rows_are_told_apart() {
        let mut bytes = Vec::new();
        assert_eq!(encode(&[3.0; 4], &mut bytes), Some(0.0));
        let mut found = [1.0; 4];
        decode(bytes.as_chunks::<2>().0, 0.0, &mut found);
        assert_eq!(found, [0.0; 4]);
        for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(encode(&[1.0, broken], &mut bytes), None);
        }
        assert_eq!(encode(&[f32::MAX, f32::MIN], &mut bytes), None);
    }
}
