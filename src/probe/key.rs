//! Reads API keys from where the plan says they are. A key is never part of an error or of `Debug`.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use crate::plan::KeySource;

/// Longest key.
const MAX_KEY: u64 = 16 * 1024;

/// How long a command may take; it may have to ask its user.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Why there is no key. Names the source, never the value.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The environment variable is not set, or is empty.
    #[error("the environment variable {0} is not set")]
    Unset(String),
    /// The file cannot be read.
    #[error("the key file {path} cannot be read")]
    File {
        /// Path as the spec gives it.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The command cannot be run.
    #[error("the key command `{program}` cannot be run")]
    Command {
        /// The program; its arguments are not shown.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// The command said that it failed.
    #[error("the key command `{program}` failed ({status})")]
    CommandFailed {
        /// The program; its arguments are not shown.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// The command did not end in time.
    #[error("the key command `{0}` did not end within {limit} s", limit = COMMAND_LIMIT.as_secs())]
    CommandSlow(String),
    /// The source holds nothing but white space.
    #[error("{0} holds no key")]
    Empty(String),
    /// The source holds something that cannot be sent in a header.
    #[error("{0} holds a key with line breaks, control characters or non-ASCII characters")]
    Unusable(String),
    /// The source holds far more than a key.
    #[error("{0} holds more than {MAX_KEY} bytes, which is no key")]
    TooLong(String),
}

impl KeyError {
    /// Whether the key is just not there (the test is ignored) rather than broken.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Unset(_) => true,
            Self::File { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            Self::Command { .. }
            | Self::CommandFailed { .. }
            | Self::CommandSlow(_)
            | Self::Empty(_)
            | Self::Unusable(_)
            | Self::TooLong(_) => false,
        }
    }
}

/// Reads a key; white space around it is dropped.
///
/// Files and commands are looked for from `folder`, the spec's own.
pub fn read(
    source: &KeySource,
    folder: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<SecretString, KeyError> {
    match source {
        KeySource::Env(name) => {
            let value = env(name).map(Zeroizing::new);
            let value = value
                .filter(|value| !value.trim().is_empty())
                .ok_or_else(|| KeyError::Unset(name.clone()))?;
            usable(value.as_bytes(), || {
                format!("the environment variable {name}")
            })
        }
        KeySource::File(path) => {
            let bytes = std::fs::File::open(folder.join(path))
                .and_then(bounded)
                .map_err(|source| KeyError::File {
                    path: path.clone(),
                    source,
                })?;
            usable(&bytes, || format!("the key file {path}"))
        }
        KeySource::Command(words) => {
            let (program, arguments) = words
                .split_first()
                .ok_or_else(|| KeyError::Empty("the key command".to_owned()))?;
            let bytes = output(program, arguments, folder, COMMAND_LIMIT)?;
            usable(&bytes, || format!("the output of `{program}`"))
        }
    }
}

/// One byte more than a key may have, so that too much can be told from just enough.
fn bounded(from: impl Read) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(1024));
    from.take(MAX_KEY + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn usable(bytes: &[u8], source: impl Fn() -> String) -> Result<SecretString, KeyError> {
    if bytes.len() as u64 > MAX_KEY {
        return Err(KeyError::TooLong(source()));
    }
    let key = bytes.trim_ascii();
    if key.is_empty() {
        return Err(KeyError::Empty(source()));
    }
    match std::str::from_utf8(key) {
        Ok(text) if key.iter().all(|byte| (b' '..=b'~').contains(byte)) => {
            Ok(SecretString::from(text))
        }
        Ok(_) | Err(_) => Err(KeyError::Unusable(source())),
    }
}

/// The value of an environment variable for [`read`]. One that is not Unicode is no key, and is
/// refused as such instead of passing for one that is not set.
pub fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().into_owned())
}

/// Runs a command and takes its standard output; its messages go to the user.
fn output(
    program: &str,
    arguments: &[String],
    folder: &Path,
    limit: Duration,
) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let failed = |source| KeyError::Command {
        program: program.to_owned(),
        source,
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(failed)?;
    let (send, receive) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        // A thread of its own: a command that neither writes nor ends must not hold up ours.
        std::thread::spawn(move || send.send(bounded(stdout)));
    }
    let bytes = match receive.recv_timeout(limit) {
        Ok(read) => read.map_err(failed)?,
        Err(_) => {
            // It may have ended just now; the answer is the same.
            let _ = child.kill();
            let _ = child.wait();
            return Err(KeyError::CommandSlow(program.to_owned()));
        }
    };
    if bytes.len() as u64 > MAX_KEY {
        // It may have more to say than anyone will read.
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed)?;
    if status.success() || bytes.len() as u64 > MAX_KEY {
        Ok(bytes)
    } else {
        Err(KeyError::CommandFailed {
            program: program.to_owned(),
            status,
        })
    }
}

