//! The table as a JSON Schema, draft 07: what yaml-language-server reads in full.
//!
//! A text with a placeholder may stand wherever the reader fills one in, because what it will be is
//! not known while one types. `patternErrorMessage` is that server's word for what to say in place
//! of a regular expression; other validators pass it over.

use serde_json::{Map, Value, json};

use super::{Key, Kind, Size, Table, all, lone_value, pattern};
use crate::dialect::BUDGETS;
use crate::objective::grammar;
use crate::objective::metric::Metric;
use crate::spec::reader::MOST_ITEMS;
use crate::spec::simulate::FAULTS;
use crate::spec::workload::OURS;

/// The JSON Schema of a spec.
pub fn document() -> Value {
    let mut definitions = Map::new();
    for table in all().iter().filter(|table| !table.place.is_empty()) {
        let mut schema = map(table);
        // What editors call it where something else stands in its place.
        schema["title"] = json!(format!("map {}", table.place));
        definitions.insert(id(table), schema);
    }
    for mean in [false, true] {
        definitions.insert(objective_id(mean).to_owned(), objective(mean));
    }
    definitions.insert("fault".to_owned(), faults());
    let mut root = Map::new();
    root.insert(
        "$schema".to_owned(),
        json!("http://json-schema.org/draft-07/schema#"),
    );
    root.insert("title".to_owned(), json!("relayproof spec"));
    let spec = all().iter().find(|table| table.place.is_empty());
    if let Some(Value::Object(members)) = spec.map(|table| map(table)) {
        root.extend(members);
    }
    root.insert("definitions".to_owned(), Value::Object(definitions));
    Value::Object(root)
}

/// `relays[].timeouts` as a name that needs no escape.
fn id(table: &Table) -> String {
    table.place.replace("[]", "").replace('.', "-")
}

const fn objective_id(mean: bool) -> &'static str {
    if mean { "any-objective" } else { "objective" }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

