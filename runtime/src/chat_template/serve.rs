//! The process that renders, from inside: it reads a template, renders conversations, and ends when nobody asks any more.

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::engine::Engine;
use super::limits::{STACK, data_taken, limit_memory, memory_for, time_for, time_taken};
use super::protocol::{Answer, OUT_OF_TIME, Question, read_bytes, read_length, write_bytes};
use super::refusal::Refusal;

/// How often the time is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// No question is being answered.
const IDLE: u64 = u64::MAX;

/// Time of the processor at which this process ends itself, in milliseconds.
static ENDS_AT: AtomicU64 = AtomicU64::new(IDLE);

/// Answers what is asked on stdin, on stdout, under limits of memory and time.
///
/// To be called at the start of a program that was started as [`super::set_renderer`] says, before it does anything else.
///
/// # Errors
/// When no thread can be had, or the process that asks says what is no question.
pub fn serve_renderer() -> io::Result<()> {
    thread::Builder::new().name("clock".into()).spawn(watch_time)?;
    let server = thread::Builder::new().name("template".into()).stack_size(STACK).spawn(answer_all)?;
    server.join().unwrap_or_else(|_| Err(io::Error::other("rendering has panicked")))
}

fn answer_all() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), BufWriter::new(io::stdout().lock()));
    let taken = data_taken();
    let mut engine = None;
    while let Some(length) = read_length(&mut input)? {
        // Whoever asks is trusted; what it asks about is not.
        limit_memory(taken, memory_for(length));
        let ends = time_taken() + time_for(length);
        ENDS_AT.store(ends.as_millis() as u64, Ordering::Relaxed);
        let question = serde_json::from_slice(&read_bytes(&mut input, length, u64::MAX)?)?;
        let answer = match question {
            Question::Read(text) => Engine::new(&text).map(|read| {
                engine = Some(read);
                None
            }),
            Question::Render(input) => match &engine {
                Some(engine) => engine.render(&input).map(Some),
                None => Err(Refusal::limit("nothing read")),
            },
        };
        ENDS_AT.store(IDLE, Ordering::Relaxed);
        tell(&mut output, answer)?;
    }
    Ok(())
}

fn tell(output: &mut impl Write, answer: Result<Option<String>, Refusal>) -> io::Result<()> {
    match answer {
        Ok(None) => write_bytes(output, &serde_json::to_vec(&Answer::Read)?),
        Ok(Some(text)) => {
            write_bytes(output, &serde_json::to_vec(&Answer::Text)?)?;
            write_bytes(output, text.as_bytes())
        }
        Err(refusal) => write_bytes(output, &serde_json::to_vec(&Answer::Refused(refusal))?),
    }
}

/// Ends the process when a question has taken too long.
fn watch_time() {
    loop {
        thread::sleep(LOOK_EVERY);
        let ends = ENDS_AT.load(Ordering::Relaxed);
        if ends != IDLE && time_taken().as_millis() as u64 > ends {
            // Nothing that takes memory, or a lock of the thread that renders.
            let _ = io::stderr().write_all(OUT_OF_TIME.as_bytes());
            std::process::abort();
        }
    }
}
