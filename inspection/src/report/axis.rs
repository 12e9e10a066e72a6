//! Axes of a chart: which values they span, where their ticks are, and where a value lies.

/// An axis from one value to another.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Axis {
    /// Equal distances are equal differences.
    Linear { low: f64, high: f64, step: f64 },
    /// Equal distances are equal ratios: from ten to the power of `low` to that of `high`.
    Decades { low: i32, high: i32 },
}

impl Axis {
    /// Around all of `values`, which are finite and 0 or more, with some room.
    pub fn around(values: &[f64]) -> Axis {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min).min(f64::MAX);
        let high = values.iter().copied().fold(0.0, f64::max).max(low);
        // A single value stands in the middle.
        let room = if high > low { (high - low) * 0.1 } else { (high * 0.1).max(1.0) };
        let (low, high) = ((low - room).max(0.0), high + room);
        Axis::Linear { low, high, step: step(high - low) }
    }

    /// From 0, or where the positive ones of `values` span more than a factor of ten, in decades, which have no 0.
    pub fn from_zero(values: &[f64]) -> Axis {
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let low = positive().fold(f64::INFINITY, f64::min);
        // So that no sum or product below overflows, whatever a file claims.
        let high = positive().fold(0.0, f64::max).min(1e300);
        if high <= 0.0 {
            return Axis::Linear { low: 0.0, high: 1.0, step: 0.25 };
        }
        if high / low < 10.0 {
            return Axis::Linear { low: 0.0, high: high * 1.15, step: step(high * 1.15) };
        }
        let low = (libm::log10(low).floor() as i32).max(-300);
        let high = libm::log10(high).ceil() as i32;
        Axis::Decades { low, high: high.max(low + 1) }
    }

    /// Where a value lies, from 0 at the lower end to 1; what is beyond an end lies at it.
    pub fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Axis::Linear { low, high, .. } => (value - low) / (high - low),
            Axis::Decades { .. } if value <= 0.0 => 0.0,
            Axis::Decades { low, high } => {
                (libm::log10(value) - f64::from(low)) / (f64::from(high) - f64::from(low))
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// At most a dozen values to mark.
    pub fn ticks(&self) -> Vec<f64> {
        match *self {
            Axis::Linear { low, high, step } => {
                let first = (low / step).ceil();
                (0..12).map(|i| (first + f64::from(i)) * step).take_while(|tick| *tick <= high).collect()
            }
            Axis::Decades { low, high } => {
                let every = (high - low) / 8 + 1;
                let decades = (low..=high).step_by(every as usize);
                decades.map(|exponent| libm::pow(10.0, f64::from(exponent))).collect()
            }
        }
    }

    /// A tick as it is written beside the axis.
    pub fn label(&self, tick: f64) -> String {
        match *self {
            Axis::Linear { step, .. } if !(1e-6..1e6).contains(&step) => format!("{tick:e}"),
            Axis::Linear { step, .. } => {
                let digits = (-(libm::log10(step) + ROUNDING).floor()).max(0.0) as usize;
                format!("{tick:.digits$}")
            }
            Axis::Decades { .. } => match libm::round(libm::log10(tick)) as i32 {
                exponent @ -5..=5 => format!("{tick:.*}", (-exponent).max(0) as usize),
                exponent => format!("1e{exponent}"),
            },
        }
    }
}

/// More than a logarithm of a power of ten is off by.
const ROUNDING: f64 = 1e-9;

/// The distance of ticks: 1, 2 or 5 times a power of ten, so that there are three to eight on a length.
fn step(length: f64) -> f64 {
    let raw = length / 6.0;
    let power = libm::pow(10.0, libm::log10(raw).floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= raw);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_size_are_on_an_axis_from_zero_and_others_in_decades() {
        assert!(matches!(Axis::from_zero(&[0.2, 0.9]), Axis::Linear { low: 0.0, .. }));
        assert_eq!(Axis::from_zero(&[0.00139, 3.67161]), Axis::Decades { low: -3, high: 1 });
        assert!(matches!(Axis::from_zero(&[0.0, 0.0]), Axis::Linear { .. }));
    }

    #[test]
    fn every_value_and_tick_lies_on_the_axis_however_odd_the_values() {
        for values in [
            vec![632_240.0, 1_120_000.0],
            vec![0.0],
            vec![5.0, 5.0],
            vec![0.0, 1e-300, 1e300],
            vec![5e-324, 1e300],
            vec![1.0, 10.0],
        ] {
            for axis in [Axis::around(&values), Axis::from_zero(&values)] {
                let ticks = axis.ticks();
                assert!((1..=12).contains(&ticks.len()), "{values:?}: {axis:?} {ticks:?}");
                for value in &values {
                    assert!((0.0..=1.0).contains(&axis.place(*value)), "{value} on {axis:?}");
                }
            }
        }
    }

    #[test]
    fn ticks_are_written_with_the_digits_that_they_have() {
        let labels = |axis: Axis| axis.ticks().iter().map(|tick| axis.label(*tick)).collect::<Vec<_>>();
        assert_eq!(labels(Axis::from_zero(&[0.002, 0.2])), ["0.001", "0.01", "0.1", "1"]);
        assert_eq!(labels(Axis::from_zero(&[0.2, 0.3])), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(Axis::from_zero(&[2e-9, 1e-7]))[0], "1e-9");
    }

    #[test]
    fn a_larger_value_lies_further_up() {
        let axis = Axis::from_zero(&[0.001, 0.1, 3.0]);
        let places = [0.001, 0.1, 3.0].map(|value| axis.place(value));
        assert!(places[0] < places[1] && places[1] < places[2], "{places:?}");
    }
}
