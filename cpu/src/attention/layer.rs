//! Keys and values of one layer: pages that are added as they are needed, and rings of them.

use std::ops::Range;

use super::super::aligned::AlignedFloats;
use super::super::backend::Cpu;
use super::super::lanes::{LANES, Lanes};
use super::super::shared::Shared;
use super::super::vector::{self, LINE, Vector, VectorWork, prefetch_second};
use super::codes::Coding;
use super::key_codes::KeyCodes;
use super::scratch::{Scratch, with_scratch};
use super::sizes::STEP;
use super::stored::{Order, Stored, StoredShape, rotated_block};
use super::tile::Ahead;
use super::value_codes::ValueCodes;
use super::{KvType, KvTypes};
use crate::memory::OutOfMemory;
use crate::slabs::Slabs;

/// Steps of a page, the unit in which memory is taken.
const PAGE_STEPS: usize = 4;

/// What keys and values of a layer look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvShape {
    /// Key/value heads.
    pub kv_heads: usize,
    /// Values of a key.
    pub head_dim: usize,
    /// Values of a value.
    pub value_dim: usize,
    /// How they are stored.
    pub types: KvTypes,
}

/// Keys and values of one layer.
#[derive(Debug)]
pub struct KvLayer {
    shape: KvShape,
    /// Steps that there is room for. Step s of the text is at `s % steps`.
    steps: usize,
    /// Whether later positions take the place of the earliest.
    ring: bool,
    pages: Vec<Box<[HeadPage]>>,
}

/// Keys and values of one head in a page.
#[derive(Debug)]
struct HeadPage {
    keys: Stored,
    values: Stored,
}

/// Keys and values of one head.
#[derive(Clone, Copy)]
pub(super) struct KvHead<'a> {
    layer: &'a KvLayer,
    head: usize,
}

impl KvShape {
    fn stored(self, positions: usize) -> [StoredShape; 2] {
        let KvShape { head_dim, value_dim, types: KvTypes { keys, values }, .. } = self;
        let both = [(keys, Order::Keys, head_dim), (values, Order::Values, value_dim)];
        both.map(|(kv_type, order, dim)| StoredShape { kv_type, order, dim, positions })
    }

    fn page_bytes(self, positions: usize) -> u64 {
        let [keys, values] = self.stored(positions).map(StoredShape::bytes);
        let head = keys.saturating_add(values).saturating_add(size_of::<HeadPage>() as u64);
        head.saturating_mul(self.kv_heads as u64)
    }
}

impl KvLayer {
    /// Room for `capacity` positions. Memory for them is taken by [`KvLayer::reserve`].
    pub const fn new(shape: KvShape, capacity: usize) -> KvLayer {
        KvLayer { shape, steps: capacity.div_ceil(STEP), ring: false, pages: Vec::new() }
    }

    /// Room for any `kept` positions that follow each other, of a text of `capacity`: what is stored beyond takes the place of
    /// the earliest.
    pub fn ring(shape: KvShape, kept: usize, capacity: usize) -> KvLayer {
        // So many steps such positions lie in at most.
        let steps = kept.saturating_add(STEP - 2) / STEP + 1;
        let whole = KvLayer::new(shape, capacity);
        if steps < whole.steps { KvLayer { steps, ring: true, ..whole } } else { whole }
    }

    /// Key/value heads.
    pub const fn kv_heads(&self) -> usize {
        self.shape.kv_heads
    }

    /// How keys and values are stored.
    pub const fn types(&self) -> KvTypes {
        self.shape.types
    }

    /// Values of a key.
    pub const fn head_dim(&self) -> usize {
        self.shape.head_dim
    }

    /// Values of a value.
    pub const fn value_dim(&self) -> usize {
        self.shape.value_dim
    }

    /// Bytes that it takes when all of its room is in use, without what the allocator adds.
    pub fn bytes(&self) -> u64 {
        let (pages, rest) = (self.steps / PAGE_STEPS, self.steps % PAGE_STEPS);
        let full = self.shape.page_bytes(PAGE_STEPS * STEP).saturating_mul(pages as u64);
        if rest == 0 { full } else { full.saturating_add(self.shape.page_bytes(rest * STEP)) }
    }

