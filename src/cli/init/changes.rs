//! What is to become of each file, decided before the first one is written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What becomes of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is not there yet.
    Made,
    /// Lines are added to it.
    Changed,
    /// It is there with another text, which the user gave up.
    Replaced,
    /// It stays as it is.
    Kept,
}

/// One file and what becomes of it.
#[derive(Debug)]
pub(super) struct Change {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What becomes of it.
    pub(super) fate: Fate,
    /// A word on it, or nothing.
    pub(super) note: String,
    /// Its text afterwards; of no meaning where it stays.
    text: String,
}

/// A file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}")]
pub(super) struct FileError {
    what: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Change {
    /// A file of ours: made where there is none, kept where there is one, or replaced if `force`.
    pub(super) fn file(
        path: PathBuf,
        text: String,
        note: &str,
        force: bool,
    ) -> Result<Self, FileError> {
        let fate = match read(&path)? {
            None => Fate::Made,
            Some(there) if force && there != text => Fate::Replaced,
            Some(_) => Fate::Kept,
        };
        Ok(Self {
            path,
            fate,
            note: note.to_owned(),
            text,
        })
    }

    /// A file that gets a new text.
    pub(super) fn changed(path: PathBuf, text: String, note: &str) -> Self {
        Self {
            path,
            fate: Fate::Changed,
            note: note.to_owned(),
            text,
        }
    }

    /// Whether this is the file at `path`, with a new text.
    pub(super) fn writes(&self, path: &Path) -> bool {
        self.fate != Fate::Kept && self.path == path
    }

    /// A file that stays.
    pub(super) fn kept(path: PathBuf, note: &str) -> Self {
        Self {
            path,
            fate: Fate::Kept,
            note: note.to_owned(),
            text: String::new(),
        }
    }
}

/// The text of a file, if there is one.
pub(super) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read(path) {
        // A text that is not UTF-8 is nobody's of ours; it compares unequal to everything.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError {
            what: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Writes all changes, or puts everything back as it was.
pub(super) fn write(changes: &[Change]) -> Result<(), FileError> {
    let mut undo = Vec::new();
    for change in changes {
        let write = match change.fate {
            Fate::Made | Fate::Changed | Fate::Replaced => one(change, &mut undo),
            Fate::Kept => Ok(()),
        };
        if let Err(source) = write {
            // What cannot be put back is named by the error that comes next.
            undo.into_iter().rev().for_each(Undo::undo);
            return Err(FileError {
                what: "write",
                path: change.path.clone(),
                source,
            });
        }
    }
    Ok(())
}

enum Undo {
    Folder(PathBuf),
    File(PathBuf),
    Text(PathBuf, Vec<u8>),
}

impl Undo {
    fn undo(self) {
        match self {
            Self::Folder(path) => fs::remove_dir(path).ok(),
            Self::File(path) => fs::remove_file(path).ok(),
            Self::Text(path, bytes) => fs::write(path, bytes).ok(),
        };
    }
}

fn one(change: &Change, undo: &mut Vec<Undo>) -> io::Result<()> {
    let parents: Vec<&Path> = change.path.ancestors().skip(1).collect();
    for folder in parents.into_iter().rev() {
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            fs::create_dir(folder)?;
            undo.push(Undo::Folder(folder.to_owned()));
        }
    }
    if change.path.exists() {
        undo.push(Undo::Text(change.path.clone(), fs::read(&change.path)?));
    } else {
        undo.push(Undo::File(change.path.clone()));
    }
    fs::write(&change.path, &change.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: PathBuf, text: &str, force: bool) -> Change {
        Change::file(path, text.to_owned(), "", force).unwrap()
    }

    #[test]
    fn what_is_there_is_replaced_only_when_that_is_said() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        assert_eq!(file(path.clone(), "new", false).fate, Fate::Made);
        fs::write(&path, "old").unwrap();
        assert_eq!(file(path.clone(), "new", false).fate, Fate::Kept);
        assert_eq!(file(path.clone(), "new", true).fate, Fate::Replaced);
        assert_eq!(file(path, "old", true).fate, Fate::Kept);
    }

    #[test]
    fn a_write_that_fails_leaves_everything_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("there"), "old").unwrap();
        fs::write(at("file"), "").unwrap();
        let changes = [
            file(at("new/deep/one"), "1", false),
            file(at("there"), "new", true),
            Change::changed(at("file/below"), "2".to_owned(), ""),
        ];
        let error = write(&changes).unwrap_err();
        assert!(error.to_string().contains("file/below"), "{error}");
        assert!(!at("new").exists());
        assert_eq!(fs::read_to_string(at("there")).unwrap(), "old");
        write(&changes[..2]).unwrap();
        assert_eq!(fs::read_to_string(at("new/deep/one")).unwrap(), "1");
        assert_eq!(fs::read_to_string(at("there")).unwrap(), "new");
    }
}
