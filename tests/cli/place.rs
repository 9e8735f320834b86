//! A folder of its own for each test, the command in it, and what it said.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use relayproof::evidence::{self, Evidence};
use serde_json::Value;

/// Longer than anything here takes on any machine that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A working folder; runs go to `runs` in it.
pub(crate) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        fs::write(self.path().join(name), text).unwrap();
        self
    }

    /// The command with nothing of this process's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.within(Command::new(env!("CARGO_BIN_EXE_relayproof")), arguments)
    }

    /// The command, started by a shell that first does something else.
    pub(crate) fn through_shell(&self, first: &str, arguments: &[&str]) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(format!("{first}; exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_relayproof"));
        self.within(shell, arguments)
    }

    fn within(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("RELAYPROOF_DIR", "runs")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Seen {
        Seen::of(self.command(arguments).output().unwrap())
    }

    /// The folder of a run.
    pub(crate) fn of_run(&self, run_id: &str) -> PathBuf {
        self.path().join("runs").join(run_id)
    }

    /// The only evidence file of a run.
    pub(crate) fn evidence_file(&self, run_id: &str) -> PathBuf {
        let files = files_below(&self.of_run(run_id));
        let mut evidence = files.into_iter().filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.ends_with(".jsonl") && !name.ends_with(".otlp.jsonl")
        });
        let file = evidence.next().unwrap();
        assert_eq!(evidence.next(), None, "more than one cell");
        file
    }

    pub(crate) fn evidence(&self, run_id: &str) -> Evidence {
        evidence::read(&self.evidence_file(run_id)).unwrap()
    }
}

pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// How the command ended, and what it said.
pub(crate) struct Seen {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Seen {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            status: output.status,
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        assert!(!self.err.contains("panicked"), "{self}");
        self
    }

    /// Holds a run to a pass, or to the word that this machine was too busy to tell.
    #[track_caller]
    pub(crate) fn passes(&self) -> &Self {
        if self.out.contains("the run is invalid") {
            return self.exits(3);
        }
        self.exits(0).says("PASS")
    }

    /// Holds stdout to these words.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(
            self.out.contains(words),
            "`{words}` is not on stdout\n{self}"
        );
        self
    }

    /// Holds stderr to these words.
    #[track_caller]
    pub(crate) fn complains(&self, words: &str) -> &Self {
        assert!(
            self.err.contains(words),
            "`{words}` is not on stderr\n{self}"
        );
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, out, err } = self;
        write!(f, "{status}\nstdout:\n{out}\nstderr:\n{err}")
    }
}

/// A command under way; killed when the test gives up on it.
pub(crate) struct UnderWay {
    child: Child,
    out: Heard,
    err: Heard,
}

impl UnderWay {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            out: Heard::from(child.stdout.take().unwrap()),
            err: Heard::from(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Sends a signal, as `kill` does.
    pub(crate) fn signal(&self, name: &str) {
        // Every shell has it, not every machine has it as a program.
        let status = Command::new("/bin/sh")
            .args(["-c", &format!("kill {name} {}", self.child.id())])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for these words on stderr.
    #[track_caller]
    pub(crate) fn hears(&self, words: &str) {
        until(words, || self.err.so_far().contains(words));
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Seen {
        let mut status = None;
        until("its end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        Seen {
            status: status.unwrap(),
            out: self.out.until_its_end(),
            err: self.err.until_its_end(),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // It has ended already, unless the test is failing.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What comes out of a pipe.
struct Heard {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Heard {
    fn from(pipe: impl Read + Send + 'static) -> Self {
        let text: Arc<Mutex<String>> = Arc::default();
        let copy = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let line = line.unwrap() + "\n";
                copy.lock().unwrap().push_str(&line);
            }
        });
        Self {
            text,
            reader: Some(reader),
        }
    }

    fn so_far(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    fn until_its_end(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.so_far()
    }
}

/// Waits until something holds, looking again and again.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = now() + PATIENCE;
    while !holds() {
        assert!(now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How long some work takes.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = now();
    let result = work();
    (result, start.elapsed())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test that waits needs a clock to give up by"
)]
fn now() -> Instant {
    Instant::now()
}
