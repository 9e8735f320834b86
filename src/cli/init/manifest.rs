//! Two entries for `Cargo.toml`: the dev-dependency and the test target.
//!
//! Everything else of the file, comments and spacing included, stays as it is; where that cannot be
//! had, the file is left alone and the lines are for the user to add.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

/// Where Cargo finds relayproof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In a registry: this version.
    Version,
    /// In a folder, relative to the package.
    Path(String),
    /// In a git repository.
    Git(String),
}

/// What the manifest has to say.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'a> {
    /// Where Cargo finds relayproof.
    pub(super) source: Source,
    /// Whether the user has named that place, which then replaces another one.
    pub(super) named: bool,
    /// Name of the test target.
    pub(super) test: &'a str,
}

/// What becomes of the manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// It says all that already.
    Same,
    /// Its new text.
    Changed(String),
    /// It is written in a way that is better not touched.
    ByHand,
}

/// Why a manifest cannot be used at all.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// Not TOML, in the parser's words.
    Toml(String),
    /// No package in it, as at the root of some workspaces.
    NoPackage,
    /// A target of that name has a main of another kind.
    TestTaken,
}

/// How one entry fared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    There,
    Added,
    Unclear,
}

/// The name of the manifest's package.
pub(super) fn package_name(text: &str) -> Result<String, Unusable> {
    let document = parse(text)?;
    let name = document
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(Item::as_str);
    name.map(str::to_owned).ok_or(Unusable::NoPackage)
}

/// The manifest with what is wanted in it.
pub(super) fn edit(text: &str, wanted: &Wanted<'_>) -> Result<Edited, Unusable> {
    let mut document = parse(text)?;
    let entries = [
        dependency(&mut document, wanted),
        target(&mut document, wanted.test)?,
    ];
    if entries == [Entry::There, Entry::There] {
        return Ok(Edited::Same);
    }
    let edited = with_line_ends_of(text, document.to_string());
    if entries.contains(&Entry::Unclear) || !keeps_the_rest(text, &edited) {
        return Ok(Edited::ByHand);
    }
    Ok(Edited::Changed(edited))
}

/// The lines that a manifest needs.
pub(super) fn lines(wanted: &Wanted<'_>) -> String {
    format!(
        "[dev-dependencies]\nrelayproof = {}\n\n[[test]]\nname = \"{}\"\nharness = false\n",
        dependency_text(&wanted.source),
        wanted.test
    )
}

fn parse(text: &str) -> Result<DocumentMut, Unusable> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| Unusable::Toml(error.to_string()))
}

/// Only what the tests need: the command is of no use to them, and takes time to build.
fn dependency_text(source: &Source) -> String {
    let place = match source {
        Source::Version => {
            let version = concat!(
                env!("CARGO_PKG_VERSION_MAJOR"),
                ".",
                env!("CARGO_PKG_VERSION_MINOR")
            );
            format!("version = \"{version}\"")
        }
        Source::Path(path) => format!("path = {}", Value::from(path.as_str())),
        Source::Git(url) => format!("git = {}", Value::from(url.as_str())),
    };
    format!("{{ {place}, default-features = false, features = [\"harness\"] }}")
}

fn dependency(document: &mut DocumentMut, wanted: &Wanted<'_>) -> Entry {
    let Ok(value) = dependency_text(&wanted.source).parse::<Value>() else {
        return Entry::Unclear;
    };
    let elsewhere = document
        .get("dependencies")
        .is_some_and(|table| table.get("relayproof").is_some());
    if elsewhere {
        return if wanted.named {
            Entry::Unclear
        } else {
            Entry::There
        };
    }
    let section = document.entry("dev-dependencies").or_insert_with(|| {
        let mut table = Table::new();
        table.decor_mut().set_prefix("\n");
        Item::Table(table)
    });
    let Some(table) = section.as_table_like_mut() else {
        return Entry::Unclear;
    };
    let Some(known) = table.get_mut("relayproof") else {
        table.insert("relayproof", Item::Value(value));
        return Entry::Added;
    };
    // A table of its own may hold more than a place.
    let Some(known) = known.as_value_mut() else {
        return if wanted.named {
            Entry::Unclear
        } else {
            Entry::There
        };
    };
    if !wanted.named || bare(known) == bare(&value) {
        return Entry::There;
    }
    let decor = known.decor().clone();
    *known = value;
    *known.decor_mut() = decor;
    Entry::Added
}

