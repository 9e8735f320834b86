//! What error texts look like, and what they are about. Text in, a kind out; the text is never kept.
//!
//! Wording alone convicts nobody: a text that looks like an error given as an answer needs a second
//! sign, which the caller has (one delta holds it all, no usage, no seal).

use super::clean::cut;
use crate::dialect;
use crate::observation::ErrorKind;

/// How much of a text is looked at, in bytes.
const LOOK: usize = 4096;

/// Longest answer that can be nothing but an error sentence, in bytes.
const LONGEST_SENTENCE: usize = 600;

/// Longest Chinese or guardrail notice, in bytes.
const LONGEST_NOTICE: usize = 240;

/// What an error is about, from its code, HTTP status and wording.
pub(super) fn kind(code: Option<&str>, status: Option<u16>, message: Option<&str>) -> ErrorKind {
    if message.is_some_and(misses_tls) {
        return ErrorKind::PlainHttp;
    }
    if message.is_some_and(is_page) {
        return ErrorKind::Page;
    }
    let by_text = code
        .and_then(by_code)
        .or_else(|| about(&lower(message.unwrap_or_default())));
    let by_status = match status {
        Some(402) => Some(ErrorKind::Quota),
        Some(429) => Some(ErrorKind::RateLimit),
        Some(401 | 403) => Some(ErrorKind::Key),
        Some(529) => Some(ErrorKind::Overloaded),
        _ => None,
    };
    by_text.or(by_status).unwrap_or(ErrorKind::Other)
}

fn by_code(code: &str) -> Option<ErrorKind> {
    match code {
        "429" => Some(ErrorKind::RateLimit),
        "402" => Some(ErrorKind::Quota),
        "401" | "403" => Some(ErrorKind::Key),
        // gRPC's name for a service that is down or has too much to do.
        "529" | "UNAVAILABLE" => Some(ErrorKind::Overloaded),
        // Nothing else can be missing at the path of a request that was understood.
        "not_found_error" => Some(ErrorKind::UnknownModel),
        _ => about(&lower(&code.replace(['_', '-', '.'], " "))),
    }
}

/// What lower-case wording is about; the order is meaning, the more telling word first.
fn about(text: &str) -> Option<ErrorKind> {
    const WORDS: [(ErrorKind, &str); 7] = [
        (
            ErrorKind::NoChannel,
            "no available channel | no healthy upstream | 无可用渠道 | \
             no available accounts",
        ),
        (
            ErrorKind::Guardrail,
            "content blocked | guardrail | model cannot answer this question | \
             content policy | content filter | content management policy",
        ),
        (
            ErrorKind::RateLimit,
            "rate limit | ratelimit | rate_limit | too many requests | \
             requests per minute | requests in 1 hour | tokens per minute | \
             server busy | server is busy | upstream busy | high demand | \
             concurrency | unusual activity | throttl | 429 | 负载已饱和 | 请稍后再试 | \
             resource exhausted | resource has been exhausted | 繁忙 | 频率",
        ),
        (
            ErrorKind::Quota,
            "quota | insufficient balance | insufficient credit | credit balance | \
             insufficient_quota | billing | payment required | 余额不足 | 额度",
        ),
        (
            ErrorKind::Overloaded,
            "overloaded | at capacity | over capacity",
        ),
        (
            ErrorKind::Key,
            "api key | unauthorized | unauthenticated | authentication | permission | forbidden | \
             invalid token | 令牌",
        ),
        (
            ErrorKind::UnknownModel,
            "model not found | does not exist | unknown model | model not exist | \
             is not found for api version",
        ),
    ];
    WORDS
        .iter()
        .find(|(_, words)| phrases(words).any(|word| text.contains(word)))
        .map(|(kind, _)| *kind)
}

/// Whether a server says that it was spoken to without the TLS that it expects.
fn misses_tls(text: &str) -> bool {
    // nginx and what is made of it, Go's servers, Apache.
    const WORDS: &str = "plain http request was sent to https port | \
        client sent an http request to an https server | \
        speaking plain http to an ssl-enabled server port";
    let text = lower(cut(text, LOOK));
    phrases(WORDS).any(|word| text.contains(word))
}

/// Whether a text is a web page.
pub(super) fn is_page(text: &str) -> bool {
    const OPENINGS: &str = "<!doctype html | <html | <head | <body | <title | <center | <h1 | \
        <!--[if";
    let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let start = lower(cut(text, 32));
    phrases(OPENINGS).any(|opening| start.starts_with(opening))
}

/// Whether data that is no JSON says plainly that it is an error.
pub(super) fn is_error_line(text: &str) -> bool {
    const OPENINGS: &str = "error | [error | err: | internal server error | bad gateway | \
        service unavailable | gateway timeout | upstream  | stream error | \
        exception | traceback | fatal | timeout | request failed | failed to | \
        unauthorized | forbidden | too many requests | rate limit | {\"error\" | \
        {'error' | no healthy upstream";
    let start = lower(cut(text.trim_start(), 64));
    phrases(OPENINGS).any(|opening| start.starts_with(opening))
}

