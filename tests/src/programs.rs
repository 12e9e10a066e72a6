//! The binaries under test, as a user calls them.

use std::ffi::OsStr;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// A call of one of the binaries, without a terminal and without `QSF_CPU` from outside.
#[derive(Debug)]
pub struct Program(Command);

/// What a call left behind.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit code; -1 when a signal ended the process.
    pub code: i32,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
}

/// A call of `qsf-convert`, `qsf-eval`, `qsf-run` or `qsf-inspect`.
pub fn program(name: &str) -> Program {
    let mut command = Command::new(binary(name));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("QSF_CPU");
    // How long work takes is the machine's affair, and so is whether there are lines of progress.
    command.env("QSF_PROGRESS_SECONDS", "0");
    Program(command)
}

/// A call of one of the project's Python scripts. A test that makes one begins with
/// `#[cfg_attr(not(qsf_python), ignore = "needs Python 3")]`.
pub fn script(name: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name);
    assert!(path.is_file(), "{} is not there", path.display());
    let mut command = Command::new(if cfg!(windows) { "python" } else { "python3" });
    command
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_remove("QSF_CPU");
    Program(command)
}

/// The path of a binary under test, for scripts that run it.
pub fn program_path(name: &str) -> PathBuf {
    binary(name)
}

impl Program {
    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Program {
        self.0.arg(arg);
        self
    }

    /// Adds arguments separated by spaces.
    pub fn args(mut self, args: &str) -> Program {
        self.0.args(args.split_whitespace());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Program {
        self.0.env(name, value);
        self
    }

    /// Has `text` on stdin.
    pub fn input(mut self, text: &str) -> Program {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        self.0.stdin(file);
        self
    }

    /// Runs to the end with `text` from a pipe on stdin.
    pub fn piped(mut self, text: &str) -> Output {
        let mut child = self.0.stdin(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{:?}: {e}", self.0));
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Output::of(&child.wait_with_output().unwrap())
    }

    /// Runs in `dir`.
    pub fn dir(mut self, dir: &Path) -> Program {
        self.0.current_dir(dir);
        self
    }

    /// Starts at a terminal of its own.
    #[cfg(target_os = "linux")]
    pub fn at_a_terminal(self) -> crate::Terminal {
        crate::Terminal::start(self.0)
    }

    /// Runs to the end.
    pub fn run(mut self) -> Output {
        let output = self.0.output().unwrap_or_else(|e| panic!("{:?}: {e}", self.0));
        Output::of(&output)
    }

    /// Runs to the end, and gives its peak of resident memory in bytes as well, by the system's own count.
    #[cfg(target_os = "linux")]
    pub fn run_measured(self) -> (Output, u64) {
        let peak = tempfile::NamedTempFile::new().unwrap();
        let mut call = Command::new(profile_folder().join("measured"));
        call.arg(peak.path()).arg(self.0.get_program()).args(self.0.get_args());
        call.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in self.0.get_envs() {
            match value {
                Some(value) => call.env(name, value),
                None => call.env_remove(name),
            };
        }
        if let Some(dir) = self.0.get_current_dir() {
            call.current_dir(dir);
        }
        let output = Program(call).run();
        let bytes = std::fs::read_to_string(peak.path()).unwrap().parse();
        (output, bytes.unwrap())
    }

    /// Starts it; its output goes nowhere.
    pub fn start(mut self) -> Child {
        self.0.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts it; its stdin can be written and its stdout read.
    pub fn start_talking(mut self) -> Child {
        self.0.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts it; its stderr can be read.
    pub fn start_watched(mut self) -> Child {
        self.0.stdout(Stdio::null()).spawn().unwrap()
    }

    /// Starts it with a stdout that nobody reads: the pipe is closed already.
    pub fn start_unread(mut self) -> Child {
        let mut child = self.0.spawn().unwrap();
        drop(child.stdout.take());
        child
    }

    /// This call by way of a shell script, which finds the program and its arguments as `"$@"`.
    pub fn through_shell(self, script: &str) -> Program {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(self.0.get_program()).args(self.0.get_args());
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("QSF_CPU");
        for (name, value) in self.0.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        if let Some(dir) = self.0.get_current_dir() {
            shell.current_dir(dir);
        }
        Program(shell)
    }
}

impl Output {
    fn of(output: &std::process::Output) -> Output {
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// This output, after checking that the run succeeded and had nothing to say on stderr but what is true of the models and texts
    /// of most tests: that the one has no tokenizer, or a window that llama.cpp does not know, and the other few tokens, or several
    /// parts.
    #[track_caller]
    pub fn ok(self) -> Output {
        assert_eq!(self.code, 0, "{}", self.stderr);
        let parts = ["calibration tokens: ", "fitted to "];
        let of_tests = |line: &&str| {
            line.starts_with("note: ") && parts.iter().any(|part| line.contains(part))
                || line.starts_with("warning: ")
                    && ["has no tokenizer", "so few can make", "tokens, the sliding window"]
                        .iter()
                        .any(|part| line.contains(part))
        };
        let said: Vec<&str> = self.stderr.lines().filter(|line| !of_tests(line)).collect();
        assert!(said.is_empty(), "stderr of a run that succeeded, not at a terminal: {}", self.stderr);
        self
    }

    /// Stdout of a run that succeeded, which must be one JSON object and nothing else.
    #[track_caller]
    pub fn json(self) -> Value {
        let output = self.ok();
        let value: Value = serde_json::from_str(&output.stdout)
            .unwrap_or_else(|e| panic!("stdout is not one JSON value: {e}\n{}", output.stdout));
        assert!(value.is_object(), "{value}");
        value
    }
}

/// Whether this processor has what `QSF_CPU=avx2` asks for.
pub fn has_avx2() -> bool {
    let system = program("qsf-run").args("--system --json").run().json();
    system["isa_available"].as_array().unwrap().iter().any(|isa| isa == "avx2")
}

fn binary(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let path = FOLDER.get_or_init(built_binaries).join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

/// The folder of the binaries: the one that `QSF_BIN_DIR` names, to test what was built elsewhere, or the profile's own
/// after building them in it. Cargo builds binaries of other packages for no test, so this has to.
fn built_binaries() -> PathBuf {
    if let Some(dir) = std::env::var_os("QSF_BIN_DIR") {
        return dir.into();
    }
    let dir = profile_folder();
    let profile = match dir.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With these Cargo tells tests of their package. The build script of ring asks for them, and what depends on it, the programs too,
    // would be built anew here, and again by whoever builds next.
    let of_package = |name: &str| {
        name == "OUT_DIR" || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        cargo.env_remove(name);
    }
    let built = cargo
        .args(["build", "--workspace", "--bins", "--quiet", "--profile", profile])
        .arg("--target-dir")
        .arg(dir.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    dir
}

/// Where Cargo puts the binaries of the profile that this test was built with.
fn profile_folder() -> PathBuf {
    // target/PROFILE/deps/TEST-HASH
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}
