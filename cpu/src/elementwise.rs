//! Operations on each value of its own.

use qsf_format::Activation;

use super::isa::{Isa, Vectorized};
use super::math::{gelu_erf, gelu_tanh, sigmoid, silu, tanh};

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

/// `x = activation(x)`.
pub fn activate(isa: Isa, activation: Activation, x: &mut [f32]) {
    isa.vectorize(Activate { activation, x });
}

/// `gate = activation(gate) * up`.
///
/// # Panics
/// When the lengths differ.
pub fn gated(isa: Isa, activation: Activation, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "product of different lengths");
    isa.vectorize(Gated { activation, gate, up });
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

struct Activate<'a> {
    activation: Activation,
    x: &'a mut [f32],
}

impl Vectorized for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // One loop per function: a choice inside the loop would keep it from becoming vector code.
        match self.activation {
            Activation::GeluErf => self.x.iter_mut().for_each(|x| *x = gelu_erf(*x)),
            Activation::GeluTanh => self.x.iter_mut().for_each(|x| *x = gelu_tanh(*x)),
            Activation::Silu => self.x.iter_mut().for_each(|x| *x = silu(*x)),
            Activation::Relu => self.x.iter_mut().for_each(|x| *x = relu(*x)),
        }
    }
}

struct Gated<'a> {
    activation: Activation,
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl Vectorized for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let pairs = self.gate.iter_mut().zip(self.up);
        match self.activation {
            Activation::GeluErf => pairs.for_each(|(gate, up)| *gate = gelu_erf(*gate) * up),
            Activation::GeluTanh => pairs.for_each(|(gate, up)| *gate = gelu_tanh(*gate) * up),
            Activation::Silu => pairs.for_each(|(gate, up)| *gate = silu(*gate) * up),
            Activation::Relu => pairs.for_each(|(gate, up)| *gate = relu(*gate) * up),
        }
    }
}

/// `out = activation(gate) * up`.
#[inline(always)]
pub fn gate(activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
    let all = out.iter_mut().zip(gate).zip(up);
    match activation {
        Activation::GeluErf => all.for_each(|((out, gate), up)| *out = gelu_erf(*gate) * up),
        Activation::GeluTanh => all.for_each(|((out, gate), up)| *out = gelu_tanh(*gate) * up),
        Activation::Silu => all.for_each(|((out, gate), up)| *out = silu(*gate) * up),
        Activation::Relu => all.for_each(|((out, gate), up)| *out = relu(*gate) * up),
    }
}

/// NaN stays NaN: `f32::max` would hide it.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Activation; 4] =
        [Activation::GeluErf, Activation::GeluTanh, Activation::Silu, Activation::Relu];

    #[test]
    fn activations_have_the_values_of_their_formulas() {
        for isa in Isa::available() {
            for (activation, at_one) in ALL.into_iter().zip([0.841_344_7, 0.841_192, 0.731_058_6, 1.0]) {
                let mut x = [1.0, 0.0, -100.0, 30.0];
                activate(isa, activation, &mut x);
                assert!((x[0] - at_one).abs() < 1e-6, "{activation:?} {}", x[0]);
                assert_eq!((x[1], x[2].abs() < 1e-30, x[3]), (0.0, true, 30.0), "{activation:?}");
                let mut nan = [f32::NAN];
                activate(isa, activation, &mut nan);
                assert!(nan[0].is_nan(), "{activation:?}");
            }
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
        for activation in ALL {
            for n in [1, 31, 33, 63, 65] {
                let gate: Vec<f32> = (0..n).map(|i| i as f32 * 0.3 - 7.0).collect();
                let up: Vec<f32> = (0..n).map(|i| 2.0 - i as f32 * 0.1).collect();
                let mut expected = gate.clone();
                activate(Isa::SCALAR, activation, &mut expected);
                expected.iter_mut().zip(&up).for_each(|(x, up)| *x *= up);
                for isa in Isa::available() {
                    let mut out = gate.clone();
                    gated(isa, activation, &mut out, &up);
                    assert_eq!(out, expected, "{activation:?} {isa:?}");
                    add_assign(isa, &mut out, &up);
                    assert!(out.iter().zip(&expected).zip(&up).all(|((o, e), u)| *o == e + u));
                }
            }
        }
    }
}
