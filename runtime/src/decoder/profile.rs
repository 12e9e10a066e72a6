//! Where the time of a step goes: measured on the calling thread around parallel work, at no cost when off.

use std::time::Instant;

/// A kind of work in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Weight matrices of the layers, with the quantization of their inputs.
    Matmul,
    /// Scores, softmax and values of attention, and writing the key/value cache.
    Attention,
    /// Embedding, norms, rotation, activation functions, residual sums.
    Elementwise,
    /// The head: logits from the last hidden state.
    Head,
}

impl Section {
    /// Every section, in the order of reports.
    pub const ALL: [Section; 4] = [Section::Matmul, Section::Attention, Section::Elementwise, Section::Head];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Section::Matmul => "matmul",
            Section::Attention => "attention",
            Section::Elementwise => "elementwise",
            Section::Head => "head",
        }
    }
}

/// Nanoseconds per [`Section`].
///
/// Time is cut into laps, and each lap counts for one section.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    on: bool,
    cut: Option<Instant>,
    nanoseconds: [u64; Section::ALL.len()],
}

impl Profile {
    /// Starts counting from zero, or stops.
    pub fn set(&mut self, on: bool) {
        *self = Profile { on, ..Profile::default() };
    }

    /// Time spent on `section` since counting was switched on.
    pub fn nanoseconds(&self, section: Section) -> u64 {
        self.nanoseconds[section as usize]
    }

    /// Whether it counts.
    #[cfg(feature = "gpu")]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Counts work that was timed elsewhere.
    #[cfg(feature = "gpu")]
    pub(crate) fn add(&mut self, section: Section, nanoseconds: u64) {
        self.nanoseconds[section as usize] += nanoseconds;
    }

    /// Work begins; what was before it counts for nothing.
    pub(super) fn begin(&mut self) {
        if self.on {
            self.cut = Some(Instant::now());
        }
    }

    /// The time since the last cut was spent on `section`.
    pub(super) fn lap(&mut self, section: Section) {
        if let Some(cut) = self.cut {
            let now = Instant::now();
            self.nanoseconds[section as usize] += (now - cut).as_nanos() as u64;
            self.cut = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn laps_add_up_to_the_time_between_begin_and_the_last_lap() {
        let mut profile = Profile::default();
        profile.begin();
        profile.lap(Section::Matmul);
        assert!(Section::ALL.iter().all(|&s| profile.nanoseconds(s) == 0), "off: {profile:?}");
        profile.set(true);
        std::thread::sleep(Duration::from_millis(20));
        let started = Instant::now();
        profile.begin();
        std::thread::sleep(Duration::from_millis(2));
        profile.lap(Section::Attention);
        std::thread::sleep(Duration::from_millis(4));
        profile.lap(Section::Head);
        let all: u64 = Section::ALL.iter().map(|&s| profile.nanoseconds(s)).sum();
        assert!(profile.nanoseconds(Section::Attention) >= 2_000_000, "{profile:?}");
        assert!(profile.nanoseconds(Section::Head) >= 4_000_000, "{profile:?}");
        assert!(all <= started.elapsed().as_nanos() as u64, "time before the beginning counts: {profile:?}");
        profile.set(false);
        assert_eq!(profile.nanoseconds(Section::Head), 0);
    }
}
