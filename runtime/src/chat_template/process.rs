//! The process that renders, as the one that wants a text sees it. Whatever a template does to it, here it is an error.

use std::io::{self, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use super::engine::most_text;
use super::limits::{memory_for, patience_for, time_for};
use super::message::Input;
use super::protocol::{Answer, OUT_OF_TIME, Question, read_bytes, read_length, write_bytes};
use super::refusal::{FITTING, JINJA, Refusal};

/// Most bytes of an answer that is no text.
const MAX_ANSWER: u64 = 64 << 20;
/// What is kept of what the process says on stderr.
const MOST_SAID: u64 = 4 << 10;

/// Why there is no text.
pub(super) enum Failed {
    /// The template is refused.
    Refused(Refusal),
    /// The process could not be started.
    Start(io::Error),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed::Refused(refusal)
    }
}

/// A process that has read a template. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<io::Result<(Answer, String)>>,
    said: Receiver<String>,
}

impl Process {
    /// Starts `command` and has it read `template`.
    pub fn start(mut command: Command, template: &str) -> Result<Process, Failed> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C on a terminal is for the program, which ends this process or goes on with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(Failed::Start)?;
        let stdin = child.stdin.take();
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Failed::Start(io::Error::other("a pipe of a new process is not there")));
        };
        let (tell, answers) = channel();
        let (tell_said, said) = channel();
        let listen = thread::Builder::new().spawn(move || listen(stdout, &tell));
        let keep = thread::Builder::new().spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.take(MOST_SAID).read_to_end(&mut said);
            let _ = tell_said.send(String::from_utf8_lossy(&said).into_owned());
        });
        let mut process = Process { child, stdin, answers, said };
        listen.and(keep).map_err(Failed::Start)?;
        process.ask(&Question::Read(template.to_owned()), JINJA)?;
        Ok(process)
    }

    /// The text of a conversation. After a refusal that is not its own the process has ended.
    pub fn render(&mut self, input: &Input) -> Result<String, Refusal> {
        let text = self.ask(&Question::Render(input.clone()), FITTING)?;
        // The limit is the engine's; what comes from its process is held to it all the same.
        if text.len() > most_text(input) {
            return Err(Refusal::limit(format!("more than {} bytes of text", most_text(input))));
        }
        Ok(text)
    }

    /// Whether it may be asked again.
    pub fn lives(&self) -> bool {
        self.stdin.is_some()
    }

    fn ask(&mut self, question: &Question, expected: &str) -> Result<String, Refusal> {
        let question = serde_json::to_vec(question).map_err(|e| Refusal::new(expected, e))?;
        let bytes = question.len() as u64;
        // One that has ended cannot read; how it ended is told below.
        if let Some(stdin) = &mut self.stdin {
            let _ = write_bytes(stdin, &question);
        }
        match self.answers.recv_timeout(patience_for(bytes)) {
            Ok(Ok((Answer::Refused(refusal), _))) => Err(refusal),
            Ok(Ok((_, text))) => Ok(text),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                let status = self.end();
                let said = self.said.recv().unwrap_or_default();
                Err(Refusal::new(expected, crash(status, &said, bytes)))
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                let _ = self.end();
                Err(Refusal::new(expected, out_of_time(patience_for(bytes))))
            }
        }
    }

    /// Waits for the end of the process, which is near.
    fn end(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes answers, until there are no more.
fn listen(stdout: impl Read, tell: &Sender<io::Result<(Answer, String)>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let answer = match read_answer(&mut stdout) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let last = answer.is_err();
        if tell.send(answer).is_err() || last {
            return;
        }
    }
}

fn read_answer(from: &mut impl Read) -> io::Result<Option<(Answer, String)>> {
    let Some(length) = read_length(from)? else { return Ok(None) };
    let answer = serde_json::from_slice(&read_bytes(from, length, MAX_ANSWER)?)?;
    let mut text = String::new();
    if matches!(answer, Answer::Text) {
        let length = read_length(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = read_bytes(from, length, u64::MAX)?;
        text = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    }
    Ok(Some((answer, text)))
}

/// What a process met that has ended before it answered a question of `bytes` bytes.
fn crash(status: io::Result<ExitStatus>, said: &str, bytes: u64) -> String {
    if said.contains(OUT_OF_TIME) {
        return out_of_time(time_for(bytes));
    }
    if said.contains("memory allocation of") {
        return format!("that it takes more than {} MiB of memory", memory_for(bytes) >> 20);
    }
    if said.contains("overflowed its stack") {
        return "that it is nested too deeply, or uses a value that holds itself".to_owned();
    }
    match status {
        Ok(status) => format!("that it ended its process ({status})"),
        Err(error) => format!("that its process is lost: {error}"),
    }
}

fn out_of_time(limit: std::time::Duration) -> String {
    format!("that it does not end within {} s", limit.as_secs())
}
