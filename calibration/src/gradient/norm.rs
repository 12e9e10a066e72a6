//! Norms, forwards and backwards. Statistics of a row are sums in f64, in the order of its values.

use qsf_format::{NormKind, TensorKind};
use qsf_runtime::Result;
use qsf_runtime::cpu::{Cpu, layer_norm_in_place, rms_norm_in_place};

use super::sink::Sink;

/// What a value costs, in multiply-adds of matrices.
const WORK: usize = 8;

/// A norm of rows, or of runs of a row that are all normalized alike.
pub(super) struct Norm {
    /// What stores its gains; `None`: they are 1.
    pub gain: (Option<TensorKind>, Vec<f32>),
    pub bias: Option<(TensorKind, Vec<f32>)>,
    pub kind: NormKind,
    pub epsilon: f32,
    /// Values that have statistics of their own. Gains are for one or several such runs.
    pub width: usize,
}

impl Norm {
    /// Normalizes runs, as many as gains are for, again and again.
    pub fn apply(&self, cpu: &Cpu, values: &mut [f32]) {
        let (isa, gains) = (cpu.isa(), &self.gain.1);
        for values in values.chunks_exact_mut(gains.len()) {
            for (run, gain) in values.chunks_exact_mut(self.width).zip(gains.chunks_exact(self.width)) {
                match self.kind {
                    NormKind::RmsNorm => rms_norm_in_place(isa, run, gain, self.epsilon),
                    NormKind::LayerNorm => {
                        let bias = self.bias.as_ref().map(|(_, bias)| &bias[..]);
                        layer_norm_in_place(isa, run, gain, bias, self.epsilon);
                    }
                }
            }
        }
    }

    /// Rows of `x`, normalized.
    pub fn forward(&self, cpu: &Cpu, x: &[f32]) -> Vec<f32> {
        let mut out = x.to_vec();
        let width = self.gain.1.len();
        cpu.for_each_rows([(&mut out, width)], WORK * width, |_, [rows]| self.apply(cpu, rows));
        out
    }

    /// Takes what it read and the gradient at what it gave, and adds that at what it read to `into`.
    pub fn backward(&self, sink: &mut Sink<'_>, x: &[f32], given: &[f32], into: &mut [f32]) -> Result<()> {
        let gains = self.gain.1.len();
        sink.cpu.for_each_rows([(into, gains)], 4 * WORK * gains, |first, [into]| {
            let range = first * gains..first * gains + into.len();
            self.gradient_at_input(&x[range.clone()], &given[range], into);
        });
        self.gradient_of_gains(sink, x, given)
    }

    /// Adds the gradient of the gains, and of the bias.
    pub fn gradient_of_gains(&self, sink: &mut Sink<'_>, x: &[f32], given: &[f32]) -> Result<()> {
        let gains = self.gain.1.len();
        if let Some(kind) = self.gain.0.filter(|kind| sink.wants(*kind)) {
            let mut sums = vec![0.0; gains];
            for (x, given) in x.chunks_exact(gains).zip(given.chunks_exact(gains)) {
                let runs = x.chunks_exact(self.width).zip(given.chunks_exact(self.width));
                for ((x, given), sums) in runs.zip(sums.chunks_exact_mut(self.width)) {
                    let (mean, scale) = self.statistics(x);
                    for ((sum, x), given) in sums.iter_mut().zip(x).zip(given) {
                        *sum += f64::from(*given) * (f64::from(*x) - mean) * scale;
                    }
                }
            }
            sink.add_vector(kind, 0, gains, &sums)?;
        }
        match &self.bias {
            Some((kind, bias)) => sink.add_rows(*kind, 0, bias.len(), given, bias.len()),
            None => Ok(()),
        }
    }

    /// Adds the gradient at what the norm read, for runs of values.
    pub fn gradient_at_input(&self, x: &[f32], given: &[f32], into: &mut [f32]) {
        let runs = x.chunks_exact(self.width).zip(given.chunks_exact(self.width));
        let gains = self.gain.1.chunks_exact(self.width).cycle();
        for (((x, given), into), gain) in runs.zip(into.chunks_exact_mut(self.width)).zip(gains) {
            let (mean, scale) = self.statistics(x);
            let n = self.width as f64;
            // With y = (x - mean) * scale and g the gradient at y, the gradient at x is
            // scale * (g - mean(g) - y * mean(g * y)), without mean(g) where no mean is removed.
            let (mut sum, mut along) = (0.0, 0.0);
            for ((x, given), gain) in x.iter().zip(given).zip(gain) {
                let g = f64::from(*given) * f64::from(*gain);
                sum += g;
                along += g * (f64::from(*x) - mean) * scale;
            }
            let shift = if self.kind == NormKind::LayerNorm { sum / n } else { 0.0 };
            for (((x, given), gain), into) in x.iter().zip(given).zip(gain).zip(into) {
                let (g, y) = (f64::from(*given) * f64::from(*gain), (f64::from(*x) - mean) * scale);
                *into += (scale * (g - shift - y * along / n)) as f32;
            }
        }
    }

    /// What is taken off a run, and what the rest is multiplied with.
    fn statistics(&self, x: &[f32]) -> (f64, f64) {
        let n = x.len() as f64;
        let mean = match self.kind {
            NormKind::LayerNorm => x.iter().map(|x| f64::from(*x)).sum::<f64>() / n,
            NormKind::RmsNorm => 0.0,
        };
        let square = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
        (mean, 1.0 / (square + f64::from(self.epsilon)).sqrt())
    }
}