    /// Takes memory of `slabs` for the first `positions`, of those that there is room for.
    ///
    /// # Errors
    /// When there is not enough.
    pub fn reserve(&mut self, slabs: &mut Slabs, positions: usize) -> Result<(), OutOfMemory> {
        let pages = positions.div_ceil(STEP).min(self.steps).div_ceil(PAGE_STEPS);
        while self.pages.len() < pages {
            let steps = (self.steps - self.pages.len() * PAGE_STEPS).min(PAGE_STEPS);
            let [keys, values] = self.shape.stored(steps * STEP);
            let head = |_| Ok(HeadPage { keys: keys.zeros(slabs)?, values: values.zeros(slabs)? });
            self.pages.push((0..self.shape.kv_heads).map(head).collect::<Result<_, OutOfMemory>>()?);
        }
        Ok(())
    }

    /// Whether positions `first` to `last` can be there together.
    pub(super) const fn holds(&self, first: usize, last: usize) -> bool {
        let steps = last / STEP - first / STEP + 1;
        if self.ring { steps <= self.steps } else { last / STEP < self.steps }
    }

    /// The first position that is still there when those below `end` have been stored.
    pub const fn first_kept(&self, end: usize) -> usize {
        if self.ring { end.div_ceil(STEP).saturating_sub(self.steps) * STEP } else { 0 }
    }

    /// Stores keys and values of the positions from `position` on, a row of each for every position: `kv_heads * head_dim`, and
    /// `kv_heads * value_dim`.
    ///
    /// # Panics
    /// When they are not rows, or there is no room or memory for them.
    pub fn store(&mut self, cpu: &Cpu, position: usize, keys: &[f32], values: &[f32]) {
        let KvShape { kv_heads, head_dim, value_dim, types } = self.shape;
        let widths = [kv_heads * head_dim, kv_heads * value_dim];
        let tokens = keys.len() / widths[0];
        let whole = keys.len() == tokens * widths[0] && values.len() == tokens * widths[1];
        assert!(whole, "keys and values are not rows of {widths:?}");
        assert!(tokens == 0 || self.holds(position, position + tokens - 1), "more keys than fit");
        let work = store_work(types.keys) + store_work(types.values);
        let mut done = 0;
        while done < tokens {
            let (page, first) = self.page(position + done);
            // The last page of a ring may be a short one.
            let steps = (self.steps - page * PAGE_STEPS).min(PAGE_STEPS);
            let count = (steps * STEP - first).min(tokens - done);
            let rows = widths.map(|width| done * width..(done + count) * width);
            let [of_keys, of_values] = rows;
            let (keys, values) = (&keys[of_keys], &values[of_values]);
            let page = Shared::new(&mut self.pages[page]);
            cpu.for_each(kv_heads, work * keys.len(), |head| {
                // SAFETY: each head is in one task.
                let page = &mut unsafe { page.part(head..head + 1) }[0];
                with_scratch(|Scratch { rows, .. }| {
                    vector::run(cpu.isa(), Store { page, first, keys, values, widths, head, room: rows });
                });
            });
            done += count;
        }
    }

    /// Makes the positions `kept` of a head, which ascend, its first, as they are stored.
    ///
    /// # Panics
    /// When there is no memory for one of them.
    pub fn keep(&mut self, head: usize, kept: &[usize]) {
        let mut raw = Vec::new();
        for (to, &from) in kept.iter().enumerate().filter(|(to, from)| to != *from) {
            let ((page, at), (to_page, to)) = (self.page(from), self.page(to));
            let stored = &self.pages[page][head];
            raw.clear();
            stored.keys.copy(at, &mut raw);
            let keys = raw.len();
            stored.values.copy(at, &mut raw);
            let stored = &mut self.pages[to_page][head];
            stored.keys.paste(to, &raw[..keys]);
            stored.values.paste(to, &raw[keys..]);
        }
    }

    /// Bytes of what [`KvLayer::save`] gives of a position.
    pub fn saved_bytes(&self) -> usize {
        let of_head = |page: &HeadPage| page.keys.saved_bytes() + page.values.saved_bytes();
        self.pages.first().map_or(0, |heads| heads.iter().map(of_head).sum())
    }

    /// Adds keys and values of a position, of all heads, to `bytes` as they are stored.
    ///
    /// # Panics
    /// When there is no memory for the position.
    pub fn save(&self, position: usize, bytes: &mut Vec<u8>) {
        let mut raw = Vec::new();
        let (page, at) = self.page(position);
        for HeadPage { keys, values } in &self.pages[page] {
            keys.save(at, &mut raw, bytes);
            values.save(at, &mut raw, bytes);
        }
    }