fn map(table: &Table) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in table.keys() {
        properties.insert(key.name.to_owned(), described(key));
        if key.must {
            required.push(key.name);
        }
    }
    let mut schema = json!({
        "description": plain(table.about),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    match table.size {
        Size::Any => {}
        Size::Some => schema["minProperties"] = json!(1),
        Size::One => {
            schema["minProperties"] = json!(1);
            schema["maxProperties"] = json!(1);
        }
    }
    schema
}

/// What may stand behind a key, with what a reader of the schema wants to know of it.
fn described(key: &Key) -> Value {
    let mut schema = of(&key.kind);
    let mut words = capitalised(&plain(key.meaning).replace("; see below", ""));
    words.push('.');
    let value = lone_value(key.usual);
    match (&value, key.usual) {
        (_, "" | "–" | "see below" | "see there") | (Some(_), _) => {}
        (None, usual) if usual.starts_with("required") => {
            words.push_str(&format!(" {}.", capitalised(&plain(usual))));
        }
        (None, usual) => words.push_str(&format!(" Default: {}.", plain(usual))),
    }
    schema["description"] = json!(words);
    if let Some(value) = value {
        schema["default"] = value;
    }
    if !key.example.is_empty()
        && let Ok(example) = serde_json::from_str::<Value>(key.example)
    {
        schema["examples"] = json!([example]);
    }
    schema
}

/// Markdown without its links, which lead nowhere from an editor.
fn plain(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after
            .split_once("](")
            .filter(|(text, _)| !text.contains(['[', '`', ']']))
            .and_then(|(text, tail)| Some((text, tail.split_once(')')?.1)));
        out.push_str(before);
        match link {
            Some((text, tail)) => {
                out.push_str("docs/");
                out.push_str(text);
                rest = tail;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Text of a form, or with a placeholder in it; `said` is what an editor says otherwise.
fn text(form: &str, said: &str) -> Value {
    json!({ "type": "string", "pattern": pattern::or_filled(form), "patternErrorMessage": said })
}

/// A type of JSON, or text with a placeholder in it.
fn filled_or(kind: &str, said: &str) -> Value {
    json!({
        "type": [kind, "string"],
        "pattern": pattern::FILLED,
        "patternErrorMessage": format!("expected {said}"),
    })
}

fn of(kind: &Kind) -> Value {
    match *kind {
        Kind::Exactly(value) => json!({ "const": value }),
        Kind::True => {
            json!({ "anyOf": [{ "enum": [true] }, { "type": "string", "pattern": pattern::FILLED }] })
        }
        Kind::Flag => filled_or("boolean", "`true` or `false`"),
        Kind::Whole(min, max) => {
            let mut schema = filled_or("integer", &format!("a whole number from {min} to {max}"));
            schema["minimum"] = json!(min);
            if max < u64::MAX {
                schema["maximum"] = json!(max);
            }
            schema
        }
        Kind::Number(min, max) => {
            let mut schema = filled_or("number", &format!("a number from {min} to {max}"));
            schema["minimum"] = number(min);
            schema["maximum"] = number(max);
            schema
        }
        Kind::Text | Kind::Plain => json!({
            "type": "string",
            "pattern": r"\S",
            "patternErrorMessage": "expected text",
        }),
        Kind::Variable => json!({
            "type": "string",
            "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$",
            "patternErrorMessage": "name the variable that holds the key, never the key itself",
        }),
        Kind::Name => text(
            pattern::name(),
            "a name has 1 to 64 characters, no `/` and no white space at its ends",
        ),
        Kind::Url => text(
            pattern::base_url(),
            "write it as for the official SDK, like https://relay.example/v1",
        ),
        Kind::ProxyUrl => text(
            pattern::proxy_url(),
            "expected http://, https://, socks5:// or socks5h:// and a host",
        ),
        Kind::TraceUrl => text(
            r".*\{trace_id\}.*|(jaeger|tempo):https?://.+",
            "the address of a trace holds `{trace_id}`, or is `jaeger:` or `tempo:` and a URL",
        ),
        Kind::Words(words) => words_of(&words()),
        Kind::Duration => text(
            &pattern::duration(),
            "a duration is a number and `us`, `ms`, `s`, `m`, `h` or `d`, like 1.5s",
        ),
        Kind::DurationOrZero => {
            let mut schema = text(
                &pattern::duration_or_zero(),
                "a duration is a number and `us`, `ms`, `s`, `m`, `h` or `d`, like 1.5s",
            );
            schema["type"] = json!(["string", "integer"]);
            schema["minimum"] = json!(0);
            schema["maximum"] = json!(0);
            schema
        }
        Kind::Rate => text(
            &pattern::rate(),
            "a rate is a number and `/s`, `/min` or `/h`, like 120/min",
        ),
        Kind::Share => text(
            &pattern::share(),
            "a percentage is a number and `%`, like 99.5%",
        ),
        Kind::Money => text(
            &pattern::money(),
            "an amount of money is a number and `USD`, like 25 USD",
        ),
        Kind::Daily => text(pattern::daily(), "two times of a day, like \"21:00-01:00\""),
        Kind::Moment => text(
            pattern::moment(),
            "date, time and offset, like 2026-12-01T00:00:00Z",
        ),
        Kind::Count => {
            let mut schema = text(
                &pattern::count(),
                "a count is a whole number, also with `k`, `M` or `G`, like 8M",
            );
            schema["type"] = json!(["string", "integer"]);
            schema["minimum"] = json!(1);
            schema
        }
        Kind::Objective { mean } => reference(objective_id(mean)),
        Kind::Retried => json!({
            "anyOf": [
                { "type": "integer", "minimum": 400, "maximum": 599 },
                { "enum": ["connect"] },
            ],
        }),
        Kind::Single => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Texts => {
            let one = of(&Kind::Text);
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        Kind::List(item) => json!({
            "type": "array",
            "items": of(item),
            "minItems": 1,
            "maxItems": MOST_ITEMS,
        }),
        Kind::Command => {
            let word = of(&Kind::Plain);
            json!({ "type": "array", "items": word, "minItems": 1, "maxItems": MOST_ITEMS })
        }
        Kind::Anything(item) => json!({ "type": "array", "items": of(item) }),
        Kind::Map(table) => reference(&id(table)),
        Kind::MapOf(value, most) => {
            let mut schema = json!({ "type": "object", "additionalProperties": of(value) });
            if most > 0 {
                schema["maxProperties"] = json!(most);
            }
            schema
        }
        Kind::Params => {
            let mut properties = Map::new();
            for budget in BUDGETS {
                properties.insert(budget.to_owned(), of(&Kind::Whole(1, 1_000_000)));
            }
            properties.insert("n".to_owned(), of(&Kind::Whole(1, 1_000_000)));
            for ours in OURS {
                properties.insert((*ours).to_owned(), json!(false));
            }
            json!({ "type": "object", "properties": properties })
        }
        Kind::Fault => reference("fault"),
        Kind::Either(kinds) => json!({ "anyOf": kinds.iter().map(of).collect::<Vec<_>>() }),
    }
}

/// A closed set; words that YAML reads as numbers are taken as those, too.
fn words_of(words: &[&str]) -> Value {
    let mut values: Vec<Value> = words.iter().map(|word| json!(word)).collect();
    let numbers = words.iter().filter_map(|word| word.parse::<f64>().ok());
    values.extend(numbers.map(number));
    json!({ "anyOf": [
        { "enum": values },
        { "type": "string", "pattern": pattern::FILLED },
    ] })
}

/// A number without a needless point.
fn number(value: f64) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or_else(|_| json!(value))
}

fn objective(mean: bool) -> Value {
    let metrics = Metric::ALL.iter().map(|metric| metric.definition());
    let examples: Vec<String> = Metric::ALL
        .iter()
        .map(|metric| grammar::example(*metric))
        .collect();
    let lines: Vec<String> = Metric::ALL
        .iter()
        .zip(metrics)
        .map(|(metric, definition)| format!("- `{metric}`: {definition}"))
        .collect();
    let mut schema = text(
        &pattern::objective(mean),
        "an objective is METRIC[.pNN] OP NUMBER[UNIT], like ttft.p95 < 1.5s or parse_success >= 99%",
    );
    schema["description"] = json!(format!(
        "`METRIC[.pNN[.N] | .mean] OP NUMBER[UNIT]`, one condition.\n\n{}",
        lines.join("\n")
    ));
    schema["examples"] = json!(examples);
    schema
}

fn faults() -> Value {
    let all: Vec<Value> = FAULTS
        .iter()
        .map(|(name, parameters)| {
            let mut properties = Map::new();
            properties.insert((*name).to_owned(), of(&Kind::Share));
            for parameter in *parameters {
                properties.insert((*parameter).to_owned(), of(&parameter_kind(parameter)));
            }
            json!({
                "type": "object",
                "properties": properties,
                "required": [name],
                "additionalProperties": false,
            })
        })
        .collect();
    json!({
        "description": "A fault of the embedded relay: its share of the calls, and its parameters.",
        "anyOf": all,
    })
}

/// What a parameter of a fault takes.
fn parameter_kind(name: &str) -> Kind {
    match name {
        "delay" => Kind::Duration,
        "code" => Kind::Whole(400, 599),
        "recover_after" => Kind::Whole(1, 1000),
        "after_tokens" => Kind::Whole(0, 1_000_000),
        _ => Kind::Whole(0, 3600),
    }
}
