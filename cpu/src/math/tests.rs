use super::super::vector::{self, VectorWork};
use super::*;

/// Distance in steps between floats at the exact value.
fn ulps(value: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    let step = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
    (f64::from(value) - exact).abs() / step
}

fn worst(range: (f32, f32), f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
    let n = 400_000;
    let mut worst = (0.0, 0.0);
    for i in 0..=n {
        let x = range.0 + (range.1 - range.0) * (i as f32 / n as f32);
        let error = ulps(f(x), exact(f64::from(x)));
        if error > worst.0 || error.is_nan() {
            worst = (error, x);
        }
    }
    println!("worst {worst:?} in {range:?}");
    worst.0
}

#[test]
fn exp_is_within_two_steps_where_the_result_is_normal() {
    assert!(worst((-87.3, 88.7), exp, libm::exp) <= 2.0);
    assert!(worst((-1.0, 1.0), exp, libm::exp) <= 2.0);
    assert!(worst((-105.0, -87.3), exp, libm::exp) <= 2.0);
}

#[test]
fn exp_saturates_and_lets_nan_through() {
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(exp(-1e30), 0.0);
    assert_eq!(exp(-104.5), 0.0);
    assert_eq!(exp(f32::INFINITY), f32::INFINITY);
    assert_eq!(exp(1e30), f32::INFINITY);
    assert!(exp(88.72).is_finite() && exp(88.73).is_infinite());
    assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
}

#[test]
fn tanh_is_within_four_steps_and_odd() {
    assert!(worst((-10.0, 10.0), tanh, libm::tanh) <= 4.0);
    assert!(worst((-0.01, 0.01), tanh, libm::tanh) <= 4.0);
    assert_eq!(tanh(f32::INFINITY), 1.0);
    assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
    assert_eq!(tanh(1e-30), 1e-30);
    assert_eq!(tanh(-0.0).to_bits(), (-0.0f32).to_bits());
    assert!(tanh(f32::NAN).is_nan());
}

#[test]
fn sigmoid_and_silu_are_within_four_steps() {
    let exact = |x: f64| 1.0 / (1.0 + libm::exp(-x));
    assert!(worst((-87.0, 100.0), sigmoid, exact) <= 4.0);
    assert!(worst((-87.0, 100.0), silu, |x| x * exact(x)) <= 4.0);
    assert_eq!((sigmoid(-200.0), silu(-200.0)), (0.0, -0.0));
}

#[test]
fn softplus_is_within_four_steps_and_lets_infinity_and_nan_through() {
    let exact = |x: f64| libm::log1p(libm::exp(x));
    assert!(worst((-87.0, 100.0), softplus, exact) <= 4.0);
    assert!(worst((-1.0, 1.0), softplus, exact) <= 4.0);
    assert_eq!((softplus(-200.0), softplus(f32::INFINITY)), (0.0, f32::INFINITY));
    assert!(softplus(f32::NAN).is_nan());
}

#[test]
fn gelu_tanh_is_within_its_stated_error() {
    let root = (2.0 / std::f64::consts::PI).sqrt();
    let u = move |x: f64| root * (x + 0.044715 * x * x * x);
    // (1 + tanh u) / 2 in the form that keeps its digits in f64 too.
    let exact = move |x: f64| x / (1.0 + libm::exp(-2.0 * u(x)));
    assert!(worst((-1.0, 30.0), gelu_tanh, exact) <= 4.0);
    for from in -7..-1 {
        let from = from as f32;
        assert!(worst((from, from + 1.0), gelu_tanh, exact) <= 4.0 + 8.0 * u(f64::from(from)).abs());
    }
    assert_eq!((gelu_tanh(1e20), gelu_tanh(-1e20), gelu_tanh(0.0)), (1e20, -0.0, 0.0));
}

#[test]
fn gelu_erf_is_within_its_stated_error() {
    let exact = |x: f64| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    assert!(worst((-1.0, 30.0), gelu_erf, exact) <= 4.0);
    for from in -13..-1 {
        let from = from as f32;
        assert!(worst((from, from + 1.0), gelu_erf, exact) <= 4.0 + 2.0 * f64::from(from * from));
    }
    assert_eq!((gelu_erf(1e20), gelu_erf(-1e20), gelu_erf(0.0)), (1e20, -0.0, 0.0));
    assert!(gelu_erf(f32::NAN).is_nan());
}

#[test]
fn softmax_sums_to_one_and_survives_large_and_masked_scores() {
    for isa in Isa::available() {
        for n in [1, 15, 16, 33, 1000] {
            let scores: Vec<f32> = (0..n).map(|i| 300.0 + ((i * 37) % 101) as f32 * 0.1).collect();
            let mut p = scores.clone();
            softmax_in_place(isa, &mut p);
            let total: f64 = scores.iter().map(|&s| libm::exp(f64::from(s) - 310.0)).sum();
            for (p, s) in p.iter().zip(&scores) {
                let exact = libm::exp(f64::from(*s) - 310.0) / total;
                assert!((f64::from(*p) - exact).abs() <= 2e-6 * exact, "{p} {exact}");
            }
        }
        let mut masked = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        softmax_in_place(isa, &mut masked);
        assert_eq!(masked, [0.0, 1.0, 0.0]);
        let mut broken = [0.0, f32::NAN, 1.0];
        softmax_in_place(isa, &mut broken);
        assert!(broken.iter().all(|v| v.is_nan()));
        softmax_in_place(isa, &mut []);
    }
}

