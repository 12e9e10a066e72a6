//! A program at a terminal: what a person types and sees.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::openpty;

/// How long something may take to be seen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program, and the terminal that it runs at.
pub struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
    /// What was looked at.
    seen: usize,
}

impl Terminal {
    /// Starts a program at a terminal of its own.
    pub fn start(mut command: Command) -> Terminal {
        let pair = openpty(None, None).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm");
        let child = command.spawn().unwrap();
        let master: OwnedFd = pair.master;
        let keys = File::from(master.try_clone().unwrap());
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, shown) = (File::from(master), screen.clone());
        // Ends with an error when the program has.
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Terminal { child, keys, screen, seen: 0 }
    }

    /// Types a line.
    pub fn enter(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\r").as_bytes()).unwrap();
    }

    /// Waits until `text` is there, behind what was waited for before.
    #[track_caller]
    pub fn sees(&mut self, text: &str) {
        let began = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{text:?} is not in {:?}", &screen[self.seen..]);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end of the program; gives its exit code.
    pub fn ends(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Of a test that has failed.
        let _ = self.child.kill();
    }
}
