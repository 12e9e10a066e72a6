//! Ctrl-C and SIGTERM.
//!
//! Both set a flag that long work looks at, so that it ends in order. Some work never looks: the library that splits a text into
//! tokens, the system that maps a file. So a clock runs from the first signal on. When it has run down and the process is still
//! there, its unfinished files are removed and it ends. A second signal does that at once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use qsf_format::printable::printable;
use qsf_format::{Failure, abandon_partial_files};
use qsf_runtime::progress::Cancel;

use crate::error_line::error_line;

/// Time in which a program ends in order.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The same for a process of a batch, whose end the batch still has to write down.
const PATIENCE_OF_A_JOB: Duration = Duration::from_millis(1000);

/// The journal of the conversion that runs.
static JOURNAL: Mutex<Option<PathBuf>> = Mutex::new(None);
/// The flag of this process.
static CANCEL: OnceLock<Cancel> = OnceLock::new();
/// Whether Ctrl-C ends an answer, and the program only if it comes again.
static CONVERSATION: AtomicBool = AtomicBool::new(false);

/// A flag that Ctrl-C and SIGTERM set, for the whole process. To be called before any thread is started.
///
/// # Errors
/// When the handler cannot be installed.
pub fn cancel_on_interrupt() -> anyhow::Result<Cancel> {
    if let Some(cancel) = CANCEL.get() {
        return Ok(cancel.clone());
    }
    let cancel = Cancel::default();
    #[cfg(unix)]
    termination::watch(&cancel)?;
    let flag = cancel.clone();
    ctrlc::set_handler(move || interrupted(&flag, CONVERSATION.load(Ordering::Relaxed)))
        .context("cannot handle Ctrl-C")?;
    Ok(CANCEL.get_or_init(|| cancel).clone())
}

/// From here on Ctrl-C ends an answer and not the program. SIGTERM ends it as before.
pub fn ctrl_c_ends_an_answer() {
    CONVERSATION.store(true, Ordering::Relaxed);
}

/// Ends the process soon, if it does not end by itself.
pub fn end_soon_as_a_job() {
    end_after(PATIENCE_OF_A_JOB);
}

/// Names the journal that keeps what this process does, for those who end it.
pub fn note_at_the_end(journal: PathBuf) {
    *JOURNAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(journal);
}

/// What a user is told when work with a journal has stopped.
pub fn how_it_goes_on(journal: &Path) -> String {
    format!("{} keeps what is done: the same command goes on from there", journal.display())
}

/// A signal has come.
fn interrupted(cancel: &Cancel, only_an_answer: bool) {
    if cancel.is_requested() {
        end_now();
    }
    cancel.request();
    if !only_an_answer {
        end_after(PATIENCE);
    }
}

fn end_after(patience: Duration) {
    // Without a thread the next signal ends the process.
    let _ = thread::Builder::new().name("end".into()).spawn(move || {
        thread::sleep(patience);
        end_now();
    });
}

/// Ends the process with what it has not finished removed. What a journal has of it stays.
pub fn end_now() -> ! {
    abandon_partial_files();
    let journal = JOURNAL.try_lock().ok().and_then(|mut journal| journal.take());
    let note = journal.filter(|journal| journal.exists()).map(|journal| how_it_goes_on(&journal));
    let lines = note.map_or_else(String::new, |note| format!("note: {}\n", printable(&note)));
    // At the prompt of a conversation this is how it ends. Nobody may be there to read it.
    if !CONVERSATION.load(Ordering::Relaxed) {
        let _ = writeln!(std::io::stderr(), "{lines}{}", error_line(Failure::Interrupted, "interrupted"));
    }
    exit(Failure::Interrupted.exit_code().into())
}

/// SIGTERM and SIGHUP, which a thread of their own waits for: they are blocked in all others, so the handler of Ctrl-C never has
/// them, which cannot tell signals apart.
#[cfg(unix)]
mod termination {
    use std::thread;

    use anyhow::Context;
    use nix::sys::signal::{SigSet, Signal};
    use qsf_runtime::progress::Cancel;

    pub(super) fn watch(cancel: &Cancel) -> anyhow::Result<()> {
        let mut signals: SigSet = [Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block().context("cannot handle SIGTERM")?;
        // Whoever has it ignored, as nohup does, wants the work to go on without a terminal: it stays blocked then.
        if is_ignored(Signal::SIGHUP) {
            signals.remove(Signal::SIGHUP);
        }
        let cancel = cancel.clone();
        let waiting = thread::Builder::new().name("signals".into()).spawn(move || {
            while signals.wait().is_ok() {
                super::interrupted(&cancel, false);
            }
        });
        waiting.context("cannot handle SIGTERM").map(drop)
    }

    /// Whether the process was started with this signal ignored, as Linux says (proc_pid_status(5)).
    fn is_ignored(signal: Signal) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
    }
}
