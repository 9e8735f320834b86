//! Wire text of Gemini's `generateContent`, as an honest relay reads and writes it.

use serde_json::{Value, json};

use super::{ApiError, Event, Reason, Usage, Voice, quoted};
use crate::sim::ask::{self, Ask, Refusal};

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Method {
    model: String,
    answer: Form,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One object.
    Object,
    /// Server-sent events, one object each.
    Events,
    /// What `streamGenerateContent` gives where nobody asked for events: an array of objects.
    Array,
}

impl Method {
    /// The method of a path, which may have any prefix, and its query.
    pub(in crate::sim) fn at(path: &str, query: &str) -> Option<Self> {
        let (resource, method) = path.rsplit_once(':')?;
        let mut names = resource.rsplit('/');
        let (name, collection) = (names.next()?, names.next()?);
        let name = decoded(name)?;
        let model = match collection {
            "models" => name,
            "tunedModels" => format!("tunedModels/{name}"),
            _ => return None,
        };
        let events = query.split('&').any(|pair| pair == "alt=sse");
        let answer = match (method, events) {
            ("generateContent", _) => Form::Object,
            ("streamGenerateContent", true) => Form::Events,
            ("streamGenerateContent", false) => Form::Array,
            _ => return None,
        };
        (!model.is_empty()).then_some(Self { model, answer })
    }

    /// Reads a request body.
    pub(in crate::sim) fn parse(&self, body: &[u8]) -> Result<Ask, Refusal> {
        let members = ask::members(body)?;
        let contents = match members.get("contents") {
            Some(Value::Array(contents)) if !contents.is_empty() => contents,
            _ => return Err(Refusal::of("contents", "contents is not specified")),
        };
        let mut last_user = String::new();
        let mut prompt_tokens = 0;
        for content in contents {
            let text = text_of(content)?;
            prompt_tokens += ask::tokens(&text);
            match content.get("role").and_then(Value::as_str) {
                None | Some("user") => last_user = text,
                Some("model") => {}
                Some(_) => {
                    return Err(Refusal::of(
                        "contents",
                        "Please use a valid role: user, model.",
                    ));
                }
            }
        }
        if let Some(instruction) = members.get("systemInstruction") {
            prompt_tokens += ask::tokens(&text_of(instruction)?);
        }
        let none = serde_json::Map::new();
        let settings = match members.get("generationConfig") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(settings)) => settings,
            Some(_) => {
                return Err(Refusal::of(
                    "generationConfig",
                    "`generationConfig` must be an object",
                ));
            }
        };
        if ask::count(settings, "candidateCount")?.is_some_and(|count| count != 1) {
            return Err(Refusal::of(
                "candidateCount",
                "only one candidate is offered",
            ));
        }
        Ok(Ask {
            model: self.model.clone(),
            stream: self.answer == Form::Events,
            usage: true,
            max_tokens: ask::count(settings, "maxOutputTokens")?,
            seal: ask::seal(&last_user),
            lines: ask::lines(&last_user),
            prompt_tokens,
        })
    }

    /// The voice of the answer `id`.
    pub(in crate::sim) fn voice(&self, id: &str, model: &str, ask: &Ask) -> Gemini {
        Gemini {
            array: self.answer == Form::Array,
            prompt: ask.prompt_tokens,
            said: 0,
            after: format!(
                r#","modelVersion":{},"responseId":{}}}"#,
                quoted(model),
                quoted(id)
            ),
        }
    }
}

/// A path segment without its percent signs; `None` where it is no text.
fn decoded(segment: &str) -> Option<String> {
    let mut parts = segment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Text parts of a content.
fn text_of(content: &Value) -> Result<String, Refusal> {
    match content.get("parts") {
        Some(parts @ Value::Array(_)) => ask::text_of(Some(parts)),
        _ => Err(Refusal::of("contents", "each content needs `parts`")),
    }
}

/// Writes the events of one answer.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Gemini {
    array: bool,
    prompt: u64,
    said: u64,
    after: String,
}

impl Gemini {
    fn object(&self, text: &str, finish: Option<Reason>, usage: Usage) -> String {
        let finish = match finish {
            None => "",
            Some(Reason::Stop) => r#""finishReason":"STOP","#,
            Some(Reason::Length) => r#""finishReason":"MAX_TOKENS","#,
        };
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":{}}}],"role":"model"}},{finish}"index":0}}],"usageMetadata":{}{}"#,
            quoted(text),
            counts(usage),
            self.after
        )
    }
}