/// An answer, or the end of one, that looks like an error text.
pub(super) fn spoken(text: &str) -> Option<ErrorKind> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if text.starts_with('{') {
        return spoken_json(text);
    }
    let words = lower(text);
    if is_page(text) {
        const SIGNS: &str = "502 | 503 | 504 | 524 | 403 | error | nginx | cloudflare | forbidden | \
        blocked | captcha | log in";
        return phrases(SIGNS)
            .any(|sign| words.contains(sign))
            .then_some(ErrorKind::Page);
    }
    if text.len() > LONGEST_SENTENCE {
        return None;
    }
    let kind = about(&words).unwrap_or(ErrorKind::Other);
    if is_tagged(&words) {
        return Some(kind);
    }
    (!explains(&words) && (opens_like_an_error(&words) || is_notice(&words))).then_some(kind)
}

fn spoken_json(text: &str) -> Option<ErrorKind> {
    if let Some(said) = dialect::error_in(text) {
        return Some(kind(said.code.as_deref(), None, said.message.as_deref()));
    }
    ["{'error'", "{'detail'", "{\"error\":"]
        .iter()
        .any(|opening| text.starts_with(opening))
        .then(|| about(&lower(text)).unwrap_or(ErrorKind::Other))
}

/// `[Some Error]: …`, `[Error: …]`, `[Relay] upstream … please retry`.
fn is_tagged(words: &str) -> bool {
    let Some((tag, rest)) = words
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    else {
        return false;
    };
    if tag.starts_with("error") || (tag.len() <= 60 && tag.ends_with("error")) {
        return true;
    }
    let rest = rest.trim_start_matches([':', ' ']);
    tag.len() <= 40
        && (rest.starts_with("upstream")
            || opens_like_an_error(rest)
            || ["please retry", "try again", "请稍后再试"]
                .iter()
                .any(|plea| rest.contains(plea)))
}

fn opens_like_an_error(words: &str) -> bool {
    const OPENINGS: &str = "error: | error code | error occurred | an error occurred | api error | \
        upstream error | upstream request | upstream connect | stream error | \
        internal server error | bad gateway | 502 bad gateway | 503 service | \
        504 gateway | 524: | service unavailable | gateway timeout | \
        request failed with | retryprovider failed | httpsconnectionpool( | \
        httpconnectionpool( | 'async for' requires | traceback (most recent | \
        you exceeded your current quota | quota exceeded | insufficient balance | \
        insufficient_quota | no available channel | too many requests | \
        server busy | the server is busy | \
        we're currently experiencing high demand | \
        we are currently experiencing high demand | \
        currently experiencing high demand | unusual activity has been detected | \
        content blocked | bedrock guardrail | openai error | http error | \
        rate limit exceeded | rate limit reached | rate limited | overloaded: | \
        overloaded_error | connection error. | connection error:";
    let status = |prefix: &str| {
        words
            .strip_prefix(prefix)
            .and_then(|rest| rest.get(..3))
            .is_some_and(|code| {
                matches!(code.as_bytes(), [b'4' | b'5', rest @ ..] if rest.iter().all(u8::is_ascii_digit))
            })
    };
    phrases(OPENINGS).any(|opening| words.starts_with(opening))
        || [
            "response ",
            "http ",
            "http/1.1 ",
            "error ",
            "status code ",
            "status ",
        ]
        .iter()
        .any(|prefix| status(prefix))
}

/// Fixed notices, which are the whole text wherever the telling words stand in it.
fn is_notice(words: &str) -> bool {
    const NOTICES: &str = "请稍后再试 | 请稍后重试 | 余额不足 | 无可用渠道 | 负载已饱和 | 系统繁忙 | 服务器繁忙 | \
        the model cannot answer this question | blocked by our content | \
        please retry your request";
    let lone = words.trim_end_matches(['.', '!', '。']);
    if matches!(
        lone,
        "overloaded" | "rate limit" | "quota" | "connection error"
    ) {
        return true;
    }
    words.len() <= LONGEST_NOTICE && phrases(NOTICES).any(|notice| words.contains(notice))
}

/// Words of somebody who writes about an error.
fn explains(words: &str) -> bool {
    const MARKS: &str = " means |  indicates |  occurs |  occur when |  refers to |  happens | returned when | \
        returned by | you can fix | to fix |  typically |  usually | for example | \
        here is | here's |  is an http |  is a status | common cause |  because  | \
        意味着 | 表示 | 是指 | 通常 | 原因 | 常见";
    phrases(MARKS).any(|mark| words.contains(mark))
}

/// The phrases of a list.
fn phrases(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(" | ")
}

