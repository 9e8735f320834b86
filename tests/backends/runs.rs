//! The real command: started on a spec, awaited, read.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use relayproof::evidence::{self, Evidence};

use crate::programs::{PATIENCE, repository};

/// Held by whoever measures: runs beside each other would take the processor from one another.
static MACHINE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run that is going on.
pub(crate) struct Run {
    child: Child,
    pub(crate) folder: PathBuf,
}

/// A run that is over.
pub(crate) struct Over {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) folder: PathBuf,
    /// From the last cell's end to the end of the process.
    pub(crate) farewell: Duration,
}

/// The account of a run, as printed.
#[derive(Debug, PartialEq)]
pub(crate) struct Account {
    pub(crate) written: u64,
    pub(crate) made: u64,
    pub(crate) exported: u64,
}

impl Run {
    /// Starts the command in a run folder below `dir`, with nothing in its environment that is
    /// about telemetry or relayproof but what is given.
    pub(crate) fn start(specs: &[PathBuf], dir: &Path, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relayproof"));
        command
            .current_dir(repository())
            .arg("run")
            .args(specs)
            .arg("--dir")
            .arg(dir)
            .args(["--run-id", "the-run"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars() {
            let ours = ["OTEL_", "RELAYPROOF_", "TRACE", "BAGGAGE", "CI"];
            if ours.iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        let child = command.envs(env.iter().copied()).spawn().unwrap();
        Self {
            child,
            folder: dir.join("the-run"),
        }
    }

    /// Samples in the evidence so far.
    pub(crate) fn samples(&self) -> usize {
        let lines = |path: PathBuf| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.matches("{\"sample\":").count()
        };
        evidence_files(&self.folder).into_iter().map(lines).sum()
    }

    /// Waits until the evidence holds so many samples.
    pub(crate) fn reach(&mut self, samples: usize) {
        let start = Instant::now();
        while self.samples() < samples {
            assert!(start.elapsed() < PATIENCE, "{} samples", self.samples());
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "the run is over with {} samples",
                self.samples()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn finish(mut self) -> Over {
        let (mut out, mut err) = (String::new(), String::new());
        // Neither is longer than a pipe holds.
        let mut pipe = self.child.stdout.take().unwrap();
        pipe.read_to_string(&mut out).unwrap();
        let mut pipe = self.child.stderr.take().unwrap();
        pipe.read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        let now = UNIX_EPOCH.elapsed().unwrap();
        let closed = read(&self.folder)
            .iter()
            .filter_map(|cell| cell.close.as_ref())
            .map(|close| Duration::from_nanos(close.at_unix_ns))
            .max()
            .unwrap_or(now);
        Over {
            code: status.code(),
            out,
            err,
            folder: self.folder.clone(),
            farewell: now.saturating_sub(closed),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Over {
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        read(&self.folder)
    }

    /// What the last line says: `evidence 9/9 spans, 8/9 exported to …`.
    pub(crate) fn account(&self) -> Account {
        let at = self.out.rfind("evidence ").unwrap();
        let line = self.out[at..].lines().next().unwrap();
        let numbers: Vec<u64> = line
            .split([' ', '/', ','])
            .map_while(|word| match word.parse::<u64>() {
                Ok(number) => Some(Some(number)),
                Err(_) if word.starts_with("http") => None,
                Err(_) => Some(None),
            })
            .flatten()
            .collect();
        match numbers[..] {
            [written, made] => Account {
                written,
                made,
                exported: 0,
            },
            [written, made, exported, again] => {
                assert_eq!(made, again, "{line}");
                Account {
                    written,
                    made,
                    exported,
                }
            }
            _ => panic!("{line}"),
        }
    }

    /// Cells and objectives with their verdicts, as printed.
    pub(crate) fn verdicts(&self) -> Vec<String> {
        let verdict = |line: &&str| {
            let word = line.trim_start();
            line.starts_with("  ")
                && ["PASS", "VIOLATED", "INCONCLUSIVE"]
                    .iter()
                    .any(|verdict| word.to_uppercase().starts_with(verdict))
        };
        let short = |line: &str| {
            let parts = line.split("  ").filter(|part| !part.is_empty());
            parts.take(2).map(str::trim).collect::<Vec<_>>().join(": ")
        };
        self.out.lines().filter(verdict).map(short).collect()
    }

    /// What was said on the terminal that is a warning.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        let warning = |line: &&str| line.starts_with("warning: ");
        self.err.lines().filter(warning).collect()
    }

    /// Spans in the run's own file.
    pub(crate) fn kept(&self) -> usize {
        let text = std::fs::read_to_string(self.folder.join("spans.otlp.jsonl")).unwrap();
        text.matches("\"startTimeUnixNano\":").count()
    }
}

fn evidence_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"))
        .filter(|path| {
            !path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .contains(".otlp.")
        })
        .collect();
    files.sort();
    files
}

fn read(folder: &Path) -> Vec<Evidence> {
    let files = evidence_files(folder);
    files
        .iter()
        .map(|path| evidence::read(path).unwrap())
        .collect()
}
