//! Operations on each value of its own.

use super::function::Function;
use super::isa::{Isa, Vectorized};
use super::math::{sigmoid, tanh};

/// `x += y`.
///
/// # Panics
/// When the lengths differ.
pub fn add_assign(isa: Isa, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "sum of different lengths");
    isa.vectorize(AddAssign { x, y });
}

/// `x += factor * y`.
///
/// # Panics
/// When the lengths differ.
pub fn add_scaled(isa: Isa, x: &mut [f32], factor: f32, y: &[f32]) {
    assert_eq!(x.len(), y.len(), "sum of different lengths");
    isa.vectorize(AddScaled { x, factor, y });
}

/// `x *= factor`.
pub fn scale(isa: Isa, x: &mut [f32], factor: f32) {
    isa.vectorize(Scale { x, factor });
}

/// `x = cap * tanh(x / cap)`.
pub fn softcap(isa: Isa, x: &mut [f32], cap: f32) {
    isa.vectorize(Softcap { x, cap });
}

/// `x = min(limit, max(-limit, x))`.
pub fn clip(isa: Isa, x: &mut [f32], limit: f32) {
    isa.vectorize(Clip { x, limit });
}

/// `x = function(x)`.
pub fn activate(isa: Isa, function: Function, x: &mut [f32]) {
    isa.vectorize(Activate { function, x });
}

/// `gate = function(gate) * up`.
///
/// # Panics
/// When the lengths differ.
pub fn gated(isa: Isa, function: Function, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "product of different lengths");
    isa.vectorize(Gated { function, gate, up });
}

/// `x *= y`.
///
/// # Panics
/// When the lengths differ.
pub fn multiply(isa: Isa, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "product of different lengths");
    isa.vectorize(Multiply { x, y });
}

struct Multiply<'a> {
    x: &'a mut [f32],
    y: &'a [f32],
}

impl Vectorized for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (x, y) in self.x.iter_mut().zip(self.y) {
            *x *= y;
        }
    }
}

/// `x *= sigmoid(gate)`.
///
/// # Panics
/// When the lengths differ.
pub fn sigmoid_gated(isa: Isa, x: &mut [f32], gate: &[f32]) {
    assert_eq!(x.len(), gate.len(), "product of different lengths");
    isa.vectorize(SigmoidGated { x, gate });
}

struct SigmoidGated<'a> {
    x: &'a mut [f32],
    gate: &'a [f32],
}

impl Vectorized for SigmoidGated<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (x, gate) in self.x.iter_mut().zip(self.gate) {
            *x *= sigmoid(*gate);
        }
    }
}

struct AddAssign<'a> {
    x: &'a mut [f32],
    y: &'a [f32],
}

impl Vectorized for AddAssign<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (x, y) in self.x.iter_mut().zip(self.y) {
            *x += y;
        }
    }
}

struct AddScaled<'a> {
    x: &'a mut [f32],
    factor: f32,
    y: &'a [f32],
}

impl Vectorized for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (x, y) in self.x.iter_mut().zip(self.y) {
            *x += self.factor * y;
        }
    }
}

struct Scale<'a> {
    x: &'a mut [f32],
    factor: f32,
}

impl Vectorized for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.x.iter_mut().for_each(|x| *x *= self.factor);
    }
}

struct Softcap<'a> {
    x: &'a mut [f32],
    cap: f32,
}

impl Vectorized for Softcap<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.x.iter_mut().for_each(|x| *x = self.cap * tanh(*x / self.cap));
    }
}

struct Clip<'a> {
    x: &'a mut [f32],
    limit: f32,
}

impl Vectorized for Clip<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // NaN stays NaN.
        self.x.iter_mut().for_each(|x| *x = x.clamp(-self.limit, self.limit));
    }
}

struct Activate<'a> {
    function: Function,
    x: &'a mut [f32],
}

impl Vectorized for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.function.apply(self.x);
    }
}