#[test]
fn log_sum_exp_is_the_logarithm_of_the_sum_on_every_instruction_set() {
    let values: Vec<f32> = (0..50_257).map(|i| ((i * 7_919) % 4_001) as f32 * 0.01 - 20.0).collect();
    let exact = values.iter().map(|&v| libm::exp(f64::from(v))).sum::<f64>().ln();
    let reference = log_sum_exp(Isa::SCALAR, &values);
    assert!((reference - exact).abs() < 1e-6, "{reference} {exact}");
    for isa in Isa::available() {
        assert_eq!(log_sum_exp(isa, &values).to_bits(), reference.to_bits(), "{isa:?}");
        assert_eq!(log_sum_exp(isa, &[]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp(isa, &[f32::NEG_INFINITY; 3]), f64::NEG_INFINITY);
        assert!(log_sum_exp(isa, &[0.0, f32::NAN]).is_nan());
    }
}

#[test]
fn functions_give_the_same_bits_on_every_instruction_set() {
    struct All<'a>(&'a [f32], [Vec<u32>; 6]);
    impl Vectorized for All<'_> {
        type Output = [Vec<u32>; 6];
        #[inline(always)]
        fn run(mut self) -> [Vec<u32>; 6] {
            for &x in self.0 {
                self.1[0].push(exp(x).to_bits());
                self.1[1].push(tanh(x).to_bits());
                self.1[2].push(gelu_tanh(x).to_bits());
                self.1[3].push(silu(x).to_bits());
                self.1[4].push(gelu_erf(x).to_bits());
                self.1[5].push(softplus(x).to_bits());
            }
            self.1
        }
    }
    let x: Vec<f32> = (0..10_000).map(|i| (i as f32 - 5_000.0) * 0.021).collect();
    let expected = Isa::SCALAR.vectorize(All(&x, Default::default()));
    for isa in Isa::available() {
        assert!(isa.vectorize(All(&x, Default::default())) == expected, "{isa:?}");
    }
}

#[test]
fn the_short_exponential_is_near_and_has_the_same_bits_everywhere() {
    struct Short<'a>(&'a [f32], &'a mut Vec<f32>);
    impl VectorWork for Short<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            for x in self.0.as_chunks::<LANES>().0 {
                self.1.extend(short_exp_of_small(V::from_lanes(x)).to_lanes());
            }
        }
    }
    let mut small: Vec<f32> = (0..48_000).map(|i| i as f32 * -0.001).collect();
    small[..4].copy_from_slice(&[0.0, -0.0, f32::NEG_INFINITY, f32::MIN]);
    let mut expected = Vec::new();
    vector::run(Isa::SCALAR, Short(&small, &mut expected));
    for (x, found) in small.iter().zip(&expected) {
        let exact = f64::from(*x).exp();
        let error = (f64::from(*found) - exact).abs();
        assert!(error <= 3e-6 * exact || *x < -44.0 && error < 1e-19, "{x}: {found}, expected {exact}");
    }
    for isa in Isa::available() {
        let mut found = Vec::new();
        vector::run(isa, Short(&small, &mut found));
        assert!(found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa:?}");
        let mut nan = Vec::new();
        vector::run(isa, Short(&[f32::NAN; LANES], &mut nan));
        assert!(nan.iter().all(|value| value.is_nan()), "{isa:?}");
    }
}

#[test]
fn functions_in_registers_have_the_bits_of_the_others() {
    struct InRegisters<'a>(&'a [f32], bool, &'a mut Vec<u32>);
    impl VectorWork for InRegisters<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            for x in self.0.as_chunks::<LANES>().0 {
                let x = V::from_lanes(x);
                let y = if self.1 { silu_of(x) } else { exp_of_small(x) };
                self.2.extend(y.to_lanes().map(f32::to_bits));
            }
        }
    }
    let mut small: Vec<f32> = (0..48_000).map(|i| (i as f32 - 28_000.0) * 0.004).collect();
    small[..8].copy_from_slice(&[0.0, -0.0, f32::NEG_INFINITY, f32::MIN, -104.5, -87.5, -1e-30, 89.0]);
    let mut any: Vec<f32> = (0..48_000).map(|i| (i as f32 - 24_000.0) * 0.005).collect();
    any[..8].copy_from_slice(&[0.0, -0.0, f32::MIN, f32::MAX, f32::INFINITY, -89.0, -88.72, 1e-30]);
    let exps: Vec<u32> = small.iter().map(|x| exp(*x).to_bits()).collect();
    let silus: Vec<u32> = any.iter().map(|x| silu(*x).to_bits()).collect();
    for isa in Isa::available() {
        for (x, is_silu, expected) in [(&small, false, &exps), (&any, true, &silus)] {
            let mut found = Vec::new();
            vector::run(isa, InRegisters(x, is_silu, &mut found));
            assert!(found == *expected, "{isa:?} {is_silu}");
            let mut nan = Vec::new();
            vector::run(isa, InRegisters(&[f32::NAN; LANES], is_silu, &mut nan));
            assert!(nan.iter().all(|bits| f32::from_bits(*bits).is_nan()), "{isa:?} {is_silu}");
        }
    }
}