    /// Stores what [`KvLayer::save`] gave of a position. Any bytes will do, and mean some keys and values.
    ///
    /// # Panics
    /// When there is no memory for the position, or `bytes` are not [`KvLayer::saved_bytes`].
    pub fn restore(&mut self, position: usize, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.saved_bytes(), "keys and values of another shape");
        let (mut raw, mut rest) = (Vec::new(), bytes);
        let (page, at) = self.page(position);
        for HeadPage { keys, values } in &mut self.pages[page] {
            for stored in [keys, values] {
                let (own, behind) = rest.split_at(stored.saved_bytes());
                stored.restore(at, own, &mut raw);
                rest = behind;
            }
        }
    }

    /// Whether there is room for positions up to `last` without letting any go.
    pub const fn has_room(&self, last: usize) -> bool {
        self.holds(if self.ring { last } else { 0 }, last)
    }

    /// The page of a position, and where it is in there.
    fn page(&self, position: usize) -> (usize, usize) {
        let slot = position % (self.steps * STEP);
        (slot / (PAGE_STEPS * STEP), slot % (PAGE_STEPS * STEP))
    }

    pub(super) fn head(&self, head: usize) -> KvHead<'_> {
        KvHead { layer: self, head }
    }
}

/// What storing a value takes, in multiply-adds: keys are spread out, and of codes some scales are tried.
const fn store_work(kv_type: KvType) -> usize {
    match kv_type {
        KvType::F32 | KvType::F16 => 4,
        KvType::Q8 | KvType::Q4 | KvType::Q2 => 48,
    }
}

/// Stores what rows have for a head in its page, from position `first` of it on.
struct Store<'a> {
    page: &'a mut HeadPage,
    first: usize,
    keys: &'a [f32],
    values: &'a [f32],
    /// Of the rows of all heads.
    widths: [usize; 2],
    head: usize,
    room: &'a mut AlignedFloats,
}

impl VectorWork for Store<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Store { page, first, keys, values, widths, head, room } = self;
        for (stored, rows, width) in
            [(&mut page.keys, keys, widths[0]), (&mut page.values, values, widths[1])]
        {
            let columns = head * stored.dim()..(head + 1) * stored.dim();
            for (position, row) in (first..).zip(rows.chunks_exact(width)) {
                stored.write::<V>(position, &row[columns.clone()], room);
            }
        }
    }
}

impl<'a> KvHead<'a> {
    /// How keys and values are stored.
    #[inline(always)]
    pub fn types(&self) -> KvTypes {
        self.layer.types()
    }

    /// Values of a key.
    #[inline(always)]
    pub fn dim(&self) -> usize {
        self.layer.shape.head_dim
    }

    /// Values of a value.
    #[inline(always)]
    pub fn value_dim(&self) -> usize {
        self.layer.shape.value_dim
    }

    /// Vectors of a row of values.
    #[inline(always)]
    pub fn columns(&self) -> usize {
        self.value_dim().div_ceil(LANES)
    }

    /// Values of keys, and thus of queries, that are rotated together.
    #[inline(always)]
    pub fn rotated_keys(&self) -> usize {
        rotated_block(self.layer.shape.types.keys, self.dim())
    }

    /// Values of a value, and thus of results, that are rotated together.
    #[inline(always)]
    pub fn rotated_values(&self) -> usize {
        rotated_block(self.layer.shape.types.values, self.value_dim())
    }

