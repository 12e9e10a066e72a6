//! What this process is: its file, how the same program is started once more, and its words. A program that runs in another one,
//! such as Python, is told by that.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

static TOLD: OnceLock<OwnProcess> = OnceLock::new();

/// This process.
#[derive(Debug, Clone)]
pub struct OwnProcess {
    /// The file of the program.
    pub path: PathBuf,
    /// What comes before the words of a program.
    pub first: Vec<OsString>,
    /// The words behind its name.
    pub words: Vec<OsString>,
}

impl OwnProcess {
    /// Says what this process is; the first time it is said.
    pub fn tell(self) {
        let _ = TOLD.set(self);
    }

    /// What this process is.
    ///
    /// # Errors
    /// When the system does not tell its file.
    pub fn get() -> io::Result<OwnProcess> {
        match TOLD.get() {
            Some(told) => Ok(told.clone()),
            None => Ok(OwnProcess { path: env::current_exe()?, first: Vec::new(), words: words() }),
        }
    }

    /// The same program once more, without words.
    pub fn again(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.first);
        command
    }
}

/// The words behind the name of this program.
pub fn words() -> Vec<OsString> {
    TOLD.get().map_or_else(|| env::args_os().skip(1).collect(), |told| told.words.clone())
}
