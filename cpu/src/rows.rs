//! Work on the rows of matrices, each by itself, spread over threads.

use super::backend::Cpu;
use super::shared::Shared;

/// Tasks per thread, so that a thread that was interrupted does not hold up the rest.
const TASKS_PER_THREAD: usize = 4;

impl Cpu {
    /// Calls `task` with runs of rows of some matrices, the same rows of each, and the number of the first: every row is in
    /// one run. A matrix is given with the width of its rows. `work` says what a row of all takes, in multiply-adds of
    /// matrices; a single row is done by the caller.
    ///
    /// # Panics
    /// When the matrices have different numbers of rows.
    pub fn for_each_rows<const N: usize>(
        &self,
        matrices: [(&mut [f32], usize); N],
        work: usize,
        task: impl Fn(usize, [&mut [f32]; N]) + Sync,
    ) {
        let widths = matrices.each_ref().map(|(_, width)| *width);
        let rows = matrices.each_ref().map(|(matrix, width)| {
            assert!(*width > 0 && matrix.len().is_multiple_of(*width), "not rows of {width}");
            matrix.len() / width
        });
        let Some(&count) = rows.first() else { return };
        assert!(rows.iter().all(|rows| *rows == count), "matrices of {rows:?} rows");
        let run = count.div_ceil(self.threads() * TASKS_PER_THREAD).max(1);
        let matrices = matrices.map(|(matrix, _)| Shared::new(matrix));
        self.for_each(count.div_ceil(run), work.saturating_mul(count), |i| {
            let (first, end) = (i * run, count.min((i + 1) * run));
            let mut parts = matrices.iter().zip(widths).map(|(matrix, width)| {
                // SAFETY: no two runs have a row in common, and the matrices are different.
                unsafe { matrix.part(first * width..end * width) }
            });
            task(first, std::array::from_fn(|_| parts.next().unwrap_or_default()));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn every_row_is_handed_out_once_with_its_number() {
        let cpu = Cpu::new(Isa::best());
        for count in [0, 1, 2, 7, 64, 1001] {
            for work in [1, 1 << 20] {
                let (mut a, mut b) = (vec![0.0; count * 3], vec![0.0; count]);
                cpu.for_each_rows([(&mut a, 3), (&mut b, 1)], work, |first, [a, b]| {
                    assert_eq!(a.len(), 3 * b.len());
                    for (i, (a, b)) in a.chunks_exact_mut(3).zip(b).enumerate() {
                        a[2] += (first + i) as f32;
                        *b += 2.0 * (first + i) as f32;
                    }
                });
                for row in 0..count {
                    assert_eq!(
                        (a[3 * row..][..3].to_vec(), b[row]),
                        (vec![0.0, 0.0, row as f32], 2.0 * row as f32)
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "matrices of")]
    fn matrices_of_different_heights_are_refused() {
        Cpu::new(Isa::best()).for_each_rows([(&mut [0.0; 6], 3), (&mut [0.0; 3], 1)], 1, |_, _| {});
    }
}
