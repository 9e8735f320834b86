//! Where a package stands: its workspace, its repository, and paths from one to the other.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

/// The folders that matter to a package; all absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The package's folder.
    pub(super) package: PathBuf,
    /// The root of its workspace: where cargo-nextest looks for its configuration.
    pub(super) workspace: PathBuf,
    /// The root of its repository: where CI looks for its own.
    pub(super) repository: PathBuf,
}

impl Place {
    /// The place of a package that is there.
    pub(super) fn of(package: &Path) -> Self {
        let workspace = workspace_root(package).unwrap_or_else(|| package.to_owned());
        let repository = workspace
            .ancestors()
            .find(|folder| folder.join(".git").exists())
            .unwrap_or(&workspace)
            .to_owned();
        Self {
            package: package.to_owned(),
            workspace,
            repository,
        }
    }

    /// Whether Cargo has to be told which package of the workspace is meant.
    pub(super) fn is_member(&self) -> bool {
        self.package != self.workspace
    }

    /// The workspace as seen from the repository's root, with `/`; empty where they are one.
    pub(super) fn workspace_in_repository(&self) -> String {
        with_slashes(&relative(&self.repository, &self.workspace))
    }
}

/// Cargo's own answer; nothing where it has none, as with a manifest that it refuses.
fn workspace_root(package: &Path) -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["locate-project", "--workspace", "--message-format", "plain"])
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let manifest = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let root = manifest.parent()?.canonicalize().ok()?;
    package.starts_with(&root).then_some(root)
}

/// The way from the folder `from` to `to`, both absolute.
pub(super) fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// A path as manifests and workflows have it on every system.
pub(super) fn with_slashes(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    // The root is a part of its own, and a slash.
    parts.join("/").replacen("//", "/", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_goes_up_as_far_as_it_must() {
        let way = |from: &str, to: &str| with_slashes(&relative(Path::new(from), Path::new(to)));
        assert_eq!(way("/a/b", "/a/b"), "");
        assert_eq!(way("/a", "/a/b/c"), "b/c");
        assert_eq!(way("/a/b/c", "/a/d"), "../../d");
        assert_eq!(with_slashes(Path::new("/a/b")), "/a/b");
    }

    #[test]
    fn the_repository_is_the_nearest_folder_with_git_above_the_workspace() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let package = root.join("rust/app");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        // No manifest: Cargo has no answer, and the package is its own workspace.
        let place = Place::of(&package);
        assert_eq!(place.repository, root);
        assert_eq!(place.workspace_in_repository(), "rust/app");
        assert!(!place.is_member());
    }
}
