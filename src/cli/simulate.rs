//! `relayproof simulate`: the embedded relay as a process of its own, for other clients and for
//! comparing what they measure with the true times of its writes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tokio::runtime;
use tokio::time::sleep;

use super::{Exit, complain};
use crate::sim::{Case, Fault, Overload, Params, Planned, Relay, Served, Settings};
use crate::spec;

/// Answers that may wait for the write log before the relay is held up.
const LOG_BACKLOG: usize = 10_000;

/// Options of `simulate`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Port on 127.0.0.1; a free one when absent
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Speak TLS with a certificate made at start; the second line names the file of its authority
    #[arg(long)]
    tls: bool,
    /// Where the authority's certificate is written; a temporary file when absent
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca_out: Option<PathBuf>,
    /// From the request to the first token
    #[arg(long, value_name = "D", default_value = "120ms", value_parser = duration)]
    first_token: Duration,
    /// From one token to the next
    #[arg(long, value_name = "D", default_value = "15ms", value_parser = duration)]
    token_gap: Duration,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 64)]
    tokens: u32,
    /// A fault and the share of requests that it hits, like `truncate=2%,after_tokens=5`
    #[arg(long = "fault", value_name = "NAME=SHARE[,PARAM=VALUE…]", value_parser = planned)]
    faults: Vec<Planned>,
    /// Most answers at a time; a call beyond waits for its turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    capacity: Option<u32>,
    /// Answer a call beyond the capacity 429 instead
    #[arg(long, requires = "capacity")]
    reject: bool,
    /// Case files, or folders of them: each is played, byte for byte, at a base URL of its own, that
    /// is printed as `ID URL`
    #[arg(long = "case", value_name = "PATH", num_args = 1..)]
    cases: Vec<PathBuf>,
    /// Decides, with the request, which one is hit
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Append one JSON line an answer, with the true time of every write
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
    /// Stop after this time; on Ctrl-C when absent
    #[arg(long = "for", value_name = "D", value_parser = duration)]
    time: Option<Duration>,
}

/// Serves until interrupted. The first line of `out` is the base URL; with TLS the second names the
/// authority's file; each case then has a line.
///
/// # Errors
/// When `out` cannot be written; all else is told on stderr and by the exit code.
pub fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    match serve(args, out) {
        Ok(()) => Ok(Exit::Pass),
        Err(Failure::Output(error)) => Err(error),
        Err(Failure::Usage(why)) => {
            complain(&format!("error: {why}"));
            Ok(Exit::Usage)
        }
        Err(Failure::Ours(why)) => {
            complain(&format!("error: {why}"));
            Ok(Exit::NotMeasured)
        }
    }
}

/// Why nothing is served.
enum Failure {
    /// The results cannot be written.
    Output(io::Error),
    /// The options contradict themselves.
    Usage(String),
    /// The system refuses something.
    Ours(String),
}

fn ours(what: &str, error: &io::Error) -> Failure {
    Failure::Ours(format!("cannot {what}: {error}"))
}

fn serve(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let (copy, log) = match &args.write_log {
        None => (None, None),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.map_err(|error| ours(&format!("open {}", path.display()), &error))?;
            let (copy, answers) = sync_channel(LOG_BACKLOG);
            let writer = thread::Builder::new().name("write-log".into());
            let writer = writer
                .spawn(move || write_log(file, &answers))
                .map_err(|error| ours("start a thread", &error))?;
            (Some(copy), Some(writer))
        }
    };
    let cases = args.cases.iter().map(|path| Case::load(path));
    let cases = cases.collect::<Result<Vec<_>, _>>();
    let cases = cases.map_err(|error| Failure::Usage(error.to_string()))?;
    let settings = Settings {
        first_token: args.first_token,
        token_gap: args.token_gap,
        tokens: args.tokens,
        tls: args.tls,
        faults: args.faults.clone(),
        cases: cases.concat(),
        capacity: args.capacity,
        overload: if args.reject {
            Overload::Reject
        } else {
            Overload::Queue
        },
        seed: args.seed,
        bind: SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)),
        copy,
        ..Settings::default()
    };
    runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| ours("start the runtime", &error))?
        .block_on(until_stopped(settings, args, out))?;
    match log.map(thread::JoinHandle::join) {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(error))) => Err(ours("write the log", &error)),
        Some(Err(_)) => Err(Failure::Ours("the write log's thread panicked".to_owned())),
    }
}