fn lower(text: &str) -> String {
    cut(text, LOOK).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_given_as_answers_are_recognised_with_what_they_are_about() {
        for (text, kind) in [
            (
                "[GenerativeAI Error]: fetch failed: [429 Too Many Requests] Quota exceeded",
                ErrorKind::RateLimit,
            ),
            ("Response 429: Rate limit reached", ErrorKind::RateLimit),
            (
                "[SomeRelay] Upstream returned an empty response. Please retry.",
                ErrorKind::Other,
            ),
            (
                "\n\n[Error: upstream connection was closed]",
                ErrorKind::Other,
            ),
            (
                "{\"detail\":\"Too many requests in 1 hour\"}",
                ErrorKind::RateLimit,
            ),
            ("{\"success\":false}", ErrorKind::Other),
            (
                "{'error': {'message': 'Insufficient balance'}}",
                ErrorKind::Quota,
            ),
            (
                "You exceeded your current quota, please check your plan",
                ErrorKind::Quota,
            ),
            (
                "No available channel for model x under group y",
                ErrorKind::NoChannel,
            ),
            ("当前分组上游负载已饱和，请稍后再试", ErrorKind::RateLimit),
            ("余额不足", ErrorKind::Quota),
            ("Overloaded", ErrorKind::Overloaded),
            (
                "HTTPSConnectionPool(host='x'): Max retries exceeded",
                ErrorKind::Other,
            ),
            ("RetryProvider failed: x", ErrorKind::Other),
            (
                "Unusual activity has been detected from your device",
                ErrorKind::RateLimit,
            ),
            (
                "Sorry, the model cannot answer this question.",
                ErrorKind::Guardrail,
            ),
            ("Bedrock guardrail failed: x", ErrorKind::Guardrail),
            (
                "<html><body>502 Bad Gateway nginx</body></html>",
                ErrorKind::Page,
            ),
            ("524: A timeout occurred", ErrorKind::Other),
        ] {
            assert_eq!(spoken(text), Some(kind), "{text}");
        }
    }

    #[test]
    fn an_answer_about_an_error_is_no_error() {
        for text in [
            "The message \"429 Too Many Requests\" means that you sent too much.",
            "Rate limit errors occur when a client sends too many requests.",
            "Overloaded functions share a name and differ in their parameters.",
            "Error 429 indicates that the rate limit was reached.",
            "A `502 Bad Gateway` comes from a proxy.",
            "Here is the log line: [Error: connection closed]",
            "错误“余额不足”表示账户里没有钱。",
            "<html><body><p>Hello</p></body></html>",
            "{\"name\": \"error\", \"value\": 1}",
            "Paris is the capital of France.",
            "",
        ] {
            assert_eq!(spoken(text), None, "{text}");
        }
    }

    #[test]
    fn plain_error_data_is_told_from_broken_chunks() {
        assert!(is_error_line("error: engine ran out of memory"));
        assert!(is_error_line("{\"error\": {\"message\": \"cut"));
        assert!(!is_error_line(
            "{\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"error"
        ));
        assert!(!is_error_line(":\"test-model\",\"choices\":[]}"));
    }

    #[test]
    fn a_code_or_a_status_says_what_an_error_is_about() {
        assert_eq!(kind(Some("rate_limited"), None, None), ErrorKind::RateLimit);
        assert_eq!(
            kind(Some("insufficient_quota"), Some(429), None),
            ErrorKind::Quota
        );
        assert_eq!(kind(None, Some(429), None), ErrorKind::RateLimit);
        assert_eq!(
            kind(Some("overloaded_error"), None, Some("Overloaded")),
            ErrorKind::Overloaded
        );
        assert_eq!(kind(None, Some(500), Some("boom")), ErrorKind::Other);
        for (status, said) in [
            ("RESOURCE_EXHAUSTED", ErrorKind::RateLimit),
            ("UNAVAILABLE", ErrorKind::Overloaded),
            ("UNAUTHENTICATED", ErrorKind::Key),
            ("PERMISSION_DENIED", ErrorKind::Key),
            ("INTERNAL", ErrorKind::Other),
        ] {
            assert_eq!(kind(Some(status), None, None), said, "{status}");
        }
        for (code, message, about) in [
            ("rate_limit_error", "Slow down", ErrorKind::RateLimit),
            ("authentication_error", "invalid x-api-key", ErrorKind::Key),
            ("permission_error", "Not yours", ErrorKind::Key),
            ("billing_error", "Pay first", ErrorKind::Quota),
            (
                "invalid_request_error",
                "Your credit balance is too low to access the API",
                ErrorKind::Quota,
            ),
            (
                "not_found_error",
                "model: some-model",
                ErrorKind::UnknownModel,
            ),
            ("api_error", "Internal server error", ErrorKind::Other),
            (
                "invalid_request_error",
                "prompt is too long",
                ErrorKind::Other,
            ),
        ] {
            assert_eq!(kind(Some(code), None, Some(message)), about, "{code}");
        }
    }
}