/// A value without the spaces and comments around it.
fn bare(value: &Value) -> String {
    let mut value = value.clone();
    value.decor_mut().clear();
    value.to_string()
}

fn target(document: &mut DocumentMut, name: &str) -> Result<Entry, Unusable> {
    let targets = document
        .entry("test")
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    // `test = [{ name = … }]` may be spread over lines in ways that are hard to keep.
    let inline = targets.as_array().map(|targets| {
        let known = targets.iter().filter_map(Value::as_inline_table);
        known
            .map(|table| table as &dyn TableLike)
            .find(|table| is_named(*table, name))
            .map(harness_off)
    });
    if let Some(known) = inline {
        return match known {
            None => Ok(Entry::Unclear),
            Some(true) => Ok(Entry::There),
            Some(false) => Err(Unusable::TestTaken),
        };
    }
    let Some(targets) = targets.as_array_of_tables_mut() else {
        return Ok(Entry::Unclear);
    };
    if let Some(known) = targets.iter().find(|table| is_named(*table, name)) {
        return if harness_off(known) {
            Ok(Entry::There)
        } else {
            Err(Unusable::TestTaken)
        };
    }
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    table.insert("name", toml_edit::value(name));
    table.insert("harness", toml_edit::value(false));
    targets.push(table);
    Ok(Entry::Added)
}

fn is_named(target: &dyn TableLike, name: &str) -> bool {
    target.get("name").and_then(Item::as_str) == Some(name)
}

fn harness_off(target: &dyn TableLike) -> bool {
    target.get("harness").and_then(Item::as_bool) == Some(false)
}

/// Whether `edited` is still TOML and has every line of `text` in its order, but for the line of
/// the dependency.
fn keeps_the_rest(text: &str, edited: &str) -> bool {
    let ours = |line: &&str| !line.trim_start().starts_with("relayproof");
    let mut new = edited.lines();
    let kept = text
        .lines()
        .filter(ours)
        .all(|line| new.any(|candidate| candidate == line));
    kept && parse(edited).is_ok()
}

