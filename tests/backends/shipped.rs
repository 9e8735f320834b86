//! The files that are shipped for people: configurations in the real programs where there are real
//! programs, and read word by word where there are none.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use relayproof::telemetry::semconv::{self, span};
use serde_json::Value;

use crate::programs::{Backends, binaries, get, repository, tag};
use crate::runs::{self, Account, Run};

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

fn json(path: &str) -> Value {
    serde_json::from_str(&text(path)).unwrap()
}

fn yaml(path: &str) -> Value {
    serde_yaml::from_str(&text(path)).unwrap()
}

/// What Docker Compose would make of a folder's file, in a profile; `Err` with its reasons.
fn compose(bin: &Path, folder: &Path, profiles: &[&str]) -> Result<String, String> {
    let output = Command::new(bin.join("compose-check"))
        .arg(folder.join("docker-compose.yml"))
        .args(profiles)
        .env_remove("COMPOSE_PROFILES")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

#[test]
fn compose_reads_its_file_in_every_profile() {
    let Some(bin) = binaries(&["compose-check"]) else {
        return;
    };
    let said = compose(&bin, repository(), &["default", "jaeger", "tempo"]);
    assert_eq!(
        said.unwrap(),
        "\
default: jaeger otel-collector otel-collector-health owner
jaeger: jaeger otel-collector otel-collector-health owner
tempo: grafana otel-collector-tempo otel-collector-tempo-health owner prometheus tempo tempo-health
"
    );
}

/// The check above can fail: each of these mistakes is one that it is there for.
#[test]
fn compose_refuses_a_file_with_a_mistake() {
    let Some(bin) = binaries(&["compose-check"]) else {
        return;
    };
    let good = text("docker-compose.yml");
    for (right, wrong, said) in [
        (
            "\"127.0.0.1:16686:16686\"",
            "\"16686:16686\"",
            "not on loopback",
        ),
        ("jaeger:2.20.0", "jaeger:latest", "not pinned"),
        ("    healthcheck:\n", "    healthchek:\n", "healthchek"),
        ("./deploy/jaeger:", "./deploy/jager:", "deploy/jager"),
        ("profiles: [jaeger, tempo]", "profiles: [tempo]", "owner"),
        (
            "127.0.0.1:16686:16686",
            "127.0.0.1:4317:16686",
            "is that of",
        ),
        ("${DEPLOY_ENV:-local}", "${DEPLOY_ENV}", "DEPLOY_ENV"),
    ] {
        assert!(good.contains(right), "{right}");
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        put("docker-compose.yml", &good.replacen(right, wrong, 1));
        put(".env", &text(".env"));
        put("otel-collector.yaml", "");
        std::fs::create_dir_all(folder.path().join("deploy/jaeger")).unwrap();
        let refused = compose(&bin, folder.path(), &["jaeger"]).unwrap_err();
        assert!(refused.contains(said), "{wrong}: {refused}");
    }
}

/// Both shipped files at once in the real Collector: what Tempo would get over OTLP/gRPC goes to
/// whoever listens where `TEMPO_OTLP` points, and nothing to where Jaeger is supposed to be.
#[test]
fn the_overlay_for_tempo_sends_everything_there() {
    let Some(bin) = binaries(&["otelcol", "jaeger"]) else {
        return;
    };
    let _alone = runs::alone();
    let mut backends = Backends::none(&bin, 8);
    // The real Jaeger takes the same calls as Tempo does.
    backends.start_jaeger();
    let tempo = format!("{}:14317", backends.host);
    backends.send_to_tempo(&tempo);
    backends.start_collector();
    let dir = tempfile::tempdir().unwrap();
    let spec = repository().join("specs/recovering.yaml");
    let endpoint = backends.endpoint();
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let over = Run::start(&[spec], dir.path(), &env).finish();
    let Account {
        written,
        made,
        exported,
    } = over.account();
    assert_eq!(
        (written, exported),
        (made, made),
        "{}\n{}",
        over.out,
        over.err
    );
    for sample in &over.evidence()[0].samples {
        let found = backends.wait_for("the trace", || backends.look(&sample.trace_id));
        let root = |span: &&Value| span["operationName"] == "relay.sample";
        let id = tag(found.1.iter().find(root).unwrap(), "relay.sample.id");
        assert_eq!(id.as_deref(), Some(sample.id.as_str()));
    }
    let own = get(&backends.host, 8888, "/metrics").unwrap();
    let sent = |exporter: &str| own.contains(&format!("exporter=\"{exporter}\""));
    assert!(sent("otlp_grpc/tempo"), "{own}");
    assert!(!sent("otlp_grpc/jaeger"), "{own}");
}

/// The real Jaeger reads the user interface's configuration, and hands it to the page whole.
#[test]
fn jaeger_serves_the_configuration_of_its_user_interface() {
    let Some(bin) = binaries(&["jaeger"]) else {
        return;
    };
    let mut backends = Backends::none(&bin, 9);
    backends.start_jaeger();
    let page = get(&backends.host, 16686, "/search").unwrap();
    let config = page.lines().find_map(|line| {
        let config = line.trim().strip_prefix("JAEGER_CONFIG = ")?;
        serde_json::from_str::<Value>(config.strip_suffix(';')?).ok()
    });
    assert_eq!(
        config.as_ref(),
        Some(&json("deploy/jaeger/ui.json")),
        "{page}"
    );
}

/// A link from an attribute that no span has would never be seen.
#[test]
fn links_of_the_user_interface_start_at_attributes_that_exist() {
    let ui = json("deploy/jaeger/ui.json");
    let known = |name: &str| semconv::ALL.contains(&name) || name.starts_with("cicd.");
    for link in ui["linkPatterns"].as_array().unwrap() {
        let url = link["url"].as_str().unwrap();
        let used = url
            .split("#{")
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap());
        for name in used.chain(link["key"].as_str()) {
            assert!(known(name), "{name}");
        }
    }
    for prefix in ui["topTagPrefixes"].as_array().unwrap() {
        let prefix = prefix.as_str().unwrap();
        assert!(
            semconv::ALL.iter().any(|name| name.starts_with(prefix)),
            "{prefix}"
        );
    }
    let whole = text("deploy/jaeger/ui.json");
    for operation in whole.split("operation=").skip(1) {
        let name = operation.split('&').next().unwrap();
        assert!(span::ALL.contains(&name), "{name}");
    }
}

