//! How many positions are taken together.

use super::tile::ROW;

/// Positions that are read together.
pub(super) const STEP: usize = 64;
/// Positions of a chunk.
pub(super) const CHUNK: usize = ROW;
/// Chunks of the longest text that is a short one.
const SHORT: usize = 16;

/// Chunks of a span of a query that sees so many positions: the weights of a span are relative to the largest score so far, and results
/// of spans are joined. So nothing depends on where the work of a thread ends, and of a long text little is kept to be joined. Of a
/// short one each chunk is a span, so that there is work for all threads.
pub(super) const fn span_chunks(seen: usize) -> usize {
    if seen > SHORT * CHUNK { 4 } else { 1 }
}

/// Most spans of a query that sees up to so many positions.
pub(super) const fn most_spans(seen: usize) -> usize {
    let short = if seen < SHORT * CHUNK { seen } else { SHORT * CHUNK };
    let short = short.div_ceil(CHUNK) + 1;
    // One more, for the first and the last may be parts of spans.
    let long = seen.div_ceil(span_chunks(seen) * CHUNK) + 1;
    if long > short { long } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_query_has_more_spans_than_there_is_room_for() {
        let lengths = [1, 255, 256, 257, 3840, 4095, 4096, 4097, 5119, 5120, 9999, 20_000];
        for capacity in lengths {
            for seen in lengths.into_iter().filter(|seen| *seen <= capacity) {
                for start in 0..2 * 4 * CHUNK {
                    let span = span_chunks(seen) * CHUNK;
                    let spans = (start + seen).div_ceil(span) - start / span;
                    assert!(spans <= most_spans(capacity), "{seen} from {start} on, of {capacity}: {spans}");
                }
            }
        }
    }
}
