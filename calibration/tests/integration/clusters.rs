//! Rows of a head in clusters: by direction, and the same on every machine.

use qsf_calibration::{RowClusters, cluster_rows};
use qsf_runtime::Result;
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::progress::{Cancel, Unwatched};
use qsf_runtime::source::Tensor;

const COLS: usize = 40;

/// Rows around `groups` directions, of lengths from 1 to 5.
fn head(rows: usize, groups: usize) -> Tensor {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let centers: Vec<f32> = (0..groups * COLS).map(|_| random()).collect();
    let values: Vec<f32> = (0..rows)
        .flat_map(|row| {
            let length = 1.0 + (row % 5) as f32;
            let center = &centers[row * 7 % groups * COLS..][..COLS];
            center.iter().map(|c| length * (c + 0.02 * random())).collect::<Vec<_>>()
        })
        .collect();
    Tensor::from_f32(rows, COLS, &values)
}

fn clustered(cpu: &Cpu, head: &Tensor, count: usize) -> Result<RowClusters> {
    cluster_rows(cpu, head, count, &Unwatched, &Cancel::default())
}

#[test]
fn rows_of_one_direction_come_together_whatever_their_length() {
    let cpu = Cpu::new(Isa::best());
    let head = head(600, 3);
    let found = clustered(&cpu, &head, 3).unwrap();
    for (row, cluster) in found.cluster_of.iter().enumerate() {
        assert_eq!(*cluster, found.cluster_of[row % 3], "row {row}");
    }
    // The centroid is the mean of the rows themselves, not of their directions.
    let of_first: Vec<usize> = (0..600).step_by(3).collect();
    let values = head.to_f32();
    let mean: f64 = of_first.iter().map(|r| f64::from(values[r * COLS])).sum::<f64>() / 200.0;
    let cluster = usize::from(found.cluster_of[0]);
    assert!((f64::from(found.centroids[cluster * COLS]) - mean).abs() < 1e-5);
}

#[test]
fn threads_and_instruction_sets_leave_no_trace() {
    let head = head(2500, 90);
    let oracle = clustered(&Cpu::with_threads(Isa::SCALAR, 1).unwrap(), &head, 64).unwrap();
    for isa in Isa::available() {
        for threads in [1, 2, 3] {
            let found = clustered(&Cpu::with_threads(isa, threads).unwrap(), &head, 64).unwrap();
            assert!(found == oracle, "{isa:?}, {threads} threads");
        }
    }
}

#[test]
fn clusters_without_rows_are_left_out_and_equal_rows_are_no_problem() {
    let cpu = Cpu::new(Isa::best());
    let same = Tensor::from_f32(50, COLS, &[0.25; 50 * COLS]);
    let found = clustered(&cpu, &same, 8).unwrap();
    assert_eq!((found.centroids.len(), found.cluster_of), (COLS, vec![0; 50]));
    let zeros = Tensor::from_f32(5, COLS, &[0.0; 5 * COLS]);
    assert_eq!(clustered(&cpu, &zeros, 5).unwrap().centroids, [0.0; COLS]);
}

#[test]
fn impossible_requests_and_broken_rows_are_refused() {
    let cpu = Cpu::new(Isa::best());
    for count in [0, 601] {
        let error = clustered(&cpu, &head(600, 3), count).unwrap_err().to_string();
        assert!(error.contains("1 to 600"), "{error}");
    }
    let broken = Tensor::from_f32(3, 1, &[1.0, f32::NAN, 2.0]);
    let error = clustered(&cpu, &broken, 1).unwrap_err().to_string();
    assert!(error.contains("row 1"), "{error}");
}
