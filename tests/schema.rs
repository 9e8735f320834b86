//! The JSON Schema for editors beside the reader of specs: they take and refuse the same.
//!
//! `UPDATE_GOLDEN=1 cargo test --test schema` writes the file anew.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it must be"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use relayproof::objective::Objective;
use relayproof::objective::metric::Metric;
use relayproof::report::json;
use relayproof::resolve::resolve;
use relayproof::spec::{self, schema};
use serde_json::{Value, json};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A validator of somebody else's.
struct Validator {
    schemas: boon::Schemas,
    index: boon::SchemaIndex,
}

impl Validator {
    fn of(document: Value) -> Self {
        let mut schemas = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler
            .add_resource("file:///spec.json", document)
            .unwrap();
        let index = compiler.compile("file:///spec.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn new() -> Self {
        Self::of(schema::document())
    }

    fn check(&self, document: &Value) -> Result<(), String> {
        self.schemas
            .validate(document, self.index)
            .map_err(|error| format!("{error:#}"))
    }
}

/// A document as a program sees it.
fn yaml(text: &str) -> Result<Value, String> {
    serde_yaml::from_str(text).map_err(|error| error.to_string())
}

fn env(name: &str) -> Option<String> {
    (name == "SPEC_TEST_RATE").then(|| "30/min".to_owned())
}

fn read(text: &str) -> Result<(), String> {
    let spec = spec::parse("test.yaml", text, &env).map_err(|it| it.render(false))?;
    resolve(&spec, None)
        .map(|_| ())
        .map_err(|it| it.render(false))
}

fn texts(name: &str) -> BTreeMap<String, String> {
    fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn the_schemas_on_file_are_those_that_the_command_writes() {
    on_file("relayproof.schema.json", &schema::document());
    on_file("relayproof-report.schema.json", &json::schema::document());
}

fn on_file(name: &str, document: &Value) {
    let path = folder("schema").join(name);
    let mut now = serde_json::to_string_pretty(document).unwrap();
    now.push('\n');
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &now).unwrap();
    }
    let on_file = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        on_file == now,
        "{} is not what `relayproof schema` writes: UPDATE_GOLDEN=1 cargo test --test schema",
        path.display()
    );
}

