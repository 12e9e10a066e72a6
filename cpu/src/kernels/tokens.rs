//! Activations of some tokens, and what sums of products with their codes add to results ([`super::panel`]).

use super::form::Form;
use super::panel::PanelTask;
use super::unpack::PanelIsa;
use crate::activations::ACT_BLOCK;

/// Words of four codes in a group of activations.
pub(super) const QUADS: usize = ACT_BLOCK / 4;

/// `T` tokens, one behind the other.
pub(super) struct Tokens<const T: usize> {
    codes: *const i8,
    scales: *const f32,
    sums: *const f32,
    starts: *const i32,
    /// Codes from one token to the next.
    stride: usize,
    /// Scales and sums from one group to the next.
    count: usize,
}

impl<const T: usize> Tokens<T> {
    /// # Safety
    /// The task must have the tokens from `first` on.
    #[inline(always)]
    pub(super) unsafe fn new(task: &PanelTask<'_>, first: usize) -> Tokens<T> {
        let (input, stride) = (task.input, task.input.stride());
        // SAFETY: the caller's promise.
        unsafe {
            Tokens {
                codes: input.codes().as_ptr().add(first * stride),
                scales: input.scales().as_ptr().add(first),
                sums: input.sums().as_ptr().add(first),
                starts: input.starts().as_ptr().add(first),
                stride,
                count: input.rows(),
            }
        }
    }

    /// The four codes of quad `quad` of group `group`, of token `t`.
    ///
    /// # Safety
    /// The group must be there.
    #[inline(always)]
    pub(super) unsafe fn quad(&self, group: usize, quad: usize, t: usize) -> *const i8 {
        // SAFETY: the caller's promise.
        unsafe { self.codes.add(group * ACT_BLOCK + t * self.stride + 4 * quad) }
    }

    /// Adds sums of products over group `group`, of weights with the scales `a`.
    ///
    /// # Safety
    /// As for [`PanelIsa`]; the group must be there.
    #[inline(always)]
    pub(super) unsafe fn add_sums<I: PanelIsa>(
        &self,
        sums: [I::Ints; T],
        group: usize,
        a: I::Floats,
        acc: &mut [I::Floats; T],
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            let dx = self.scales.add(group * self.count);
            for t in 0..T {
                acc[t] = I::fma(I::mul(a, I::splat(*dx.add(t))), I::floats(sums[t]), acc[t]);
            }
        }
    }

    /// What sums by [`PanelIsa::dot_signed`] for the type with the id `QUANT` begin with, of group `group` and token `t`, to be right.
    ///
    /// # Safety
    /// As for [`Tokens::add_sums`].
    #[inline(always)]
    pub(super) unsafe fn start_signed<I: PanelIsa, const QUANT: u8>(
        &self,
        group: usize,
        t: usize,
    ) -> I::Ints {
        // SAFETY: the caller's promises.
        unsafe {
            match const { Form::<QUANT>::start_divisor(I::OFFSET) } {
                Some(divisor) => I::splat_ints(*self.starts.add(group * self.count + t) / divisor),
                None => I::no_ints(),
            }
        }
    }

    /// Adds what offsets `b` of weights give, where the type with the id `QUANT` has any.
    ///
    /// # Safety
    /// As for [`Tokens::add_sums`].
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "one index for the tokens of several arrays")]
    pub(super) unsafe fn add_offsets<I: PanelIsa, const QUANT: u8>(
        &self,
        group: usize,
        b: I::Floats,
        acc_b: &mut [I::Floats; T],
    ) {
        if Form::<QUANT>::HAS_OFFSET {
            // SAFETY: the caller's promises.
            unsafe {
                let sx = self.sums.add(group * self.count);
                for t in 0..T {
                    acc_b[t] = I::fma(b, I::splat(*sx.add(t)), acc_b[t]);
                }
            }
        }
    }
}