#[test]
fn the_configurations_of_tempo_grafana_and_prometheus_fit_each_other() {
    let tempo = yaml("deploy/tempo/tempo.yaml");
    let compose = yaml("docker-compose.yml");
    let grpc = &tempo["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"];
    assert_eq!(grpc, "0.0.0.0:4317");
    let collector = &compose["services"]["otel-collector-tempo"];
    assert_eq!(collector["environment"]["TEMPO_OTLP"], "tempo:4317");
    assert_eq!(tempo["server"]["http_listen_port"], 3200);
    for folder in ["wal", "local"] {
        let path = tempo["storage"]["trace"][folder]["path"].as_str().unwrap();
        assert!(path.starts_with("/var/tempo/"), "{path} is in the volume");
    }
    let scraped = yaml("deploy/prometheus/prometheus.yaml");
    assert_eq!(
        scraped["scrape_configs"][0]["static_configs"][0]["targets"][0],
        "otel-collector-tempo:8889"
    );
    let sources = yaml("deploy/grafana/provisioning/datasources/relayproof.yaml");
    let sources = sources["datasources"].as_array().unwrap();
    let found: Vec<_> = sources
        .iter()
        .map(|source| {
            (
                source["uid"].as_str().unwrap(),
                source["url"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("tempo", "http://tempo:3200"),
            ("prometheus", "http://prometheus:9090")
        ]
    );
    let boards = yaml("deploy/grafana/provisioning/dashboards/relayproof.yaml");
    let path = &boards["providers"][0]["options"]["path"];
    assert_eq!(path, "/etc/relayproof/dashboards");
    let mounts = compose["services"]["grafana"]["volumes"]
        .as_array()
        .unwrap();
    let mount = format!("./deploy/grafana/dashboards:{}:ro", path.as_str().unwrap());
    assert!(mounts.iter().any(|other| *other == mount.as_str()));
}

#[test]
fn the_dashboard_asks_for_what_is_there() {
    let board = json("deploy/grafana/dashboards/relayproof.json");
    let mut ids = BTreeSet::new();
    let mut asked = 0;
    for panel in board["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "each id once");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "tempo");
            let query = target["query"].as_str().unwrap();
            let sound = traceql(query);
            assert!(sound.is_ok(), "{query}: {sound:?}");
            let counts = query.contains("_over_time(");
            assert_eq!(target["metricsQueryType"] == "range", counts, "{query}");
            asked += 1;
        }
    }
    assert_eq!(asked, 9);
    for variable in board["templating"]["list"].as_array().unwrap() {
        let label = variable["query"]["label"].as_str().unwrap();
        assert!(semconv::ALL.contains(&label), "{label}");
    }
}

#[test]
fn the_queries_of_the_documentation_ask_for_what_is_there() {
    let page = text("docs/telemetry.md");
    let blocks: Vec<&str> = page
        .split("```traceql\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let queries: Vec<&str> = blocks
        .iter()
        .flat_map(|block| block.lines())
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect();
    assert!(queries.len() >= 6, "{queries:?}");
    for query in queries {
        let sound = traceql(query);
        assert!(sound.is_ok(), "{query}: {sound:?}");
    }
    assert!(
        traceql("{ span.relay.tftf > 1 }").is_err(),
        "no such attribute"
    );
    assert!(
        traceql("{ name=\"relay.smaple\" }").is_err(),
        "no such span"
    );
    assert!(traceql("{ name=\"POST\" ").is_err(), "never closed");
}

/// Whether a TraceQL query is closed where it is opened and names only what we emit.
///
/// Tempo's own parser is not to be had as a Go module, so this is not it: a query that passes can
/// still be refused by Tempo.
fn traceql(query: &str) -> Result<(), String> {
    const WORDS: &[&str] = &[
        "name",
        "status",
        "duration",
        "error",
        "ok",
        "unset",
        "nil",
        "true",
        "false",
        "select",
        "by",
        "rate",
        "count_over_time",
        "quantile_over_time",
        "event:name",
    ];
    let mut open = Vec::new();
    let mut rest = query;
    let mut before = String::new();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => 2 + rest[1..].find('"').ok_or("a text without an end")?,
            c if c.is_ascii_alphabetic() => rest
                .find(|c: char| !c.is_ascii_alphanumeric() && !"._:".contains(c))
                .unwrap_or(rest.len()),
            c if c.is_ascii_digit() || c == '.' => rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
                .unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        match first {
            '{' | '(' => open.push(first),
            '}' | ')' => {
                let opened = open.pop();
                if opened != Some(if first == '}' { '{' } else { '(' }) {
                    return Err(format!("{first} closes {opened:?}"));
                }
            }
            '"' => {
                let value = &word[1..word.len() - 1];
                let known = match before.as_str() {
                    "name" => span::ALL.contains(&value),
                    "event:name" => semconv::ALL.contains(&value),
                    _ => true,
                };
                if !known {
                    return Err(format!("{before} is never {value}"));
                }
            }
            c if c.is_ascii_alphabetic() => {
                let attribute = ["span.", "resource."]
                    .iter()
                    .find_map(|scope| word.strip_prefix(scope));
                match attribute {
                    Some(name) if semconv::ALL.contains(&name) => {}
                    None if WORDS.contains(&word) => {}
                    _ => return Err(format!("{word} is not known")),
                }
                before = word.to_owned();
            }
            c if c.is_ascii_digit() || " .&|=~!<>,".contains(c) => {}
            c => return Err(format!("{c} in a query")),
        }
        rest = after;
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("{open:?} is never closed"))
    }
}
