//! Sessions: tokens in, logits out.

use std::sync::{Arc, Mutex, TryLockError};

use qsf_cli::kept_model::KeptModel;
use qsf_runtime::progress::Cancel;
use qsf_runtime::sample::Sampler;
use qsf_runtime::{Decoder, DecoderState, Runner as _};

use crate::arguments;
use crate::model::qsf_model;
use crate::status::{Ended, guard, qsf_status};
use crate::text::{qsf_cancel, qsf_sampling};

/// A text that grows: keys and values of its tokens. One thread at a time may use it; another gets QSF_BUSY.
#[allow(non_camel_case_types, reason = "a name of C")]
pub struct qsf_session {
    inner: Mutex<Session>,
}

struct Session {
    /// Its weights stay as long as the session.
    _model: Arc<KeptModel>,
    decoder: Decoder,
    state: DecoderState,
    /// Tokens of the last step; 0 where there are no logits.
    rows: usize,
    /// Room for logits.
    logits: Vec<f32>,
}

/// Runs `work` with the session, which nobody else uses meanwhile.
///
/// # Safety
/// The pointer is valid, or NULL.
unsafe fn with_session(
    session: *const qsf_session,
    work: impl FnOnce(&mut Session) -> anyhow::Result<()>,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the caller promises.
        let session = unsafe { arguments::object(session, "session") }?;
        match session.inner.try_lock() {
            Ok(mut session) => work(&mut session),
            // What panicked was told by then; the state may be half of a step.
            Err(TryLockError::Poisoned(_)) => {
                Err(Ended(qsf_status::QSF_INTERNAL, "the session broke in an earlier call".into()).into())
            }
            Err(TryLockError::WouldBlock) => {
                Err(Ended(qsf_status::QSF_BUSY, "another thread uses the session".into()).into())
            }
        }
    })
}

/// A session without tokens, with room for context positions (0: what the model allows). cancel, which may be NULL, ends its
/// steps. The session is to be freed by qsf_session_free; it may outlive the model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_session_new(
    model: *const qsf_model,
    context: usize,
    cancel: *const qsf_cancel,
    session: *mut *mut qsf_session,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (model, place) =
            unsafe { (arguments::object(model, "model")?, arguments::place(session, "session")?) };
        let kept = model.kept.clone();
        if kept.budget.is_some() {
            let problem = "a session of a model with a RAM budget, which has room for qsf_generate only";
            return Err(Ended(qsf_status::QSF_UNSUPPORTED, problem.into()).into());
        }
        let context = if context == 0 { kept.context } else { context };
        // SAFETY: as the header demands.
        let flag = unsafe { cancel.as_ref() }.map_or_else(Cancel::default, |cancel| cancel.flag.clone());
        let decoder = kept.on_cpu("a session", &flag)?;
        let state = decoder.state_with(context, kept.batch, kept.kv)?;
        let logits = vec![0.0; decoder.config().vocab as usize];
        let inner = Mutex::new(Session { _model: kept, decoder, state, rows: 0, logits });
        *place = Box::into_raw(Box::new(qsf_session { inner }));
        Ok(())
    })
}

/// Frees a session. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_session_free(session: *mut qsf_session) {
    if !session.is_null() {
        // SAFETY: it came from `qsf_session_new`, and is freed once, as the header demands.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// Runs tokens through the model, behind those before. When it fails, the session has as many tokens as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_session_forward(
    session: *const qsf_session,
    ids: *const u32,
    count: usize,
) -> qsf_status {
    // SAFETY: as the header demands.
    unsafe {
        with_session(session, |session| {
            let ids = arguments::values(ids, count, "ids")?;
            let before = session.state.position();
            for step in ids.chunks(session.state.batch()) {
                if let Err(error) = session.decoder.forward(&mut session.state, step) {
                    session.state.rewind(before)?;
                    session.rows = 0;
                    return Err(error.into());
                }
                session.rows = step.len();
            }
            Ok(())
        })
    }
}

/// Logits of the token that comes next, vocab floats. Writes at most capacity, and to length how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_session_logits(
    session: *const qsf_session,
    logits: *mut f32,
    capacity: usize,
    length: *mut usize,
) -> qsf_status {
    // SAFETY: as the header demands.
    unsafe {
        with_session(session, |session| {
            session.compute_logits()?;
            arguments::give(&session.logits, logits, capacity, length)
        })
    }
}

/// Chooses the token that comes next. The same session and sampling give the same token; for a text of many tokens give each a seed
/// of its own, such as the seed of the text plus its position.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_session_sample(
    session: *const qsf_session,
    sampling: *const qsf_sampling,
    id: *mut u32,
) -> qsf_status {
    // SAFETY: as the header demands.
    unsafe {
        with_session(session, |session| {
            let (sampling, place) = (arguments::object(sampling, "sampling")?, arguments::place(id, "id")?);
            let mut sampler = Sampler::new(sampling.options()?);
            session.compute_logits()?;
            *place = sampler.sample(&session.logits)?;
            Ok(())
        })
    }
}

/// Tokens that the session has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_session_position(
    session: *const qsf_session,
    position: *mut usize,
) -> qsf_status {
    // SAFETY: as the header demands.
    unsafe {
        with_session(session, |session| {
            *arguments::place(position, "position")? = session.state.position();
            Ok(())
        })
    }
}

/// Forgets all tokens from position on. There are no logits then, before other tokens have been run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_session_rewind(session: *const qsf_session, position: usize) -> qsf_status {
    // SAFETY: as the header demands.
    unsafe {
        with_session(session, |session| {
            let now = session.state.position();
            if position > now {
                let problem = format!("position {position}: the session has {now} tokens");
                return Err(Ended(qsf_status::QSF_USAGE, problem).into());
            }
            session.state.rewind(position)?;
            session.rows = 0;
            Ok(())
        })
    }
}

impl Session {
    fn compute_logits(&mut self) -> anyhow::Result<()> {
        if self.rows == 0 {
            let problem = "no token was run that logits could be of: call qsf_session_forward first";
            return Err(Ended(qsf_status::QSF_USAGE, problem.into()).into());
        }
        let last = self.rows - 1;
        Ok(self.decoder.logits(&mut self.state, last..last + 1, &mut self.logits)?)
    }
}
