//! The process of a job, as the process of the batch sees it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::error::BatchError;
use super::protocol::{GO, Report, STOP};
use crate::own_process::OwnProcess;

/// What is kept of what a process said on stderr.
const MOST_SAID: usize = 4 << 10;

/// What the process of a job runs: `qsf-convert`, or something that does the same.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// What comes before the words for `qsf-convert`.
    pub first: Vec<OsString>,
}

impl Program {
    /// The program that this process runs.
    ///
    /// # Errors
    /// When the system does not tell its file.
    pub fn this() -> Result<Program, BatchError> {
        let own = OwnProcess::get().map_err(|e| BatchError::io(Path::new("qsf-convert"), "find", e))?;
        Ok(Program { path: own.path, first: own.first })
    }
}

/// A process of a job.
pub(super) struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    stderr: JoinHandle<String>,
    pub started: Instant,
}

/// What comes from the process of the job of this number.
pub(super) enum Event {
    Said(usize, Report),
    /// It has closed its stdout: it has ended, or is about to.
    Closed(usize),
}

impl Child {
    /// Starts `program` in `folder`; what it says goes to `events`, under the number `job`.
    pub fn start(
        program: &Program,
        args: &[OsString],
        folder: &Path,
        job: usize,
        events: &Sender<Event>,
    ) -> io::Result<Child> {
        let mut command = Command::new(&program.path);
        command.args(&program.first).args(args).current_dir(folder);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("a pipe of a new process is not there");
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let events = events.clone();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                // What is no report is what a library prints.
                let Ok(report) = serde_json::from_str(&line) else { continue };
                if events.send(Event::Said(job, report)).is_err() {
                    return;
                }
            }
            // The batch may have ended as well.
            let _ = events.send(Event::Closed(job));
        });
        let stderr = thread::spawn(move || last_words(stderr));
        Ok(Child { process, stdin, stderr, started: Instant::now() })
    }

    /// Lets the conversion begin.
    pub fn go(&mut self) {
        self.say(GO);
    }

    /// Asks it to stop.
    pub fn stop(&mut self) {
        self.say(STOP);
    }

    /// A process that cannot hear has ended, which its stdout tells.
    fn say(&mut self, word: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{word}").and_then(|()| stdin.flush());
        }
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Peak of its memory so far, where the system tells.
    pub fn peak(&self) -> Option<u64> {
        qsf_runtime::memory::peak_resident_of(self.process.id())
    }

    /// What it has of memory now that is no page of a file, where the system tells.
    pub fn anonymous(&self) -> Option<u64> {
        qsf_runtime::memory::anonymous_of(self.process.id())
    }

    /// How it ended, and its last words on stderr.
    pub fn end(mut self) -> (io::Result<ExitStatus>, String) {
        let status = self.process.wait();
        drop(self.stdin.take());
        (status, self.stderr.join().unwrap_or_default())
    }
}

/// The end of what is said.
fn last_words(mut stderr: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(n @ 1..) = stderr.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..n]);
        let extra = kept.len().saturating_sub(MOST_SAID);
        kept.drain(..extra);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// How a process ended that had nothing to say, as an exit code (128 and the signal, as shells have it) and in words.
pub(super) fn crash(status: &io::Result<ExitStatus>, said: &str) -> (u8, String) {
    let (code, what) = match status {
        Ok(status) => match (status.code(), signal(*status)) {
            (Some(code), _) => (code as u8, format!("its process ended with exit code {code}")),
            (None, Some(9)) => {
                (137, "its process was killed (signal 9): the system was probably out of memory".into())
            }
            (None, Some(signal)) => {
                (128 + signal as u8, format!("its process was killed by signal {signal}"))
            }
            (None, None) => (1, "its process ended without an exit code".into()),
        },
        Err(error) => (1, format!("its process is lost: {error}")),
    };
    let what = if said.is_empty() { what } else { format!("{what}: {said}") };
    (code, what)
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> Option<i32> {
    None
}
