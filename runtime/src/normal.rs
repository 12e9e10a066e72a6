//! The standard normal distribution, by which gates are cut off.

/// How large a part of it is below `x`.
pub(crate) fn part_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Where so large a part of it is below, by halving an interval that holds it.
pub(crate) fn normal_quantile(part: f32) -> f32 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if part_below(middle) < f64::from(part) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (0.5 * (low + high)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution_are_those_of_tables() {
        // Python's statistics.NormalDist().inv_cdf of the same f32.
        for (part, expected) in [(0.95, 1.644_853_5), (0.5, 0.0), (0.1, -1.281_551_6), (0.999, 3.090_236_2)] {
            let found = normal_quantile(part);
            assert!((found - expected).abs() < 2e-6, "{part}: {found}");
        }
    }
}