async fn until_stopped(
    settings: Settings,
    args: &Args,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let relay = Relay::start(settings).await.map_err(|error| {
        if error.kind() == io::ErrorKind::InvalidInput {
            Failure::Usage(error.to_string())
        } else if error.kind() == io::ErrorKind::AddrInUse {
            Failure::Usage(format!(
                "port {} is in use; `--port 0` takes a free one",
                args.port
            ))
        } else {
            ours("start the relay", &error)
        }
    })?;
    let authority = relay
        .ca_pem()
        .map(|pem| Authority::write(pem, args.ca_out.as_deref()))
        .transpose()?;
    writeln!(out, "{}", relay.base_url()).map_err(Failure::Output)?;
    if let Some(authority) = &authority {
        writeln!(out, "{}", authority.path.display()).map_err(Failure::Output)?;
    }
    for case in relay.cases() {
        writeln!(out, "{} {}", case.id, case.base_url).map_err(Failure::Output)?;
    }
    out.flush().map_err(Failure::Output)?;
    let interrupted = match args.time {
        Some(time) => tokio::select! {
            done = interruption() => done,
            () = sleep(time) => Ok(()),
        },
        None => interruption().await,
    };
    relay.stop().await;
    interrupted.map_err(|error| ours("wait for a signal", &error))
}

#[cfg(unix)]
async fn interruption() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = tokio::signal::ctrl_c() => done,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn interruption() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// The file of the authority's certificate; a temporary one goes when this does.
struct Authority {
    path: PathBuf,
    temporary: bool,
}

impl Authority {
    fn write(pem: &str, chosen: Option<&Path>) -> Result<Self, Failure> {
        let (path, mut options) = match chosen {
            Some(path) => (path.to_owned(), File::options()),
            None => {
                let name = format!("relayproof-ca-{}.pem", std::process::id());
                (std::env::temp_dir().join(name), File::options())
            }
        };
        // A temporary file's name can be guessed: one that is there already is not ours to fill.
        match chosen {
            Some(_) => options.create(true).truncate(true),
            None => options.create_new(true),
        };
        options
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(pem.as_bytes()))
            .map_err(|error| ours(&format!("write {}", path.display()), &error))?;
        Ok(Self {
            path,
            temporary: chosen.is_none(),
        })
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        if self.temporary {
            // A file left behind holds nothing secret.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writes answers as they end, and flushes whenever none is waiting.
fn write_log(file: File, answers: &Receiver<Served>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    while let Ok(first) = answers.recv() {
        line(&mut file, &first)?;
        while let Ok(next) = answers.try_recv() {
            line(&mut file, &next)?;
        }
        file.flush()?;
    }
    Ok(())
}

fn line(file: &mut impl Write, served: &Served) -> io::Result<()> {
    let unix_ns = |at_ns: u64| served.arrival_unix_ns.saturating_add(at_ns);
    let times = served.writes.iter().map(|write| unix_ns(write.at_ns));
    let bytes = served.writes.iter().map(|write| write.bytes);
    let first_token = served
        .first_token
        .and_then(|index| served.writes.get(index))
        .map(|write| unix_ns(write.at_ns));
    let record = json!({
        "schema": 1,
        "id": served.id,
        "body_sha256": served.body_sha256,
        "status": served.status,
        "stream": served.stream,
        "fault": served.fault.as_ref().map(Fault::name),
        "complete": served.complete,
        "arrival_unix_ns": served.arrival_unix_ns,
        "first_token_unix_ns": first_token,
        "writes_unix_ns": times.collect::<Vec<_>>(),
        "writes_bytes": bytes.collect::<Vec<_>>(),
    });
    writeln!(file, "{record}")
}

/// A duration as in specs, or a bare zero.
fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    spec::duration(text)
}

/// `2%`, `0.25%`: parts per million.
fn share_ppm(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no share: write a percentage, like `2%`");
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part:0<4}");
    if whole.is_empty() || part.len() > 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    digits.parse().map_err(|_| wrong())
}