impl Voice for Gemini {
    fn opening(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn token(&mut self, text: &str) -> Event {
        self.said += 1;
        let usage = Usage {
            prompt: self.prompt,
            completion: self.said,
        };
        Event::unnamed(self.object(text, None, usage))
    }

    fn closing(&mut self, reason: Reason, usage: Usage) -> Vec<Event> {
        vec![Event::unnamed(self.object("", Some(reason), usage))]
    }

    /// The protocol has no mark but the finish reason: without one, only the body's end is left.
    fn mark(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn error(&mut self) -> Event {
        Event::unnamed(error(&ApiError {
            status: 500,
            message: "the upstream server failed",
            kind: "server_error",
            param: None,
            code: None,
        }))
    }

    fn whole(&self, text: &str, reason: Reason, usage: Usage) -> String {
        let object = self.object(text, Some(reason), usage);
        if self.array {
            format!("[{object}\n]\n")
        } else {
            object
        }
    }
}

fn counts(usage: Usage) -> String {
    format!(
        r#"{{"promptTokenCount":{},"candidatesTokenCount":{},"totalTokenCount":{},"promptTokensDetails":[{{"modality":"TEXT","tokenCount":{}}}]}}"#,
        usage.prompt,
        usage.completion,
        usage.prompt + usage.completion,
        usage.prompt
    )
}

/// An error object in the API's shape.
pub(in crate::sim) fn error(error: &ApiError<'_>) -> String {
    let status = match error.status {
        401 => "UNAUTHENTICATED",
        402 => "FAILED_PRECONDITION",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=498 => "INVALID_ARGUMENT",
        500.. => "INTERNAL",
        _ => "UNKNOWN",
    };
    json!({"error": {"code": error.status, "message": error.message, "status": status}}).to_string()
}

/// The list of models.
pub(in crate::sim) fn models() -> String {
    json!({
        "models": [{
            "name": "models/embedded",
            "version": "001",
            "displayName": "Embedded",
            "description": "Says what it is told to say",
            "inputTokenLimit": 1_000_000,
            "outputTokenLimit": 100_000,
            "supportedGenerationMethods": ["generateContent"],
        }],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(path: &str, query: &str) -> Option<(String, Form)> {
        Method::at(path, query).map(|method| (method.model, method.answer))
    }

    #[test]
    fn model_and_form_are_in_the_path() {
        for (path, query, model, form) in [
            ("/v1beta/models/m:generateContent", "", "m", Form::Object),
            (
                "/v1/v1beta/models/m:free:streamGenerateContent",
                "key=k&alt=sse",
                "m:free",
                Form::Events,
            ),
            (
                "/v1beta/tunedModels/m:streamGenerateContent",
                "alt=json",
                "tunedModels/m",
                Form::Array,
            ),
            (
                "/v1beta/models/%E6%A8%A1:generateContent",
                "",
                "模",
                Form::Object,
            ),
        ] {
            assert_eq!(method(path, query), Some((model.to_owned(), form)));
        }
        for path in [
            "/v1beta/models",
            "/v1beta/models/m:countTokens",
            "/v1beta/models/:generateContent",
            "/v1beta/models/%E6:generateContent",
            "/v1beta/files/m:generateContent",
            "/v1/chat/completions",
        ] {
            assert_eq!(method(path, "alt=sse"), None, "{path}");
        }
    }

    fn parse(body: &Value) -> Result<Ask, Refusal> {
        let method = Method::at("/v1beta/models/m:streamGenerateContent", "alt=sse").unwrap();
        method.parse(body.to_string().as_bytes())
    }

    #[test]
    fn the_seal_is_asked_for_by_the_last_user() {
        let ask = parse(&json!({
            "systemInstruction": {"parts": [{"text": "one two"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "End your answer with `A`."}]},
                {"role": "model", "parts": [{"text": "End your answer with `B`."}]},
                {"parts": [{"text": "and end your"}, {"text": "x end your answer with `C`"}]},
            ],
            "generationConfig": {"maxOutputTokens": 3},
        }))
        .unwrap();
        assert_eq!(ask.seal.as_deref(), Some("C"));
        assert_eq!((ask.max_tokens, ask.stream), (Some(3), true));
        assert_eq!(ask.prompt_tokens, 2 + 5 + 5 + 3 + 6);
    }

    #[test]
    fn what_the_api_would_refuse_is_refused_with_the_member_named() {
        let turn = json!([{"parts": [{"text": "hi"}]}]);
        for (body, param) in [
            (json!({}), "contents"),
            (json!({"contents": []}), "contents"),
            (json!({"contents": [{"role": "user"}]}), "contents"),
            (
                json!({"contents": [{"role": "assistant", "parts": []}]}),
                "contents",
            ),
            (
                json!({"contents": turn, "generationConfig": {"maxOutputTokens": 0}}),
                "maxOutputTokens",
            ),
            (
                json!({"contents": turn, "generationConfig": {"candidateCount": 2}}),
                "candidateCount",
            ),
            (
                json!({"contents": turn, "generationConfig": []}),
                "generationConfig",
            ),
        ] {
            assert_eq!(parse(&body).unwrap_err().param, Some(param), "{body}");
        }
    }

    #[test]
    fn every_event_is_json_and_counts_what_was_said_so_far() {
        let ask = Ask {
            model: "m".to_owned(),
            stream: true,
            usage: true,
            max_tokens: None,
            seal: None,
            lines: None,
            prompt_tokens: 2,
        };
        let method = Method::at("/v1beta/models/m:streamGenerateContent", "").unwrap();
        let mut voice = method.voice("id", "a\"b", &ask);
        let usage = Usage {
            prompt: 2,
            completion: 1,
        };
        let mut events = vec![voice.token("say \"hi\"\n")];
        events.extend(voice.closing(Reason::Length, usage));
        let read: Vec<Value> = events
            .iter()
            .map(|event| serde_json::from_str(&event.data).unwrap())
            .collect();
        for event in &read {
            assert_eq!(event["modelVersion"], "a\"b");
            assert_eq!(event["responseId"], "id");
            assert_eq!(event["usageMetadata"]["totalTokenCount"], 3);
        }
        assert_eq!(
            read[0]["candidates"][0]["content"]["parts"][0]["text"],
            "say \"hi\"\n"
        );
        assert_eq!(read[0]["candidates"][0].get("finishReason"), None);
        assert_eq!(read[1]["candidates"][0]["finishReason"], "MAX_TOKENS");
        let whole = voice.whole("text", Reason::Stop, usage);
        let whole: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole[0]["candidates"][0]["finishReason"], "STOP");
    }
}
