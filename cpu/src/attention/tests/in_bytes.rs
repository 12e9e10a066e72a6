//! What bytes alone would lose.

use super::*;

fn by_bytes(case: &mut Case) -> Vec<f32> {
    let [_, out] = case.run_by_units(&case.layer(0));
    out
}

/// In each chunk one position has 600 times the weight of each other. Those are less than half of a byte's smallest part, and there are
/// too many chunks for second bytes.
#[test]
fn many_small_weights_keep_their_sum() {
    let mut case = Case::new(heads(1, 1), 16, positions(6400, 8));
    let scale = case.attention().scale;
    case.q.fill(0.0);
    case.q.iter_mut().step_by(16).for_each(|q| *q = 1.0 / scale);
    case.keys.fill(0.0);
    for (position, (key, value)) in
        case.keys.chunks_exact_mut(16).zip(case.values.chunks_exact_mut(16)).enumerate()
    {
        let high = position % 256 == 77;
        key[0] = if high { 600f32.ln() } else { 0.0 };
        value.fill(if high { 1.0 } else { -1.0 });
    }
    let expected = case.naive();
    for (out, exact) in by_bytes(&mut case).iter().zip(&expected) {
        // 600 of 855 are for, 255 against: without them it would be 1.
        assert!(
            (exact - 0.4).abs() < 0.01 && (f64::from(*out) - exact).abs() < 0.02,
            "{out}, expected {exact}"
        );
    }
}

#[test]
fn one_weight_that_is_most_of_all_leaves_others_what_they_have() {
    let mut case = Case::new(heads(1, 1), 16, positions(500, 8));
    let scale = case.attention().scale;
    case.q.fill(0.0);
    case.q.iter_mut().step_by(16).for_each(|q| *q = 1.0 / scale);
    case.keys.fill(0.0);
    case.keys[70 * 16] = 2000f32.ln();
    case.values.fill(0.0);
    // What the others have in common shows, though each has less than a byte's smallest part.
    case.values.chunks_exact_mut(16).for_each(|value| value[3] = 1.0);
    case.values[70 * 16 + 3] = 0.0;
    case.values[70 * 16 + 4] = 1.0;
    let expected = case.naive();
    for (out, exact) in by_bytes(&mut case).iter().zip(&expected) {
        assert!((f64::from(*out) - exact).abs() < 3e-3, "{out}, expected {exact}");
    }
}

/// As biases do.
#[test]
fn what_all_keys_have_in_common_takes_nothing_from_what_tells_them_apart() {
    let mut case = Case::new(heads(2, 1), 32, positions(300, 40));
    case.keys.chunks_exact_mut(32).for_each(|key| (key[5], key[6]) = (key[5] + 500.0, key[6] - 300.0));
    let expected = case.run(Isa::SCALAR, &[40]);
    for (out, exact) in by_bytes(&mut case).iter().zip(&expected) {
        assert!((out - exact).abs() < 0.1, "{out}, expected {exact}");
    }
}

/// Tasks have other tokens then.
#[test]
fn bytes_are_the_same_with_any_number_of_threads() {
    let mut case = Case::new(heads(8, 2), 24, positions(333, 100));
    case.by_unit = true;
    let layer = case.layer(0);
    let run = |threads| {
        let mut out = vec![f32::NAN; case.tokens * case.heads * case.value_dim];
        let attention = &case.attention();
        let layer = Layer { attention, kv: &layer, position: case.past, q: &case.q, group: 4 };
        let cpu = Cpu::with_threads(Isa::best(), threads).unwrap();
        // SAFETY: every processor emulates.
        unsafe {
            cpu.attend_by::<InBytes<EmulatedProducts>>(
                layer,
                case.tokens,
                usize::MAX,
                &Shared::new(&mut out),
            );
        }
        out
    };
    let one = run(1);
    for threads in [2, 3, 7] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}

#[test]
fn scores_beyond_what_bytes_hold_are_those_of_floats() {
    let mut case = Case::new(heads(2, 1), 16, positions(30, 40));
    case.q.iter_mut().for_each(|q| *q *= 3e5);
    let expected = case.run(Isa::best(), &[40]);
    assert_eq!(by_bytes(&mut case), expected);
}
