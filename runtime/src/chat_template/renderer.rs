//! Where a template is rendered: in a process of its own where the program has said how to start one, else on a thread.

use std::io;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::thread;

use super::engine::Engine;
use super::limits::STACK;
use super::message::Input;
use super::process::{Failed, Process};

/// How the process that renders is started, if it is.
static COMMAND: OnceLock<fn() -> io::Result<Command>> = OnceLock::new();

/// Has templates of this process rendered in a process of their own, which `command` starts: one that calls
/// [`super::serve_renderer`]. The first call counts.
pub fn set_renderer(command: fn() -> io::Result<Command>) {
    let _ = COMMAND.set(command);
}

/// A template that was read.
#[derive(Debug)]
pub(super) enum Renderer {
    Process { template: String, process: Process },
    Thread(Arc<Engine>),
}

impl Renderer {
    /// Reads a template.
    pub fn new(text: &str) -> Result<Renderer, Failed> {
        if let Some(command) = COMMAND.get() {
            let process = Process::start(command().map_err(Failed::Start)?, text)?;
            return Ok(Renderer::Process { template: text.to_owned(), process });
        }
        let text = text.to_owned();
        let engine = on_a_thread(move || Engine::new(&text))??;
        Ok(Renderer::Thread(Arc::new(engine)))
    }

    /// The text of a conversation.
    pub fn render(&mut self, input: Input) -> Result<String, Failed> {
        match self {
            Renderer::Process { template, process } => {
                // What ended it was one conversation; another may do better.
                if let (false, Some(command)) = (process.lives(), COMMAND.get()) {
                    *process = Process::start(command().map_err(Failed::Start)?, template)?;
                }
                Ok(process.render(&input)?)
            }
            Renderer::Thread(engine) => {
                let engine = engine.clone();
                Ok(on_a_thread(move || engine.render(&input))??)
            }
        }
    }
}

/// What comes of `work` on a thread with a stack of known size. Panics of the library are caught further in.
fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failed> {
    // WebAssembly has no threads, and one stack, which web/build.rs makes as large.
    if cfg!(target_family = "wasm") {
        return Ok(work());
    }
    let thread = thread::Builder::new().name("template".into()).stack_size(STACK).spawn(work);
    let joined = thread.map_err(Failed::Start)?.join();
    joined.map_err(|_| Failed::Start(io::Error::other("rendering has panicked")))
}
