//! What is read for a token, in order, again and again.

use std::ops::Range;

use super::part::StreamPart;

/// Some rows of a matrix, which are read into one buffer.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The part that they are in.
    pub part: StreamPart,
    /// Their bytes there.
    pub raw: Range<usize>,
}

/// The pieces of all streamed matrices, in the order in which a decoder uses them.
#[derive(Debug, Default)]
pub struct Schedule {
    pieces: Vec<Piece>,
}

impl Schedule {
    /// Appends a piece; its number.
    pub fn push(&mut self, piece: Piece) -> usize {
        self.pieces.push(piece);
        self.pieces.len() - 1
    }

    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether nothing is streamed.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The piece at a position in the endless repetition of the schedule.
    pub fn at(&self, position: u64) -> &Piece {
        &self.pieces[(position % self.pieces.len() as u64) as usize]
    }

    /// The first position from `from` on where piece `number` is.
    pub fn next(&self, number: usize, from: u64) -> u64 {
        let all = self.pieces.len() as u64;
        let turn = from / all * all + number as u64;
        if turn < from { turn + all } else { turn }
    }

    /// Stored bytes that one token reads: a chunk in two pieces that follow one another is read once.
    pub fn bytes_per_token(&self) -> u64 {
        let mut last = None;
        let mut bytes = 0;
        for piece in &self.pieces {
            for index in piece.part.chunks_of(&piece.raw) {
                if last != Some((piece.part.id, index)) {
                    bytes += u64::from(piece.part.outline.chunks[index].stored_bytes);
                    last = Some((piece.part.id, index));
                }
            }
        }
        bytes
    }
}
