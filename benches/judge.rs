//! What deciding costs: one sample taken by the judge of a cell, and files of evidence judged, small
//! and large.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench: a missing value is a broken one, and its figures are timed and printed"
)]

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use relayproof::evidence::{self, Evidence, Header, Sample};
use relayproof::stats::operating::n90;
use relayproof::stats::sequential::Design;
use relayproof::verdict::{Judge, judge, judge_file};
use serde_json::{Value, json};

/// Names the file that a process of its own is to judge, so that its peak is that of judging alone.
const ALONE: &str = "RELAYPROOF_BENCH_JUDGE";

/// Objectives of the cell; a decision of each is due after every sample.
const OBJECTIVES: usize = 6;
const SAMPLES: u64 = 10_000;

fn objective(text: &str, metric: &str, statistic: &Value, op: &str, bound: f64) -> Value {
    json!({
        "text": text, "metric": metric, "statistic": statistic, "op": op, "bound": bound,
        "confidence_ppm": null, "severity": "gate", "line": 1, "column": 1,
    })
}

fn header() -> Header {
    let p95 = json!({"Quantile": 950_000});
    let p05 = json!({"Quantile": 50_000});
    let rate = json!("Rate");
    let objectives = [
        objective("ttft.p95 < 1.5s", "ttft", &p95, "<", 1.5),
        objective("total.p95 < 9s", "total", &p95, "<", 9.0),
        objective("tps.p05 >= 20/s", "tps", &p05, ">=", 20.0),
        objective("jitter.p95 < 150ms", "jitter", &p95, "<", 0.15),
        objective(
            "parse_success >= 99.99%",
            "parse_success",
            &rate,
            ">=",
            0.9999,
        ),
        objective("interruption < 0.01%", "interruption", &rate, "<", 0.0001),
    ];
    assert_eq!(objectives.len(), OBJECTIVES);
    serde_json::from_value(json!({
        "schema": 1, "tool_version": "0", "run_id": "bench", "started_unix_ns": 1, "host": "h",
        "spec_name": "s", "spec_source": "s.yaml", "spec_sha256": "", "plan_digest": "",
        "cell_id": "c", "cell": "a/b/c", "relay": "a", "model": "b", "workload": "c",
        "base_url": "http://127.0.0.1/v1", "protocol": "openai-chat", "transport": "reqwest",
        "max_tokens": 128, "prompt": [],
        "sampling": {
            "seed": 1, "rate_per_s": 100.0, "max_samples": 1_000_000_000, "concurrency": 8,
            "warmup": 0, "max_tokens": null, "max_duration_us": null,
        },
        "judge": {
            "method": "sequential", "confidence_ppm": 950_000, "mode": "guard",
            "on_inconclusive": "fail", "stop": "all", "design_ratio": 5.0, "futility": false,
            "tokens": "usage",
        },
        "otel": {"trace_url": null, "ci_parent": false},
        "objectives": objectives,
    }))
    .expect("a header")
}

fn sample(index: u64) -> Sample {
    serde_json::from_value(json!({
        "id": format!("{index:016x}"), "index": index, "trace_id": format!("{index:032x}"),
        "t0_unix_ns": 1, "planned_us": 1, "lag_us": 1,
        "attempts": [{"start_us": 0, "observation": {
            "timeline": {
                "head_us": 100_000, "first_event_us": 120_000, "first_token_us": 120_000,
                "last_token_us": 520_000, "end_mark_us": 521_000, "over_us": 522_000,
            },
            "ending": "completed", "last_phase": "end", "parse_ok": true, "interrupted": false,
            "status": 200, "usage": {"output": 64},
            "packets": {
                "count": 64, "content_events": 64, "chars": 256, "first_chars": 4,
                "first_us": 120_000, "last_us": 520_000, "gap_mean_s": 0.0063, "gap_m2_s2": 0.0001,
                "longest": [{"at_us": 200_000, "length_us": 9_000, "packet": 9}],
            },
            "counts": {"body_bytes": 9000, "reads": 64, "events": 67},
            "connection": {"http_version": "1.1"},
        }}],
    }))
    .expect("a sample")
}

fn deciding(criterion: &mut Criterion) {
    let header = header();
    let samples: Vec<Sample> = (0..SAMPLES).map(sample).collect();
    let mut group = criterion.benchmark_group("judge");
    group.throughput(Throughput::Elements(SAMPLES * OBJECTIVES as u64));
    group.bench_function("decide, per objective and sample", |bench| {
        bench.iter_batched(
            || Judge::for_header(&header),
            |mut judge| {
                for sample in &samples {
                    judge.take(black_box(sample));
                    black_box(judge.is_decided());
                }
                judge
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn reading(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cell.jsonl");
    let mut writer = evidence::Writer::create(&path, &header()).expect("a file");
    for index in 0..SAMPLES {
        writer.sample(&sample(index)).expect("a line");
    }
    let mut group = criterion.benchmark_group("evidence");
    group.throughput(Throughput::Elements(SAMPLES));
    group.sample_size(10);
    group.bench_function("read and judge, per sample", |bench| {
        bench.iter(|| {
            let evidence: Evidence = evidence::read(&path).expect("evidence");
            black_box(judge(&evidence))
        });
    });
    group.finish();
}

fn planning(criterion: &mut Criterion) {
    let design = Design::new(0.999, 0.05, 0.05).expect("a design");
    criterion.bench_function("stats/n90 at 99.9%", |bench| {
        bench.iter(|| n90(black_box(&design)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = deciding, reading, planning
}

fn main() {
    if let Some(path) = env::var_os(ALONE) {
        alone(Path::new(&path));
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
    // `cargo test --benches` only wants to see that it runs.
    let sizes: &[u64] = if env::args().any(|argument| argument == "--test") {
        &[1000]
    } else {
        &[100_000, 1_000_000]
    };
    for &samples in sizes {
        whole_file(samples);
    }
}

/// Judges a file in a process of its own, which says how long it took and what it needed.
fn whole_file(samples: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cell.jsonl");
    let mut file = evidence::Writer::create(&path, &header()).expect("a file");
    let mut record = sample(0);
    let start = Instant::now();
    for index in 0..samples {
        record.index = index;
        record.id = format!("{index:032x}");
        file.sample(&record).expect("a line");
    }
    let written = start.elapsed();
    let size = path.metadata().expect("a size").len();
    println!(
        "a file of {samples} samples, {} MiB, written in {:.2} us a line; judging it:",
        size >> 20,
        written.as_secs_f64() * 1e6 / samples as f64,
    );
    let this = env::current_exe().expect("this program");
    let status = Command::new(this).env(ALONE, &path).status();
    assert!(status.expect("a process").success());
    let start = Instant::now();
    let checked = evidence::check(&path, 10).expect("evidence");
    assert!(checked.is_whole());
    let took = start.elapsed().as_secs_f64();
    println!(
        "  {took:.2} s to verify it, {:.2} us a line",
        took * 1e6 / samples as f64
    );
}

fn alone(path: &Path) {
    let start = Instant::now();
    let (evidence, summary) = judge_file(path).expect("evidence");
    let took = start.elapsed();
    println!(
        "  {:.2} s, {:.2} us a sample and objective; {} samples kept; {}",
        took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / summary.samples as f64 / OBJECTIVES as f64,
        evidence.samples.len(),
        peak().unwrap_or_else(|| "peak unknown".to_owned()),
    );
}

/// The most memory that this process ever had, where the system tells.
fn peak() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(format!("peak {:.1} MiB", kib as f64 / 1024.0))
}
