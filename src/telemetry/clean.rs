//! What of a text from the environment may be shown: decoded, cut, without secrets.
//!
//! Pure. Rather drops an honest text than lets a key through.

use url::Url;

/// Beginnings of tokens that well-known services hand out.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "glcbt-",
    "glptt-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "hf_",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "gsk_",
    "xai-",
];

/// Words that say what follows them is a secret.
const SCHEMES: &[&str] = &["bearer ", "basic ", "-----begin"];

/// Parts of names whose values are secrets.
const NAMES: &[&str] = &[
    "token",
    "secret",
    "passw",
    "pwd",
    "apikey",
    "api_key",
    "api-key",
    "api.key",
    "_key",
    "-key",
    ".key",
    "auth",
    "cred",
    "cookie",
    "session",
    "private",
    "signature",
    "jwt",
];

/// Least length of a prefixed token.
const TOKEN: usize = 12;

/// Least length of a run that looks drawn by lot.
const RANDOM: usize = 24;

/// Undoes `%xx`; `None` when the result is no UTF-8. A `%` without two hex digits stays.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes
            .get(at + 1..at + 3)
            .filter(|digits| byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(hex.unwrap_or(byte));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).ok()
}

/// Whether a name says that its value is a secret.
pub(super) fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}

/// Whether a value looks like a secret, or has one in it.
///
/// A commit's hash, an identifier with words in it and a number do not.
pub(super) fn looks_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let marked = SCHEMES.iter().any(|scheme| lower.contains(scheme));
    let with_user = value
        .split_once("://")
        .is_some_and(|(_, rest)| rest.split(['/', '?', '#']).next().is_some_and(has_user));
    let in_word = |char: char| char.is_ascii_alphanumeric() || "-_.+~".contains(char);
    let word_is_key = value
        .split(|char| !in_word(char))
        .any(|word| word.len() >= TOKEN && PREFIXES.iter().any(|prefix| word.starts_with(prefix)));
    let drawn = value
        .split(|char: char| !char.is_ascii_alphanumeric())
        .any(|run| {
            run.len() >= RANDOM
                && run.bytes().any(|byte| byte.is_ascii_uppercase())
                && run.bytes().any(|byte| byte.is_ascii_lowercase())
                && run.bytes().any(|byte| byte.is_ascii_digit())
        });
    marked || with_user || word_is_key || drawn
}

fn has_user(authority: &str) -> bool {
    authority.contains('@')
}

/// A URL without user info, query and fragment; `None` for what is no URL of the web.
pub(super) fn web_url(text: &str) -> Option<String> {
    let mut url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    Some(String::from(url).trim_end_matches('/').to_owned())
}

/// A repository's address as the URL under which a browser finds it: without user info and
/// `.git`, and `https` for what git reaches over SSH.
pub(super) fn repository_url(text: &str) -> Option<String> {
    let url = if text.contains("://") {
        let url = Url::parse(text).ok()?;
        match url.scheme() {
            "http" | "https" => web_url(text)?,
            "ssh" | "git" | "git+ssh" => format!("https://{}{}", url.host_str()?, url.path()),
            _ => return None,
        }
    } else {
        // The short form, `user@host:path`.
        let (host, path) = text.split_once(':')?;
        let host = host.rsplit('@').next()?;
        web_url(&format!("https://{host}/{}", path.trim_start_matches('/')))?
    };
    Some(
        url.trim_end_matches('/')
            .trim_end_matches(".git")
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_looks() {
        for secret in [
            "sk-proj-abcdefghijkl",
            "Authorization=Bearer abc",
            "glpat-AbCdEfGhIjKlMnOp",
            "x:ghp_0123456789abcdef",
            "https://user:pw@host/x",
            "https://token@host",
            "eyJhbGciOiJIUzI1NiJ9.e30.sig",
            "q7Jd83hfKQpz01mVn45TtrB8",
            "-----BEGIN PRIVATE KEY-----",
        ] {
            assert!(looks_secret(secret), "{secret}");
        }
    }

    #[test]
    fn what_a_pipeline_says_of_itself_is_no_secret() {
        for honest in [
            "0123456789abcdef0123456789abcdef01234567",
            "refs/pull/17/merge",
            "feature/risk-assessment-of-sk-models",
            "https://ci.example/job/relay/17",
            "1658821493",
            "Nightly acceptance tests (eu-west-1)",
            "team-a",
        ] {
            assert!(!looks_secret(honest), "{honest}");
        }
    }

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "api_key",
            "X-Auth",
            "session.id",
            "GITHUB_TOKEN",
            "db.password",
        ] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["team", "cicd.pipeline.name", "build.id"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn urls_lose_user_info_query_and_fragment() {
        assert_eq!(
            web_url("https://user:glpat-1@ci.example:8443/a/b/?token=x#y").as_deref(),
            Some("https://ci.example:8443/a/b")
        );
        assert_eq!(web_url("file:///etc/passwd"), None);
        assert_eq!(web_url("not a url"), None);
    }

    #[test]
    fn repositories_are_where_a_browser_finds_them() {
        for (text, url) in [
            (
                "https://gitlab-ci-token:glcbt-64@git.example/team/app.git",
                "https://git.example/team/app",
            ),
            (
                "git@git.example:team/app.git",
                "https://git.example/team/app",
            ),
            (
                "ssh://git:secret@git.example:2222/team/app.git",
                "https://git.example/team/app",
            ),
            (
                "https://git.example/team/app/",
                "https://git.example/team/app",
            ),
        ] {
            assert_eq!(repository_url(text).as_deref(), Some(url), "{text}");
        }
        assert_eq!(repository_url("/srv/git/app.git"), None);
        assert_eq!(repository_url("file:///srv/git/app.git"), None);
    }

    #[test]
    fn percent_signs_are_undone_where_they_mean_something() {
        assert_eq!(percent_decoded("a%2Cb%20c").as_deref(), Some("a,b c"));
        assert_eq!(percent_decoded("100%").as_deref(), Some("100%"));
        assert_eq!(percent_decoded("%zz").as_deref(), Some("%zz"));
        assert_eq!(percent_decoded("%ff"), None);
    }
}
