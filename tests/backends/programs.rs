//! The real programs: started, asked, killed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for an outside program.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The folder of the programs, or a word on what is missing.
pub(crate) fn binaries(programs: &[&str]) -> Option<PathBuf> {
    let folder = std::env::var_os("RELAYPROOF_BACKENDS")
        .map_or_else(|| repository().join(".cache/bin"), PathBuf::from);
    let missing = programs
        .iter()
        .find(|program| !folder.join(program).is_file());
    let Some(missing) = missing else {
        return Some(folder);
    };
    // Not through `eprintln!`: the test runner would keep it to itself.
    writeln!(
        io::stderr(),
        "skipped: no {missing} in {}; tests/backends/build.sh builds it",
        folder.display()
    )
    .unwrap();
    None
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A loopback address that no other test has.
///
/// All of 127/8 is this machine, so tests and runs beside each other need no other ports.
pub(crate) fn host(test: u8) -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{test}", 64 + (pid >> 8) % 64, pid % 256)
}

/// The running programs, on a loopback address of their own; killed when dropped.
pub(crate) struct Backends {
    pub(crate) host: String,
    bin: PathBuf,
    folder: tempfile::TempDir,
    jaeger: Option<Running>,
    collector: Option<Running>,
    /// Further `--config` arguments.
    jaeger_configs: Vec<PathBuf>,
    collector_configs: Vec<PathBuf>,
    /// Where the Collector sends instead of to Jaeger.
    tempo: Option<String>,
}

pub(crate) struct Running(Child);

impl Drop for Running {
    /// Without a last word for anyone: SIGKILL.
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Backends {
    /// Both programs, with the configurations that are shipped.
    pub(crate) fn start(bin: &Path, test: u8) -> Self {
        let mut backends = Self::none(bin, test);
        backends.start_jaeger();
        backends.start_collector();
        backends
    }

    /// Neither yet.
    pub(crate) fn none(bin: &Path, test: u8) -> Self {
        Self {
            host: host(test),
            bin: bin.to_owned(),
            folder: tempfile::tempdir().unwrap(),
            jaeger: None,
            collector: None,
            jaeger_configs: Vec::new(),
            collector_configs: Vec::new(),
            tempo: None,
        }
    }

    /// Lays a configuration over Jaeger's.
    pub(crate) fn jaeger_overlay(&mut self, text: &str) {
        self.jaeger_configs
            .push(self.kept("jaeger-overlay.yaml", text));
    }

    /// Lays a configuration over the Collector's.
    pub(crate) fn collector_overlay(&mut self, text: &str) {
        self.collector_configs
            .push(self.kept("otelcol-overlay.yaml", text));
    }

    /// Lays the shipped overlay over the Collector's configuration: to Tempo instead of Jaeger.
    pub(crate) fn send_to_tempo(&mut self, address: &str) {
        self.collector_configs
            .push(repository().join("otel-collector.tempo.yaml"));
        self.tempo = Some(address.to_owned());
    }

    fn kept(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn start_jaeger(&mut self) {
        let mut command = Command::new(self.bin.join("jaeger"));
        command
            .current_dir(repository())
            .arg("--config")
            .arg("deploy/jaeger/jaeger.yaml")
            .env("JAEGER_HOST", &self.host);
        for overlay in &self.jaeger_configs {
            command.arg("--config").arg(overlay);
        }
        self.jaeger = Some(spawn(&mut command, &self.folder.path().join("jaeger.log")));
        self.wait_for("Jaeger", || get(&self.host, 13134, "/status").ok());
    }

    pub(crate) fn start_collector(&mut self) {
        let mut command = Command::new(self.bin.join("otelcol"));
        command
            .current_dir(repository())
            .args(["--config", "otel-collector.yaml"])
            .env("OTELCOL_HOST", &self.host)
            .env("OTELCOL_QUEUE_DIR", self.queue())
            .env("JAEGER_OTLP", format!("{}:14317", self.host));
        if let Some(tempo) = &self.tempo {
            command.env("TEMPO_OTLP", tempo);
        }
        for overlay in &self.collector_configs {
            command.arg("--config").arg(overlay);
        }
        self.collector = Some(spawn(&mut command, &self.folder.path().join("otelcol.log")));
        self.wait_for("the Collector", || get(&self.host, 13133, "/").ok());
    }

    pub(crate) fn kill_jaeger(&mut self) {
        self.jaeger = None;
    }

    pub(crate) fn kill_collector(&mut self) {
        self.collector = None;
    }

    /// Where clients send to.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}:4318", self.host)
    }

    /// Folder of the Collector's persistent queue.
    pub(crate) fn queue(&self) -> PathBuf {
        self.folder.path().join("queue")
    }

    /// What a program has printed.
    pub(crate) fn log(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Asks again until there is an answer.
    pub(crate) fn wait_for<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "no sign of {what}\n{}\n{}",
                self.log("jaeger.log"),
                self.log("otelcol.log")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What Jaeger has of a trace, as text and parsed; nothing while it has nothing.
    pub(crate) fn look(&self, id: &str) -> Option<(String, Vec<Value>)> {
        let text = get(&self.host, 16686, &format!("/api/traces/{id}")).ok()?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        let spans = answer["data"][0]["spans"].as_array()?.clone();
        Some((text, spans))
    }

    /// The spans of a trace, once Jaeger has as many as there must be.
    pub(crate) fn trace(&self, id: &str, spans: usize) -> (String, Vec<Value>) {
        self.wait_for(&format!("{spans} spans of trace {id}"), || {
            let (text, found) = self.look(id)?;
            assert!(found.len() <= spans, "{} spans of {spans}", found.len());
            (found.len() == spans).then_some((text, found))
        })
    }

    /// Traces of the samples that have these tags, at most so many.
    pub(crate) fn search(&self, tags: &str, limit: u32) -> Vec<Value> {
        let encoded: String = tags.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!(
            "/api/traces?service=relayproof&operation=relay.sample&limit={limit}&lookback=1h&tags={encoded}"
        );
        let answer: Value = serde_json::from_str(&get(&self.host, 16686, &path).unwrap()).unwrap();
        answer["data"].as_array().unwrap().clone()
    }
}

pub(crate) fn spawn(command: &mut Command, log: &Path) -> Running {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Running(child)
}

/// The body of a successful answer.
pub(crate) fn get(host: &str, port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(head.to_owned()))
    }
}

/// Trace and span ids of a span's references of one kind.
pub(crate) fn references<'a>(
    span: &'a Value,
    kind: &'a str,
) -> impl Iterator<Item = (String, String)> + 'a {
    span["references"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(move |reference| reference["refType"] == kind)
        .map(|reference| {
            let id = |name: &str| reference[name].as_str().unwrap().to_owned();
            (id("traceID"), id("spanID"))
        })
}

pub(crate) fn tag(span: &Value, key: &str) -> Option<String> {
    let value = span["tags"]
        .as_array()?
        .iter()
        .find(|tag| tag["key"] == key)?;
    Some(match &value["value"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}
