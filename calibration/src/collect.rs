//! Runs a text through a model at full precision, layer by layer, and collects statistics.

use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{LayerWeights, LinearInput, Result, RuntimeError};

use crate::layer_stats::LayerStats;
use crate::moments::Detail;
use crate::statistics::Statistics;
use crate::stream::{Collector, Cosines, Stream};

/// The statistics of `tokens`, run through `source` in chunks of at most 512, each from an empty context. The rest of an
/// incomplete last chunk is used too.
///
/// # Errors
/// When there are no tokens, one is beyond the vocabulary, a tensor is damaged, the model computes something that is not
/// finite, memory runs out, or `cancel` is requested.
pub fn collect(
    source: &dyn WeightSource,
    cpu: &Cpu,
    tokens: &[u32],
    detail: Detail,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Statistics> {
    let mut layers = Vec::new();
    for_each_layer::<RuntimeError>(source, cpu, tokens, detail, progress, cancel, |stats| {
        layers.push(stats);
        Ok(())
    })?;
    Ok(Statistics::new(tokens.len() as u64, layers))
}

/// Hands the statistics of a text to `visit` layer by layer, the head last, so that those of one layer are in memory at a time.
///
/// # Errors
/// As [`collect`], and what `visit` returns.
pub fn for_each_layer<E: From<RuntimeError>>(
    source: &dyn WeightSource,
    cpu: &Cpu,
    tokens: &[u32],
    detail: Detail,
    progress: &dyn Progress,
    cancel: &Cancel,
    mut visit: impl FnMut(LayerStats) -> Result<(), E>,
) -> Result<(), E> {
    let mut stream = Stream::new(source, cpu, tokens)?;
    let layers = source.config().layers;
    progress.begin("calibrating", tokens.len() as u64 * u64::from(layers));
    let mut collector = Collector::new(cpu, detail);
    for layer in 0..layers {
        let weights = LayerWeights::load(source, layer)?;
        let mut cosines = 0.0;
        for i in 0..stream.chunks() {
            cancel.check()?;
            let before = stream.hidden(i).to_vec();
            stream.advance(i, layer, &weights, &mut collector)?;
            let (after, width) = (stream.hidden(i), stream.width());
            cosines += cpu.isa().vectorize(Cosines { before: &before, after, width });
            progress.advance(stream.tokens(i) as u64);
        }
        drop(weights);
        source.release(Some(layer));
        let influence = Some(1.0 - cosines / tokens.len() as f64);
        let stats = LayerStats { layer: Some(layer), influence, inputs: collector.take()? };
        check_finite(&stats)?;
        visit(stats)?;
    }
    visit(head(&mut stream, &mut collector)?)?;
    progress.end();
    Ok(())
}

/// The statistics of the head, of a stream that is behind the last layer.
fn head(stream: &mut Stream, collector: &mut Collector) -> Result<LayerStats> {
    for i in 0..stream.chunks() {
        let width = stream.head_width();
        collector.add(LinearInput::Head, width, stream.head_input(i)?);
    }
    let stats = LayerStats { layer: None, influence: None, inputs: collector.take()? };
    check_finite(&stats)?;
    Ok(stats)
}

/// # Errors
/// When a sum is not finite: weights made of it would be worthless.
pub(crate) fn check_finite(stats: &LayerStats) -> Result<()> {
    stats.first_not_finite().map_or(Ok(()), |what| Err(RuntimeError::NotANumber { what }))
}
