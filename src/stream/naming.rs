//! Whether a model label names the model that was asked for. Labels only; nothing of answers.
//!
//! A vendor prefix (`openai/`, `us.anthropic.`), a date or build suffix, `-latest` and a `:variant`
//! that only one side has are no difference; two different dates are. An alias of a whole line of
//! models (`gemini-flash-latest`) is any of its versions, `-4-0` is the first of version 4, and
//! `3.5` is written `3-5` as well.

/// Whether a relay that was asked for `asked` may call its answer `answered`.
pub(super) fn is_same_model(asked: &str, answered: &str) -> bool {
    let asked = asked.trim().to_lowercase();
    let answered = answered.trim().to_lowercase();
    if asked == answered {
        return true;
    }
    let (asked, asked_variant) = variant(bare(&asked));
    let (answered, answered_variant) = variant(bare(&answered));
    if let (Some(left), Some(right)) = (asked_variant, answered_variant)
        && left != right
    {
        return false;
    }
    let (asked, asked_date) = dated(asked);
    let (answered, answered_date) = dated(answered);
    let dates = match (asked_date, answered_date) {
        (Some(left), Some(right)) => left == right || [left, right].contains(&"latest"),
        _ => true,
    };
    (is_same_name(asked, answered) && dates)
        || (asked_date == Some("latest") && is_line(asked, answered))
}

/// Whether two names without dates differ in nothing but how a version is written.
fn is_same_name(asked: &str, answered: &str) -> bool {
    let (asked, answered) = (asked.replace('.', "-"), answered.replace('.', "-"));
    asked == answered || asked.strip_suffix("-0") == Some(&answered)
}

/// Whether `line` names no version, and `answered` is that line with a version put in.
fn is_line(line: &str, answered: &str) -> bool {
    let is_version = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_digit()) || matches!(*word, "preview" | "exp")
    };
    let words = answered.split('-').filter(|word| !is_version(word));
    !line.split('-').any(|word| is_version(&word)) && line.split('-').eq(words)
}

/// The label without path-like and dotted vendor prefixes.
fn bare(label: &str) -> &str {
    const VENDORS: [&str; 16] = [
        "us",
        "eu",
        "apac",
        "global",
        "anthropic",
        "amazon",
        "meta",
        "mistral",
        "cohere",
        "ai21",
        "deepseek",
        "openai",
        "google",
        "qwen",
        "xai",
        "azure",
    ];
    let mut label = label.rsplit('/').next().unwrap_or(label);
    while let Some((head, tail)) = label.split_once('.')
        && VENDORS.contains(&head)
    {
        label = tail;
    }
    label
}

/// Splits `:free`, `:8b` and the like off.
fn variant(label: &str) -> (&str, Option<&str>) {
    match label.split_once(':') {
        Some((label, variant)) => (label, Some(variant)),
        None => (label, None),
    }
}

/// Splits a date, a build number or `latest` off: `-2024-08-06`, `-20240806`, `-0613`, `-001`,
/// `@20240806`, `-v1`.
fn dated(label: &str) -> (&str, Option<&str>) {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(start) = label.len().checked_sub(11)
        && let Some((name, date)) = label.split_at_checked(start)
        && let Some(date) = date.strip_prefix(['-', '@'])
        && date.as_bytes()[4] == b'-'
        && date.as_bytes()[7] == b'-'
        && date.split('-').all(digits)
    {
        return (name, Some(date));
    }
    let Some((name, suffix)) = label.rsplit_once(['-', '@']) else {
        return (label, None);
    };
    let build = digits(suffix) && matches!(suffix.len(), 3 | 4 | 6 | 8);
    let version = suffix.strip_prefix('v').is_some_and(digits);
    if suffix == "latest" || build {
        // A cloud's `-v2` in front of the date.
        let bare = name
            .rsplit_once("-v")
            .filter(|(_, version)| digits(version));
        (bare.map_or(name, |(name, _)| name), Some(suffix))
    } else if version {
        dated(name)
    } else {
        (label, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_dates_and_variants_are_no_mismatch() {
        for (asked, answered) in [
            ("test-model", "test-model-2024-08-06"),
            ("gpt-4o", "openai/gpt-4o"),
            ("openai/gpt-4o", "gpt-4o-2024-08-06"),
            ("gpt-4", "gpt-4-0613"),
            ("GPT-4o", "gpt-4o"),
            ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
            (
                "claude-3-haiku",
                "us.anthropic.claude-3-haiku-20240307-v1:0",
            ),
            (
                "claude-3-5-sonnet-v2@20241022",
                "claude-3-5-sonnet-20241022",
            ),
            ("claude-sonnet-4-0", "claude-sonnet-4-20250514"),
            ("anthropic/claude-3.5-sonnet", "claude-3-5-sonnet-20241022"),
            ("gemini-1.5-pro", "models/gemini-1.5-pro-002"),
            ("llama-3:free", "meta/llama-3"),
            (
                "gemini-flash-latest",
                "models/gemini-2.5-flash-preview-09-2025",
            ),
        ] {
            assert!(is_same_model(asked, answered), "{asked} {answered}");
        }
    }

    #[test]
    fn another_name_or_another_date_is_a_mismatch() {
        for (asked, answered) in [
            ("gpt-4o", "gpt-4o-mini"),
            ("gpt-4o-2024-08-06", "gpt-4o-2024-05-13"),
            ("llama3:8b", "llama3:70b"),
            ("claude-3-opus", "claude-3-haiku"),
            ("gpt-4", "gpt-4-turbo"),
            ("claude-opus-4-1", "claude-opus-4-20250514"),
            ("claude-opus-4-20250514", "claude-opus-4-1-20250805"),
            ("test-model", "other-model"),
            ("é", "ü-éééééé"),
            ("gemini-flash-latest", "gemini-2.5-flash-lite"),
            ("gemini-flash-latest", "gemini-2.5-pro"),
            ("claude-3-5-sonnet-latest", "claude-3-7-sonnet-20250219"),
        ] {
            assert!(!is_same_model(asked, answered), "{asked} {answered}");
        }
    }
}
