//! Queries and keys between projection and attention: norms, limits, rotation.

use qsf_format::{ModelConfig, QkNorm, QueryGrowth};
use qsf_runtime::cpu::{Cpu, RopeTable, clip, scale};
use qsf_runtime::{Result, query_factor};

use super::norm::Norm;
use super::sink::Sink;

/// What a value costs, in multiply-adds of matrices.
const WORK: usize = 8;

/// What is done to the heads of queries, or of keys, of all tokens of a sequence.
pub(super) struct Place<'a> {
    pub norm: Option<Norm>,
    /// Whether the norm is behind the rotation.
    pub norm_last: bool,
    pub limit: Option<f32>,
    pub rope: Option<&'a RopeTable>,
    /// Of queries.
    pub growth: Option<QueryGrowth>,
    pub head_dim: usize,
    /// Values of a token.
    pub width: usize,
}

impl<'a> Place<'a> {
    pub fn new(
        config: &ModelConfig,
        norm: Option<Norm>,
        rope: Option<&'a RopeTable>,
        growth: Option<QueryGrowth>,
        [head_dim, width]: [usize; 2],
    ) -> Place<'a> {
        let plain = config.qk_norm == Some(QkNorm::RotatedHeadPlain);
        let norm_last = matches!(config.qk_norm, Some(QkNorm::RotatedHead | QkNorm::RotatedHeadPlain));
        Place {
            // Of layers without rotation there is no such norm.
            norm: norm.filter(|_| !plain || rope.is_some()),
            norm_last,
            limit: config.qkv_clip,
            rope,
            growth: growth.filter(|growth| !growth.unrotated_only || rope.is_none()),
            head_dim,
            width,
        }
    }

    /// Rows of `raw`, one for each position from 0 on, as attention reads them.
    pub fn forward(&self, cpu: &Cpu, raw: &[f32]) -> Vec<f32> {
        let mut out = raw.to_vec();
        cpu.for_each_rows([(&mut out, self.width)], WORK * self.width, |first, [rows]| {
            for (row, position) in rows.chunks_exact_mut(self.width).zip(first..) {
                if !self.norm_last {
                    self.normalize(cpu, row);
                }
                self.turn(cpu, row, position);
                if self.norm_last {
                    self.normalize(cpu, row);
                }
                if let Some(growth) = self.growth {
                    scale(cpu.isa(), row, query_factor(growth, position));
                }
            }
        });
        out
    }

    fn normalize(&self, cpu: &Cpu, row: &mut [f32]) {
        if let Some(norm) = &self.norm {
            norm.apply(cpu, row);
        }
    }

    /// Limits and rotates.
    fn turn(&self, cpu: &Cpu, row: &mut [f32], position: usize) {
        if let Some(limit) = self.limit {
            clip(cpu.isa(), row, limit);
        }
        if let Some(rope) = self.rope {
            rope.apply(cpu.isa(), row, position);
        }
    }

    /// From the gradient at what [`Place::forward`] gave to that at `raw`.
    pub fn backward(&self, sink: &mut Sink<'_>, raw: &[f32], mut given: Vec<f32>) -> Result<Vec<f32>> {
        let cpu = sink.cpu;
        let width = self.width;
        if let Some(growth) = self.growth {
            for (position, row) in given.chunks_exact_mut(width).enumerate() {
                scale(cpu.isa(), row, query_factor(growth, position));
            }
        }
        if self.norm_last && self.norm.is_some() {
            let mut turned = raw.to_vec();
            for (position, row) in turned.chunks_exact_mut(width).enumerate() {
                self.turn(cpu, row, position);
            }
            given = self.behind_norm(sink, &turned, &given)?;
        }
        if let Some(rope) = self.rope {
            for (position, row) in given.chunks_exact_mut(width).enumerate() {
                row.chunks_exact_mut(self.head_dim).for_each(|head| turn_back(rope, head, position));
            }
        }
        if let Some(limit) = self.limit {
            let mut limited = raw.to_vec();
            if !self.norm_last {
                self.normalize(cpu, &mut limited);
            }
            for (given, value) in given.iter_mut().zip(&limited) {
                *given *= f32::from((-limit..=limit).contains(value));
            }
        }
        if !self.norm_last && self.norm.is_some() {
            given = self.behind_norm(sink, raw, &given)?;
        }
        Ok(given)
    }

    fn behind_norm(&self, sink: &mut Sink<'_>, x: &[f32], given: &[f32]) -> Result<Vec<f32>> {
        let mut into = vec![0.0; x.len()];
        if let Some(norm) = &self.norm {
            norm.backward(sink, x, given, &mut into)?;
        }
        Ok(into)
    }
}

/// The transpose of what the table does at `position`.
fn turn_back(rope: &RopeTable, head: &mut [f32], position: usize) {
    let half = rope.angles(position).count();
    let (first, second) = head[..2 * half].split_at_mut(half);
    for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(rope.angles(position)) {
        let (x, y) = (*a, *b);
        *a = x * cos + y * sin;
        *b = y * cos - x * sin;
    }
}