    /// Keys of the step that positions `seen` are in. Those of the 16 positions from `16 i` of the step on have dimension j in
    /// vector `i / KEY_LANES * KEY_LANES * dim + i % KEY_LANES + KEY_LANES * j`.
    #[inline(always)]
    pub fn keys<'b, V: Vector>(&self, seen: Range<usize>, room: &'b mut AlignedFloats) -> &'b [Lanes]
    where
        'a: 'b,
    {
        let (page, first, seen) = self.step(seen);
        page.keys.read::<V>(first, STEP, seen, room)
    }

    /// The number of bits of keys in codes.
    #[inline(always)]
    pub fn coding_of_keys(&self) -> Option<Coding> {
        Coding::of(self.layer.shape.types.keys)
    }

    /// Whether values are in codes.
    #[inline(always)]
    pub fn has_value_codes(&self) -> bool {
        Coding::of(self.layer.shape.types.values).is_some()
    }

    /// Keys of the step that positions `seen` are in, where they are in codes.
    #[inline(always)]
    pub fn key_codes(&self, seen: &Range<usize>) -> Option<KeyCodes<'a>> {
        let (page, first, _) = self.step(seen.clone());
        page.keys.key_codes(first, STEP)
    }

    /// Keys of the step that positions `seen` are in, where they are halves.
    #[inline(always)]
    pub fn halves_of_keys(&self, seen: &Range<usize>) -> Option<&'a [[u16; LANES]]> {
        let (page, first, _) = self.step(seen.clone());
        page.keys.halves(first, STEP)
    }

    /// Values of the step that positions `seen` are in, where they are halves.
    #[inline(always)]
    pub fn halves_of_values(&self, seen: &Range<usize>) -> Option<&'a [[u16; LANES]]> {
        let (page, first, _) = self.step(seen.clone());
        page.values.halves(first, STEP)
    }

    /// Addresses of the codes, or floats, and of the scales of the keys, or `values`, of the step that a position is in.
    pub fn lines_of_step(&self, position: usize, values: bool) -> [Range<usize>; 2] {
        let (page, first, _) = self.step(position..position + 1);
        if values { &page.values } else { &page.keys }.lines(first, STEP)
    }

    /// Values of the step that positions `seen` are in, where they are in codes.
    #[inline(always)]
    pub fn value_codes(&self, seen: &Range<usize>) -> Option<ValueCodes<'a>> {
        let (page, first, _) = self.step(seen.clone());
        page.values.value_codes(first)
    }

    /// Has the processor fetch what says where the keys and values of a position are: where weights were read since it was used, it
    /// is in no cache.
    #[inline(always)]
    pub fn fetch_place(&self, position: usize) {
        let (page, _) = self.layer.page(position);
        let place = &raw const self.layer.pages[page][self.head];
        for line in (0..size_of::<HeadPage>().next_multiple_of(LINE)).step_by(LINE) {
            prefetch_second(place.wrapping_byte_add(line));
        }
    }

    /// Brings keys of positions of a chunk, which are used at once, nearer: codes of all, or floats of the first step. Codes are loaded,
    /// for of lines that are asked for at once some are not fetched.
    #[inline(always)]
    pub fn bring_keys(&self, positions: Range<usize>) {
        if self.coding_of_keys().is_none() {
            let ahead = self.keys_ahead(positions.start);
            return (0..Order::Keys.vectors(self.dim(), STEP)).for_each(|vector| ahead.fetch(vector));
        }
        let mut sum = 0_u8;
        for step in positions.start / STEP..positions.end.div_ceil(STEP) {
            if let Some(keys) = self.key_codes(&(step * STEP..(step + 1) * STEP)) {
                for line in keys.codes.chunks(LINE / LANES) {
                    sum = sum.wrapping_add(line[0][0]);
                }
            }
        }
        std::hint::black_box(sum);
    }

    /// Keys of the step that a position is in, as what is used next.
    #[inline(always)]
    pub fn keys_ahead(&self, position: usize) -> Ahead {
        let (page, first, _) = self.step(position..position + 1);
        page.keys.ahead(first, STEP)
    }

    /// Values of the step that a position is in, as what is used next.
    #[inline(always)]
    pub fn values_ahead(&self, position: usize) -> Ahead {
        let (page, first, _) = self.step(position..position + 1);
        page.values.ahead(first, STEP)
    }

    /// Values of the step that positions `seen` are in, [`KvHead::columns`] vectors each.
    #[inline(always)]
    pub fn values<'b, V: Vector>(&self, seen: Range<usize>, room: &'b mut AlignedFloats) -> &'b [Lanes]
    where
        'a: 'b,
    {
        let (page, first, seen) = self.step(seen);
        page.values.read::<V>(first, STEP, seen, room)
    }

    /// The page that positions of a step are in; the first position of the step, and the positions, in there.
    #[inline(always)]
    fn step(&self, seen: Range<usize>) -> (&'a HeadPage, usize, Range<usize>) {
        let first = seen.start / STEP * STEP;
        let (page, within) = self.layer.page(first);
        let page = &self.layer.pages[page][self.head];
        (page, within, within + seen.start - first..within + seen.end - first)
    }
}