struct Gated<'a> {
    function: Function,
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl Vectorized for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.function.gate(self.gate, self.up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Function; 7] = [
        Function::GeluErf,
        Function::GeluTanh,
        Function::Silu,
        Function::Relu,
        Function::Relu2,
        Function::Xielu { above: 0.75, below: 0.5 },
        Function::ClippedSilu { alpha: 1.0, limit: 5.0 },
    ];

    #[test]
    fn functions_have_the_values_of_their_formulas() {
        let at_one = [0.841_344_7, 0.841_192, 0.731_058_6, 1.0, 1.0, 1.25, 0.731_058_6];
        let at_minus_one = [-0.158_655_3, -0.158_808, -0.268_941_4, 0.0, 0.0, -0.316_060_3, -0.268_941_4];
        for isa in Isa::available() {
            for ((function, at_one), at_minus_one) in ALL.into_iter().zip(at_one).zip(at_minus_one) {
                let mut x = [1.0, 0.0, -1.0];
                activate(isa, function, &mut x);
                assert!((x[0] - at_one).abs() < 1e-6, "{function:?} {}", x[0]);
                assert!((x[2] - at_minus_one).abs() < 1e-6, "{function:?} {}", x[2]);
                // xIELU cuts its exponential off just below 0.
                assert!(x[1].abs() < 1e-6, "{function:?}");
                let mut nan = [f32::NAN];
                activate(isa, function, &mut nan);
                assert!(nan[0].is_nan(), "{function:?}");
            }
            let mut far = [-100.0, 30.0];
            activate(isa, Function::Silu, &mut far);
            assert!(far[0].abs() < 1e-30 && far[1] == 30.0);
        }
    }

    #[test]
    fn limits_hold_for_the_gate_above_and_for_what_it_multiplies_on_both_sides() {
        let function = Function::ClippedSilu { alpha: 1.702, limit: 7.0 };
        let (gate, up) = ([9.0, -9.0, 1.0, 7.0, f32::NAN], [0.0, 8.0, -8.0, 7.0, 0.0]);
        let exact = |gate: f64, up: f64| gate / (1.0 + (-1.702 * gate).exp()) * (up + 1.0);
        let expected = [exact(7.0, 0.0), exact(-9.0, 7.0), exact(1.0, -7.0), exact(7.0, 7.0)];
        for isa in Isa::available() {
            let mut out = gate;
            gated(isa, function, &mut out, &up);
            for (out, expected) in out.iter().zip(expected) {
                assert!((f64::from(*out) - expected).abs() < 1e-5, "{out} {expected}");
            }
            assert!(out[4].is_nan());
        }
    }

    #[test]
    fn scaling_and_caps_have_the_values_of_their_formulas() {
        for isa in Isa::available() {
            let mut x: Vec<f32> = (0..37).map(|i| i as f32 - 18.0).collect();
            let y = x.clone();
            softcap(isa, &mut x, 10.0);
            for (x, y) in x.iter().zip(&y) {
                assert!((f64::from(*x) - 10.0 * (f64::from(*y) / 10.0).tanh()).abs() < 1e-5, "{x} {y}");
            }
            let capped = x.clone();
            scale(isa, &mut x, 0.5);
            add_scaled(isa, &mut x, 0.5, &capped);
            assert_eq!(x, capped);
        }
    }

    #[test]
    fn a_sigmoid_gate_has_its_values_and_the_same_on_every_instruction_set() {
        let gate: Vec<f32> = (0..37).map(|i| i as f32 * 0.7 - 12.0).collect();
        let mut expected = vec![3.0; 37];
        sigmoid_gated(Isa::SCALAR, &mut expected, &gate);
        for (x, gate) in expected.iter().zip(&gate) {
            assert!((f64::from(*x) - 3.0 / (1.0 + f64::from(-gate).exp())).abs() < 1e-6, "{x} {gate}");
        }
        for isa in Isa::available() {
            let mut x = vec![3.0; 37];
            sigmoid_gated(isa, &mut x, &gate);
            assert_eq!(x, expected, "{isa:?}");
            multiply(isa, &mut x, &gate);
            assert!(x.iter().zip(&expected).zip(&gate).all(|((x, e), gate)| *x == e * gate));
        }
    }

    #[test]
    fn a_gate_is_activated_and_multiplied_and_the_same_on_every_instruction_set() {
        for function in ALL {
            for n in [1, 31, 33, 63, 65] {
                let gate: Vec<f32> = (0..n).map(|i| i as f32 * 0.3 - 7.0).collect();
                let up: Vec<f32> = (0..n).map(|i| 2.0 - i as f32 * 0.1).collect();
                let mut expected = gate.clone();
                let factor = |up: f32| match function {
                    Function::ClippedSilu { limit, .. } => 1.0 + up.clamp(-limit, limit),
                    _ => up,
                };
                activate(Isa::SCALAR, function, &mut expected);
                expected.iter_mut().zip(&up).for_each(|(x, up)| *x *= factor(*up));
                for isa in Isa::available() {
                    let mut out = gate.clone();
                    gated(isa, function, &mut out, &up);
                    assert_eq!(out, expected, "{function:?} {isa:?}");
                    add_assign(isa, &mut out, &up);
                    assert!(out.iter().zip(&expected).zip(&up).all(|((o, e), u)| *o == e + u));
                }
            }
        }
    }
}
