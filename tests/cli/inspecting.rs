//! `relayproof inspect`: one recorded sample, found in every way, and asked again by curl.

use relayproof::sim::{Fault, Planned, Settings};

use crate::place::{Place, Seen};
use crate::server::{Embedded, quick};

/// A run of two models; one call in four fails with 429 once and is tried again.
fn sampled() -> (Place, Embedded) {
    let embedded = Embedded::start(Settings {
        faults: vec![Planned {
            fault: Fault::Status {
                code: 429,
                recover_after: Some(1),
                retry_after_s: None,
            },
            share_ppm: 400_000,
        }],
        ..quick()
    });
    let place = Place::new();
    let text = format!(
        "relayproof: 1
relays:
  - name: r
    base_url: {}
    models: [m, n]
    headers: {{ X-Tenant: it's-secret }}
    retry: {{ backoff: 10ms }}
workloads:
  - name: w
    messages: [{{ role: user, content: \"It's {{{{nonce}}}}. End your answer with `{{{{seal}}}}`.\" }}]
sampling: {{ rate: 50/s, max_samples: 20, warmup: 1 }}
judge: {{ method: wilson }}
slos:
  - http_success >= 30%
  - {{ expect: ttft.p95 < 1us, severity: warn }}
otel: {{ trace_url: \"http://127.0.0.1:16686/trace/{{trace_id}}\" }}
",
        embedded.relay().base_url()
    )
    .replace("1us", "0.001ms");
    place.write("s.yaml", &text);
    place.run(&["run", "s.yaml", "--run-id", "one"]);
    (place, embedded)
}

/// The shell command at the end of what was printed.
fn curl(seen: &Seen) -> &str {
    seen.out.split_once("to repeat it:\n").unwrap().1
}

#[test]
fn a_sample_is_found_by_index_cell_id_and_trace_and_shows_its_retries() {
    let (place, _embedded) = sampled();
    let evidence = relayproof::evidence::read(
        &std::fs::read_dir(place.of_run("one"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.starts_with("r-m-w") && name.ends_with(".jsonl")
            })
            .unwrap(),
    )
    .unwrap();
    let sample = evidence
        .samples
        .iter()
        .find(|sample| sample.attempts.len() == 2 && !sample.warmup)
        .unwrap();
    let of_cell = format!("r/m/w#{}", sample.index);
    let seen = place.run(&["inspect", &of_cell]);
    seen.exits(0)
        .says(&format!("sample    {} of r/m/w", sample.index))
        .says("attempt 1 of 2: 429")
        .says("attempt 2 of 2, ")
        .says("waited    ")
        .says("outcome   http-error")
        .says("limit-or-key-status")
        .says("outcome   ok")
        .says("misses    ttft.p95 < 0.001ms: ")
        .says(&sample.trace_id);
    // No span went anywhere, so an address would lead to nothing.
    assert!(!seen.out.contains("http://127.0.0.1:16686"), "{seen}");
    for id in [&sample.id, &sample.trace_id] {
        for digits in [12, 32] {
            let found = place.run(&["inspect", &id[..digits], "--in", "one"]);
            assert_eq!(found.exits(0).out, seen.out);
        }
    }
    // Both cells have such a sample.
    place
        .run(&["inspect", &sample.index.to_string()])
        .exits(2)
        .complains("several samples are meant")
        .complains(&of_cell);
    place
        .run(&["inspect", "999999"])
        .exits(2)
        .complains("there is no sample `999999`");
    place
        .run(&["inspect", "?"])
        .exits(2)
        .complains("names no sample");
    place
        .run(&["inspect", "1", "--in", "two"])
        .exits(2)
        .complains("there is no run `two`");
    let document = place.run(&["inspect", &of_cell, "--format", "json"]);
    let document = document.exits(0).json();
    assert_eq!(document["trace_id"], sample.trace_id.as_str());
    assert_eq!(document["attempts"][0]["outcome"], "http-error");
    assert_eq!(
        document["attempts"][0]["look_at"]["party"],
        "concurrency-or-key"
    );
    // The waterfall fits; what is to be copied is not broken.
    for line in seen.out.split("to repeat it:").next().unwrap().lines() {
        let address = line.starts_with("trace ") || line.starts_with("file ");
        assert!(address || line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn the_curl_of_a_sample_asks_what_the_sample_asked() {
    let (place, embedded) = sampled();
    let seen = place.run(&["inspect", "r/n/w#3"]);
    seen.exits(0).says("$X_TENANT").says("It'\\''s ");
    assert!(!seen.out.contains("secret"), "{seen}");
    if std::process::Command::new("curl")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: no curl");
        return;
    }
    let bodies = || -> Vec<String> {
        let served = embedded.served();
        served.into_iter().map(|one| one.body_sha256).collect()
    };
    let before = bodies();
    let ran = std::process::Command::new("/bin/sh")
        .args(["-c", curl(&seen)])
        .env("X_TENANT", "qa")
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        ran.status.success() && answer.starts_with("HTTP/1.1 "),
        "{answer}"
    );
    let after = bodies();
    assert_eq!(after.len(), before.len() + 1);
    assert!(
        before.contains(after.last().unwrap()),
        "another body than any of the run"
    );
}

#[test]
fn a_spec_that_has_changed_leaves_a_gap_and_says_so() {
    let (place, _embedded) = sampled();
    let text = std::fs::read_to_string(place.path().join("s.yaml")).unwrap();
    place.write("s.yaml", &format!("{text}# changed\n"));
    place
        .run(&["inspect", "r/n/w#3"])
        .exits(0)
        .says("the spec s.yaml has changed since")
        .says("--data-raw '{ … }'");
    std::fs::remove_file(place.path().join("s.yaml")).unwrap();
    place
        .run(&["inspect", "r/n/w#3"])
        .exits(0)
        .says("cannot be read from here");
}