/// `NAME=SHARE[,PARAM=VALUE…]`.
fn planned(text: &str) -> Result<Planned, String> {
    let mut fields = text.split(',').map(|field| {
        field
            .split_once('=')
            .ok_or_else(|| format!("`{field}` has no `=`"))
    });
    let (name, share) = fields.next().ok_or("nothing given")??;
    let mut params = Params::default();
    for field in fields {
        let (param, value) = field?;
        let number = || {
            value
                .parse()
                .map_err(|_| format!("`{param}` needs a whole number, not `{value}`"))
        };
        match param {
            "delay" => params.delay = Some(duration(value)?),
            "code" => {
                let code = value.parse();
                params.code = Some(code.map_err(|_| format!("`{value}` is no status code"))?);
            }
            "recover_after" => params.recover_after = Some(number()?),
            "after_tokens" => params.after_tokens = Some(number()?),
            "retry_after_s" => params.retry_after_s = Some(number()?),
            _ => return Err(format!("unknown parameter `{param}`")),
        }
    }
    Ok(Planned {
        fault: Fault::from_parts(name, &params)?,
        share_ppm: share_ppm(share)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_its_name_share_and_parameters() {
        let planned = planned("status=2.5%,code=429,recover_after=2,retry_after_s=1").unwrap();
        assert_eq!(planned.share_ppm, 25_000);
        assert_eq!(
            planned.fault,
            Fault::Status {
                code: 429,
                recover_after: Some(2),
                retry_after_s: Some(1),
            }
        );
    }

    #[test]
    fn what_cannot_be_read_as_a_fault_is_refused() {
        for text in [
            "",
            "truncate",
            "truncate=2",
            "truncate=.5%",
            "truncate=0.00001%",
            "truncate=2%,",
            "truncate=2%,after=1",
            "truncate=2%,after_tokens=x",
            "truncate=2%,delay=1s",
            "slow_first_token=2%,delay=1",
            "nothing=2%",
        ] {
            assert!(planned(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_duration_is_written_as_in_specs_or_a_bare_zero() {
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("1").is_err());
    }

    #[test]
    fn specs_know_the_same_faults_and_parameters_as_the_relay() {
        let params = [
            ("", Params::default()),
            (
                ", delay: 1s",
                Params {
                    delay: Some(Duration::from_secs(1)),
                    ..Params::default()
                },
            ),
            (
                ", code: 429",
                Params {
                    code: Some(429),
                    ..Params::default()
                },
            ),
            (
                ", recover_after: 2",
                Params {
                    recover_after: Some(2),
                    ..Params::default()
                },
            ),
            (
                ", after_tokens: 3",
                Params {
                    after_tokens: Some(3),
                    ..Params::default()
                },
            ),
            (
                ", retry_after_s: 1",
                Params {
                    retry_after_s: Some(1),
                    ..Params::default()
                },
            ),
        ];
        for name in Fault::NAMES.iter().chain(&["no_such_fault"]) {
            for (written, params) in params {
                let text = format!(
                    "relayproof: 1\nname: x\nrelays:\n  - name: r\n    models: [m]\n    \
                     simulate: {{ faults: [{{ {name}: 1%{written} }}] }}\n\
                     slos: [usable >= 95%]\n"
                );
                let spec = spec::parse("x.yaml", &text, &|_| None);
                let fault = Fault::from_parts(name, &params);
                assert_eq!(spec.is_ok(), fault.is_ok(), "{text}");
            }
        }
    }
}