/// The value of a header that carries the key, marked as not to be shown.
pub(super) fn header(scheme: &str, key: &SecretString) -> Option<http::HeaderValue> {
    let text = Zeroizing::new(format!("{scheme}{}", key.expose_secret()));
    let mut value = http::HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-canary-1234";

    fn from_env(value: Option<&str>) -> Result<SecretString, KeyError> {
        let env = |name: &str| value.filter(|_| name == "ALPHA_KEY").map(str::to_owned);
        read(
            &KeySource::Env("ALPHA_KEY".to_owned()),
            Path::new("."),
            &env,
        )
    }

    fn from_command(words: &[&str]) -> Result<SecretString, KeyError> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        read(&KeySource::Command(words), Path::new(""), &|_| None)
    }

    #[test]
    fn white_space_around_a_key_is_dropped() {
        let key = from_env(Some(&format!("  {SECRET}\r\n"))).unwrap();
        assert_eq!(key.expose_secret(), SECRET);
    }

    #[test]
    fn a_missing_or_empty_variable_is_named() {
        for value in [None, Some(""), Some(" \n")] {
            let error = from_env(value).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the environment variable ALPHA_KEY is not set"
            );
            assert!(error.is_missing());
        }
    }

    #[test]
    fn a_key_with_control_characters_is_refused_without_showing_it() {
        for inside in ["\n", "\0", "\u{7f}", "é"] {
            let error = from_env(Some(&format!("{SECRET}{inside}{SECRET}"))).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(matches!(error, KeyError::Unusable(_)), "{shown}");
            assert!(
                shown.contains("ALPHA_KEY") && !shown.contains(SECRET),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_file_is_found_from_the_folder_of_the_spec() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), format!("{SECRET}\n")).unwrap();
        let source = KeySource::File("key".to_owned());
        let key = read(&source, folder.path(), &|_| None).unwrap();
        assert_eq!(key.expose_secret(), SECRET);
        let source = KeySource::File("none".to_owned());
        let error = read(&source, folder.path(), &|_| None).unwrap_err();
        assert!(error.is_missing());
        assert_eq!(error.to_string(), "the key file none cannot be read");
    }

    #[test]
    fn a_file_that_is_empty_or_far_too_long_is_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let source = KeySource::File("key".to_owned());
        std::fs::write(folder.path().join("key"), "\n").unwrap();
        let error = read(&source, folder.path(), &|_| None).unwrap_err();
        assert_eq!(error.to_string(), "the key file key holds no key");
        std::fs::write(folder.path().join("key"), vec![b'a'; 20_000]).unwrap();
        let error = read(&source, folder.path(), &|_| None).unwrap_err();
        assert!(matches!(error, KeyError::TooLong(_)));
    }

    #[cfg(unix)]
    #[test]
    fn a_command_gives_its_output_or_says_how_it_failed() {
        let key = from_command(&["sh", "-c", "echo sk-canary-1234"]).unwrap();
        assert_eq!(key.expose_secret(), SECRET);
        let failed = from_command(&["sh", "-c", "echo sk-canary-1234; exit 3"]).unwrap_err();
        assert!(
            failed
                .to_string()
                .starts_with("the key command `sh` failed")
        );
        assert!(!format!("{failed} {failed:?}").contains(SECRET));
        let unknown = from_command(&["/nonexistent/program"]).unwrap_err();
        assert!(matches!(unknown, KeyError::Command { .. }));
        assert!(matches!(from_command(&[]), Err(KeyError::Empty(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_command_that_never_ends_is_given_up() {
        let endless = ["60".to_owned()];
        let limit = Duration::from_millis(50);
        let slow = output("sleep", &endless, Path::new(""), limit);
        assert!(matches!(slow, Err(KeyError::CommandSlow(_))));
        let flood = from_command(&["sh", "-c", "while :; do echo aaaaaaaa; done"]);
        assert!(matches!(flood, Err(KeyError::TooLong(_))));
    }

    #[test]
    fn the_header_does_not_show_the_key() {
        let value = header("Bearer ", &SecretString::from(SECRET)).unwrap();
        assert_eq!(value.as_bytes(), b"Bearer sk-canary-1234");
        assert!(!format!("{value:?}").contains(SECRET));
    }
}