#[test]
fn every_spec_of_this_repository_is_valid_by_the_schema() {
    let validator = Validator::new();
    let mut seen = 0;
    for name in ["specs", "examples/consumer/specs", "tests/data/specs/good"] {
        for (file, text) in texts(name) {
            let document = yaml(&text).unwrap();
            if let Err(error) = validator.check(&document) {
                panic!("{name}/{file}: {error}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} specs");
}

/// Where a schema has examples or a default, and which.
fn cases(at: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
    let Some(members) = schema.as_object() else {
        return;
    };
    let examples = members.get("examples").and_then(Value::as_array);
    for case in examples.into_iter().flatten().chain(members.get("default")) {
        found.push((at.to_owned(), case.clone()));
    }
    for (name, child) in members {
        match name.as_str() {
            "properties" | "definitions" => {
                for (key, child) in child.as_object().unwrap() {
                    cases(&format!("{at}/{name}/{key}"), child, found);
                }
            }
            "items" => cases(&format!("{at}/{name}"), child, found),
            _ => {}
        }
    }
}

#[test]
fn every_example_and_default_of_the_schema_is_valid_by_it() {
    let document = schema::document();
    let mut found = Vec::new();
    cases("", &document, &mut found);
    assert!(found.len() > 60, "{}", found.len());
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("file:///spec.json", document)
        .unwrap();
    for (at, case) in found {
        let place = format!("file:///spec.json#{at}");
        let index = compiler.compile(&place, &mut schemas).unwrap();
        if let Err(error) = schemas.validate(&case, index) {
            panic!("{at}: {case}: {error:#}");
        }
    }
}

/// The ten-line form with one line changed or added.
fn ten_lines(from: &str, to: &str) -> String {
    let text = fs::read_to_string(folder("tests/data/specs/good/ten-lines.yaml")).unwrap();
    assert!(text.contains(from), "`{from}` is not in\n{text}");
    text.replacen(from, to, 1)
}

/// What the ten lines end with.
const LAST: &str = "  - interruption < 1%\n";

fn ten_lines_and(more: &str) -> String {
    ten_lines(LAST, &format!("{LAST}{more}\n"))
}

#[test]
fn what_the_reader_takes_the_schema_takes() {
    let validator = Validator::new();
    for more in [
        "baseline: { name: official, base_url: \"https://api.example/v1\", api_key: { env: OFFICIAL_KEY }, pair: 5% }\nregions: [hk, { name: usw }]\nwindows: [{ name: peak, daily: \"21:00-01:00\", tz: Asia/Shanghai }]\nsampling: { mode: soak, duration: 7d, start: 2026-12-01T08:00:00+08:00 }\njudge: { scope: campaign, bucket: 5m, min_days: 2 }",
        "vars: { n: 400, flag: true, slo: \"ttft.p95 < 1.5s\" }\nsampling: { max_samples: \"${vars.n}\", rate: \"${env.SPEC_TEST_RATE}\" }\njudge: { futility: \"${vars.flag}\" }",
        "vars: { word: warn }\nprofiles: { p: { slos: [{ expect: ttft.p95 < 1s, severity: \"${vars.word}\" }] } }",
        "sampling: { max_samples: 400, limits: { max_tokens: 900000000, max_duration: 1.5h } }",
        "sampling: { max_samples: 400, limits: { max_tokens: 900M } }",
        "defaults: { http: 2, connection: reuse, retry: { backoff: 0 } }",
        "defaults: { http: 1.1, proxy: { url: \"socks5h://127.0.0.1:1080\" } }",
        "defaults: { proxy: env, headers: { X-Tenant: qa }, stream: true }",
        "judge: { design_ratio: zero_failure }",
        "judge: { design_ratio: 2.5, confidence: 99.9% }\nsampling: { max_samples: 100000 }",
        "workloads:\n  - name: w\n    messages: [{ role: user, content: hi }]\n    params: { max_tokens: 10, stop: null, response_format: { type: json_object } }\n    expect: { finish_reason: stop, shape: { numbered_lines: 5 } }",
        "defaults: { propagate: traceparent }\notel: { ci_parent: parent, content: hash, content_in_ci: true }",
        "otel: { trace_url: \"jaeger:http://127.0.0.1:16686\" }",
    ] {
        let text = ten_lines_and(more);
        if let Err(error) = read(&text) {
            panic!("{error}");
        }
        if let Err(error) = validator.check(&yaml(&text).unwrap()) {
            panic!("{more}: {error}");
        }
    }
}

#[test]
fn what_the_schema_refuses_the_reader_refuses() {
    let validator = Validator::new();
    let mut refused = 0;
    // Each of these files has mistakes; the schema sees those of form.
    for (file, text) in texts("tests/data/specs/bad") {
        let Ok(document) = yaml(&text) else { continue };
        if validator.check(&document).is_err() {
            refused += 1;
            assert!(read(&text).is_err(), "{file}");
        }
    }
    assert!(refused >= 12, "only {refused} of the bad specs");
}

#[test]
fn a_mistake_of_form_is_refused_by_both() {
    let validator = Validator::new();
    let mut taken = Vec::new();
    let cases = [
        ten_lines("relayproof: 1", "relayproof: 2"),
        ten_lines("relayproof: 1", "relayprof: 1"),
        ten_lines("models: [gpt-4o-mini]", "models: []"),
        ten_lines("models: [gpt-4o-mini]", "models: gpt-4o-mini"),
        ten_lines("models:", "modles:"),
        ten_lines("- name: alpha", "- name: a/b"),
        ten_lines("- name: alpha", "- name: 7"),
        ten_lines("https://api", "ftp://api"),
        ten_lines("https://api", "https://user:password@api"),
        ten_lines("{ env: ALPHA_KEY }", "sk-0123456789"),
        ten_lines("{ env: ALPHA_KEY }", "{ env: ALPHA_KEY, file: key }"),
        ten_lines("{ env: ALPHA_KEY }", "{ env: sk-0123456789 }"),
        ten_lines("{ env: ALPHA_KEY }", "{}"),
        ten_lines("ttft.p95 < 1.5s", "ttft < 1.5s"),
        ten_lines("ttft.p95 < 1.5s", "ttft.p95 < 1.5"),
        ten_lines("ttft.p95 < 1.5s", "ttft.p95 > 1.5s"),
        ten_lines("ttft.p95 < 1.5s", "ttft.p05 < 1.5s"),
        ten_lines("ttft.p95 < 1.5s", "ttft.max < 1.5s"),
        ten_lines("ttft.p95 < 1.5s", "ttft.mean < 1.5s"),
        ten_lines("ttft.p95 < 1.5s", "ttfb.p95 < 1.5s and tps.p05 > 3/s"),
        ten_lines("ttft.p95 < 1.5s", "tps.p95 >= 20/s"),
        ten_lines("ttft.p95 < 1.5s", "tps.p05 >= 20"),
        ten_lines("parse_success >= 99%", "parse_success >= 99"),
        ten_lines("parse_success >= 99%", "parse_success >= 100%"),
        ten_lines("parse_success >= 99%", "parse_success <= 99%"),
        ten_lines("parse_success >= 99%", "parse_sucess >= 99%"),
        ten_lines("parse_success >= 99%", "parse_success.p95 >= 99%"),
        ten_lines("parse_success >= 99%", "{ expekt: parse_success >= 99% }"),
        ten_lines("parse_success >= 99%", "{ severity: warn }"),
        ten_lines(
            "parse_success >= 99%",
            "{ expect: parse_success >= 99%, severity: warning }",
        ),
        ten_lines_and("sampling: { rate: 120 }"),
        ten_lines_and("sampling: { rate: 120 per minute }"),
        ten_lines_and("sampling: { max_samples: 0 }"),
        ten_lines_and("sampling: { max_samples: many }"),
        ten_lines_and("sampling: { max_samples: 1.5 }"),
        ten_lines_and("sampling: { limits: { max_duration: 30 } }"),
        ten_lines_and("sampling: { limits: { max_duration: 5 min } }"),
        ten_lines_and("sampling: { limits: { max_tokens: 8m } }"),
        ten_lines_and("sampling: { mode: soaked }"),
        ten_lines_and("sampling: { mode: soak, duration: 7 days }"),
        ten_lines_and("sampling: { mode: soak, duration: 7d, start: 2026-12-01 }"),
        ten_lines_and("sampling: { limits: { max_cost: 25 } }"),
        ten_lines_and("windows: [{ name: peak, daily: \"21-01\" }]"),
        ten_lines_and("regions: [{ budget_share: 10% }]"),
        ten_lines_and(
            "baseline: { name: official, base_url: \"https://api.example/v1\", pair: 10 }",
        ),
        ten_lines_and("judge: { min_days: 0 }"),
        ten_lines_and("judge: { confidence: 0.95 }"),
        ten_lines_and("judge: { confidence: 95 }"),
        ten_lines_and("judge: { design_ratio: 1 }"),
        ten_lines_and("judge: { mode: proof }"),
        ten_lines_and("judge: { futility: sure }"),
        ten_lines_and("defaults: { timeouts: { first_token: 60 } }"),
        ten_lines_and("defaults: { timeouts: { frist_token: 60s } }"),
        ten_lines_and("defaults: { retry: { max: 4 } }"),
        ten_lines_and("defaults: { retry: { when: [200] } }"),
        ten_lines_and("defaults: { name: alpha }"),
        ten_lines_and("defaults: { protocol: openai }"),
        ten_lines_and("defaults: { stream: false }"),
        ten_lines_and("defaults: { http: 3 }"),
        ten_lines_and("defaults: { proxy: { url: 127.0.0.1 } }"),
        ten_lines_and("profiles: { p: { relays: [] } }"),
        ten_lines_and("matrix: { exclude: [{}] }"),
        ten_lines_and("otel: { trace_url: \"http://127.0.0.1/trace\" }"),
        ten_lines_and("workloads: [{ name: w }]"),
        ten_lines_and("workloads: [{ name: w, messages: [{ role: usr, content: hi }] }]"),
        ten_lines_and(
            "workloads: [{ name: w, messages: [{ role: user, content: hi }], params: { model: m } }]",
        ),
        ten_lines_and(
            "workloads: [{ name: w, messages: [{ role: user, content: hi }], expect: { shape: { numbered_lines: 3, json: [a] } } }]",
        ),
        ten_lines(
            "  - name: alpha\n",
            "  - { name: e, simulate: { faults: [{ truncated: 2% }] } }\n  - name: alpha\n",
        ),
        ten_lines(
            "  - name: alpha\n",
            "  - { name: e, simulate: { faults: [{ buffer: 2%, code: 500 }] } }\n  - name: alpha\n",
        ),
        ten_lines(
            "  - name: alpha\n",
            "  - { name: e, simulate: { faults: [{ buffer: 2 }] } }\n  - name: alpha\n",
        ),
        ten_lines_and("windows: []"),
        "relayproof: 1\nslos: [ttft.p95 < 1s]\n".to_owned(),
        "[]".to_owned(),
    ];
    for text in cases {
        if read(&text).is_ok() {
            taken.push(format!("the reader takes\n{text}"));
        }
        if validator.check(&yaml(&text).unwrap()).is_ok() {
            taken.push(format!("the schema takes\n{text}"));
        }
    }
    assert!(taken.is_empty(), "{}", taken.join("\n"));
}

/// Every metric with every statistic, operator and unit that may come to somebody's mind.
#[test]
fn the_schema_and_the_grammar_agree_on_every_form_of_an_objective() {
    let document = schema::document();
    let gating =
        json!({ "$ref": "#/definitions/objective", "definitions": document["definitions"] });
    let any =
        json!({ "$ref": "#/definitions/any-objective", "definitions": document["definitions"] });
    let (gating, any) = (Validator::of(gating), Validator::of(any));
    let statistics = [
        "",
        ".p95",
        ".p99.9",
        ".p99.9999",
        ".p50",
        ".p50.0",
        ".p50.0001",
        ".p49.9",
        ".p05",
        ".p5",
        ".p0.1",
        ".p0095",
        ".p0",
        ".p0.0",
        ".p100",
        ".p",
        ".p95.",
        ".max",
        ".min",
        ".mean",
        ".median",
        ".P95",
    ];
    let (mut good, mut bad) = (0, 0);
    let mut agree = |text: String| {
        let read = Objective::parse(&text).is_ok();
        let document = Value::from(text.as_str());
        assert_eq!(any.check(&document).is_ok(), read, "{text}");
        if !text.contains(".mean") {
            assert_eq!(gating.check(&document).is_ok(), read, "{text}");
        }
        if read { good += 1 } else { bad += 1 }
    };
    // One metric of each kind, and none.
    for metric in ["ttft", "tps", "parse_success", "interruption", "ttff"] {
        for statistic in statistics {
            for op in ["<", " <= ", " > ", ">="] {
                for bound in ["1.5s", "150 ms", "20 /s", "99%", "100%", "0.99", "1.s"] {
                    agree(format!("{metric}{statistic}{op}{bound}"));
                }
            }
        }
    }
    for metric in Metric::ALL {
        for rest in [
            ".p95 < 1s",
            ".p05 > 1/s",
            " >= 99%",
            " < 1%",
            " == 1%",
            " 1%",
            " < 1S",
            " < -1s",
        ] {
            agree(format!("{metric}{rest}"));
        }
    }
    assert!(good > 60 && bad > 2000, "{good} good, {bad} bad");
    for text in ["  ttft.p95 < 1.5s ", "interruption<0.5%"] {
        assert!(
            any.check(&text.into()).is_ok() && Objective::parse(text).is_ok(),
            "{text}"
        );
    }
}
