//! What a recurrent layer has kept of the tokens so far.
//!
//! A step reads one side and writes the other, and only when all of it is done do the two change places: a step that was stopped
//! or failed leaves the state as it was.

use qsf_format::{ModelConfig, RecurrentMixer};

use crate::error::{Result, RuntimeError};
use qsf_cpu::{AlignedFloats, GatedDelta, SelectiveScan, StateSpace};

/// The state of one layer.
pub struct RecurrentState {
    sides: [Side; 2],
    /// The side of the last finished step.
    current: usize,
    /// Whether the step under way has written the other one.
    stepped: bool,
    /// Whether no token has been seen.
    empty: bool,
    /// What [`RecurrentState::mark`] kept last.
    marked: Option<Side>,
}

/// One state.
pub struct Side {
    /// The last inputs of the convolution, `taps - 1` x `channels`.
    pub inputs: AlignedFloats,
    /// What the recurrence keeps.
    pub memory: AlignedFloats,
}

impl Side {
    fn zeros(inputs: usize, memory: usize) -> Result<Side> {
        Ok(Side {
            inputs: AlignedFloats::zeros(inputs, "recurrent state")?,
            memory: AlignedFloats::zeros(memory, "recurrent state")?,
        })
    }

    fn copy_from(&mut self, other: &Side) {
        self.inputs.copy_from_slice(&other.inputs);
        self.memory.copy_from_slice(&other.memory);
    }
}

/// Floats of the two parts of a state.
pub fn recurrent_sizes(config: &ModelConfig) -> Option<(usize, usize)> {
    let recurrent = config.recurrent.as_ref()?;
    let channels = recurrent.channels(config.hidden as usize);
    let memory = match recurrent.mixer {
        RecurrentMixer::GatedDelta { key_dim, value_heads, value_dim, .. } => {
            GatedDelta::state_len(value_heads as usize, value_dim as usize, key_dim as usize)
        }
        RecurrentMixer::Mamba2 { heads, head_dim, state, .. } => {
            StateSpace::state_len(heads as usize, head_dim as usize, state as usize)
        }
        RecurrentMixer::Mamba1 { width, state, .. } => {
            SelectiveScan::state_len(width as usize, state as usize)
        }
        RecurrentMixer::ShortConv {} => 0,
    };
    Some((channels.saturating_mul((recurrent.taps as usize).saturating_sub(1)), memory))
}

/// That `position` is neither the first nor the last of `seen`, nor marked.
pub fn no_way_back(position: usize, seen: usize) -> RuntimeError {
    RuntimeError::Request(format!(
        "position {position} cannot be gone back to: recurrent layers keep what is behind the last token, of which there are {seen}, \
         and the beginning"
    ))
}

impl RecurrentState {
    /// The state of a recurrent layer before the first token; `None` for models without such layers.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(config: &ModelConfig) -> Result<Option<RecurrentState>> {
        let Some((inputs, memory)) = recurrent_sizes(config) else { return Ok(None) };
        let sides = [Side::zeros(inputs, memory)?, Side::zeros(inputs, memory)?];
        Ok(Some(RecurrentState { sides, current: 0, stepped: false, empty: true, marked: None }))
    }

    /// Bytes of the state of one layer.
    pub fn bytes(config: &ModelConfig) -> u64 {
        let floats = recurrent_sizes(config).map_or(0, |(inputs, memory)| inputs.saturating_add(memory));
        2 * (floats as u64).saturating_mul(size_of::<f32>() as u64)
    }

    /// The state before a step, and where that behind it goes.
    pub fn step(&mut self) -> (&Side, &mut Side) {
        let [first, second] = &mut self.sides;
        let (from, to) = if self.current == 0 { (first, second) } else { (second, first) };
        if self.empty {
            from.inputs.fill(0.0);
            from.memory.fill(0.0);
            self.empty = false;
        }
        self.stepped = true;
        (from, to)
    }

    /// Whether a token was seen, and what the last finished step has left, which says nothing where none was.
    pub fn now(&self) -> (bool, &Side) {
        (!self.empty, &self.sides[self.current])
    }

    /// What is to be taken for the state of now, `seen` where there was a token.
    pub fn replace(&mut self, seen: bool) -> &mut Side {
        (self.empty, self.stepped) = (!seen, false);
        &mut self.sides[self.current]
    }

    /// Forgets what a step has written that did not come to its end.
    pub fn begin(&mut self) {
        self.stepped = false;
    }

    /// The step is done.
    pub fn commit(&mut self) {
        if std::mem::take(&mut self.stepped) {
            self.current = 1 - self.current;
        }
    }

    /// Keeps what the tokens so far have left, for [`RecurrentState::return_to_mark`].
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn mark(&mut self) -> Result<()> {
        let now = &self.sides[self.current];
        match &mut self.marked {
            Some(marked) => marked.copy_from(now),
            none => none.insert(Side::zeros(now.inputs.len(), now.memory.len())?).copy_from(now),
        }
        Ok(())
    }

    /// Takes up what was kept last, any number of times.
    pub fn return_to_mark(&mut self) {
        if let Some(marked) = &self.marked {
            self.sides[self.current].copy_from(marked);
            self.stepped = false;
        }
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        (self.stepped, self.empty) = (false, true);
    }
}