/// The editor writes `\n`; a file whose lines end in `\r\n` keeps that.
fn with_line_ends_of(text: &str, edited: String) -> String {
    if text.contains("\r\n") {
        edited.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        edited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(source: Source) -> Wanted<'static> {
        Wanted {
            named: source != Source::Version,
            source,
            test: "acceptance",
        }
    }

    fn changed(text: &str, source: Source) -> String {
        match edit(text, &wanted(source)).unwrap() {
            Edited::Changed(edited) => edited,
            other @ (Edited::Same | Edited::ByHand) => panic!("{other:?}"),
        }
    }

    const DEPENDENCY: &str =
        "relayproof = { path = \"../r\", default-features = false, features = [\"harness\"] }";

    fn path() -> Source {
        Source::Path("../r".to_owned())
    }

    #[test]
    fn a_manifest_as_cargo_makes_it_gets_both_entries() {
        let text = "[package]\nname = \"chat\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n";
        assert_eq!(
            changed(text, path()),
            format!(
                "{text}\n[dev-dependencies]\n{DEPENDENCY}\n\n[[test]]\nname = \"acceptance\"\n\
                 harness = false\n"
            )
        );
    }

    #[test]
    fn comments_spacing_and_other_tests_stay_where_they_are() {
        let text = "# top\n[package]\nname   = 'chat'   # odd\n\n[[test]]   # first\nname=\"other\"\n\n\
                    [dev-dependencies] # dev\nrand = { version =\"0.9\" } # why\n# end of it\n\n\
                    [profile.release]\nlto=true\n# last\n";
        let edited = changed(text, path());
        let mut new = edited.lines();
        for line in text.lines() {
            assert!(new.any(|other| other == line), "`{line}` in\n{edited}");
        }
        assert!(
            edited.contains(&format!("# why\n{DEPENDENCY}\n")),
            "{edited}"
        );
        let target = "\n[[test]]\nname = \"acceptance\"\nharness = false\n";
        assert!(edited.contains(target), "{edited}");
    }

    #[test]
    fn dependencies_in_tables_of_their_own_are_no_obstacle() {
        let text = "[package]\nname = \"chat\"\n\n[dev-dependencies.rand]\nversion = \"0.9\"\n";
        let edited = changed(text, path());
        assert!(
            edited.contains(&format!("[dev-dependencies]\n{DEPENDENCY}\n")),
            "{edited}"
        );
        assert!(
            edited.contains("[dev-dependencies.rand]\nversion = \"0.9\"\n"),
            "{edited}"
        );
    }

    #[test]
    fn what_is_there_already_stays_and_another_place_is_taken_only_from_the_user() {
        let text = "[package]\nname = \"chat\"\n[dev-dependencies]\nrelayproof = \"0.1\" # ours\n\
                    [[test]]\nname = \"acceptance\"\nharness = false\n";
        assert_eq!(edit(text, &wanted(Source::Version)), Ok(Edited::Same));
        let moved = changed(text, path());
        assert_eq!(moved, text.replace("relayproof = \"0.1\"", DEPENDENCY));
        assert_eq!(edit(&moved, &wanted(path())), Ok(Edited::Same));
        let normal = "[package]\nname = \"chat\"\n[dependencies]\nrelayproof = \"0.1\"\n";
        let edited = changed(normal, Source::Version);
        assert!(!edited.contains("dev-dependencies"), "{edited}");
        assert_eq!(edit(normal, &wanted(path())), Ok(Edited::ByHand));
    }

    #[test]
    fn a_last_line_without_an_end_is_no_obstacle() {
        let edited = changed("[package]\nname = \"chat\"", path());
        assert!(
            edited.starts_with("[package]\nname = \"chat\"\n"),
            "{edited}"
        );
    }

    #[test]
    fn line_ends_of_windows_stay() {
        let edited = changed("[package]\r\nname = \"chat\"\r\n", path());
        assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count());
        assert!(edited.ends_with("harness = false\r\n"));
    }

    #[test]
    fn targets_written_as_a_list_are_left_to_the_user() {
        let text = "test = [{ name = \"other\" }]\n[package]\nname = \"chat\"\n";
        assert_eq!(edit(text, &wanted(path())), Ok(Edited::ByHand));
        assert!(lines(&wanted(path())).contains(DEPENDENCY));
    }

    #[test]
    fn a_target_of_that_name_with_libtests_main_is_not_taken_over() {
        for text in [
            "[package]\nname = \"chat\"\n[[test]]\nname = \"acceptance\"\n",
            "test = [{ name = \"acceptance\" }]\n[package]\nname = \"chat\"\n",
        ] {
            assert_eq!(edit(text, &wanted(path())), Err(Unusable::TestTaken));
        }
    }

    #[test]
    fn a_workspace_without_a_package_and_a_file_that_is_no_toml_are_refused() {
        let workspace = "[workspace]\nmembers = [\"a\"]\n";
        assert_eq!(package_name(workspace), Err(Unusable::NoPackage));
        assert!(matches!(package_name("[package\n"), Err(Unusable::Toml(_))));
        assert_eq!(
            package_name("[package]\nname = \"a\"\n"),
            Ok("a".to_owned())
        );
    }

    #[test]
    fn a_path_is_quoted_as_toml_wants_it() {
        let text = changed(
            "[package]\nname = \"c\"\n",
            Source::Path("a \"b\"".to_owned()),
        );
        let document: DocumentMut = text.parse().unwrap();
        let path = document["dev-dependencies"]["relayproof"]["path"].as_str();
        assert_eq!(path, Some("a \"b\""));
    }
}
