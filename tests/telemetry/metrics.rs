//! Metrics as a receiver gets them: names, units, kinds, buckets, attributes and values of known
//! samples; and what happens when they alone do not get through.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Exemplar, Metric, exemplar};
use relayproof::evidence::Attempt;
use relayproof::observation::Ending;
use relayproof::telemetry::semconv::metric::{Edition, Instrument, Kind};
use relayproof::telemetry::spans::{SampleOutcome, sample_context};
use relayproof::telemetry::{Exported, SuiteStatus, Telemetry, file};
use relayproof::verdict::{Decision, Inconclusive, Verdict};

use crate::make::{self, T0, us};
use crate::receiver::{Mode, Receiver, text};

const BUDGET: Duration = Duration::from_secs(5);

/// One data point, whatever its kind.
#[derive(Clone, Debug)]
struct Point {
    labels: BTreeMap<String, String>,
    /// Of a histogram and a counter.
    count: u64,
    /// Of a histogram and a gauge.
    sum: f64,
    buckets: Vec<u64>,
    exemplars: Vec<Exemplar>,
    start: u64,
    time: u64,
}

fn all(report: &ExportMetricsServiceRequest) -> Vec<Metric> {
    report
        .resource_metrics
        .iter()
        .flat_map(|resource| &resource.scope_metrics)
        .flat_map(|scope| scope.metrics.iter().cloned())
        .collect()
}

fn points(report: &ExportMetricsServiceRequest, name: &str) -> Vec<Point> {
    let labels = |attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue]| {
        attributes
            .iter()
            .map(|pair| (pair.key.clone(), text(attributes, &pair.key).unwrap()))
            .collect()
    };
    let mut found = Vec::new();
    for metric in all(report).into_iter().filter(|metric| metric.name == name) {
        match metric.data.unwrap() {
            Data::Histogram(histogram) => {
                found.extend(histogram.data_points.iter().map(|point| Point {
                    labels: labels(&point.attributes),
                    count: point.count,
                    sum: point.sum.unwrap(),
                    buckets: point.bucket_counts.clone(),
                    exemplars: point.exemplars.clone(),
                    start: point.start_time_unix_nano,
                    time: point.time_unix_nano,
                }));
            }
            Data::Sum(sum) => found.extend(sum.data_points.iter().map(|point| Point {
                labels: labels(&point.attributes),
                count: match point.value.unwrap() {
                    Value::AsInt(count) => u64::try_from(count).unwrap(),
                    Value::AsDouble(_) => panic!("a count that is no whole number"),
                },
                sum: 0.0,
                buckets: Vec::new(),
                exemplars: point.exemplars.clone(),
                start: point.start_time_unix_nano,
                time: point.time_unix_nano,
            })),
            Data::Gauge(gauge) => found.extend(gauge.data_points.iter().map(|point| Point {
                labels: labels(&point.attributes),
                count: 1,
                sum: match point.value.unwrap() {
                    Value::AsDouble(value) => value,
                    Value::AsInt(_) => panic!("a gauge of whole numbers"),
                },
                buckets: Vec::new(),
                exemplars: Vec::new(),
                start: 0,
                time: point.time_unix_nano,
            })),
            other => panic!("{other:?}"),
        }
    }
    found
}

/// The points of one metric whose labels include these.
fn with(report: &ExportMetricsServiceRequest, name: &str, labels: &[(&str, &str)]) -> Vec<Point> {
    points(report, name)
        .into_iter()
        .filter(|point| {
            labels
                .iter()
                .all(|(key, value)| point.labels.get(*key).is_some_and(|v| v == value))
        })
        .collect()
}

fn only(report: &ExportMetricsServiceRequest, name: &str, labels: &[(&str, &str)]) -> Point {
    let [point] = with(report, name, labels)
        .try_into()
        .unwrap_or_else(|found| {
            panic!("{name} {labels:?}: {found:#?}");
        });
    point
}

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-9, "{left} is not {right}");
}

/// Three good samples, one slow, one that died, one warm-up, one called off, and verdicts.
fn play(telemetry: Telemetry) -> Exported {
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    for index in 0..3 {
        let good = make::facts(SampleOutcome::Good);
        case.sample(&make::sample(index, make::whole()), &good);
    }
    // Refused first, whole on the second try, and slow.
    let mut slow = make::sample(3, make::refused());
    slow.attempts.push(Attempt {
        start: us(200_000),
        ..make::attempt(0, make::whole())
    });
    case.sample(&slow, &make::facts(SampleOutcome::Slow));
    let mut cut = make::facts(SampleOutcome::Error);
    cut.tps = None;
    case.sample(&make::sample(4, make::cut()), &cut);
    let mut warmup = make::sample(5, make::whole());
    warmup.warmup = true;
    case.sample(&warmup, &make::facts(SampleOutcome::Excluded));
    let mut off = make::cut();
    off.ending = Ending::Cancelled;
    case.sample(&make::sample(6, off), &make::facts(SampleOutcome::Excluded));
    case.finish(&[make::violated()], T0);
    suite.finish(SuiteStatus::Failure);
    telemetry.finish(BUDGET)
}

/// The only report of such a run.
fn report(env: &[(&str, &str)]) -> ExportMetricsServiceRequest {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let mut env = env.to_vec();
    env.push(("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint));
    let account = play(crate::start(folder.path(), &env));
    assert_eq!(account.warnings, Vec::<String>::new());
    let seen = receiver.seen();
    let [report] = seen.reports.as_slice() else {
        panic!("{} reports", seen.reports.len());
    };
    let sent: usize = Instrument::ALL
        .iter()
        .flat_map(|instrument| [instrument.row().released, instrument.row().latest])
        .flatten()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|name| points(report, name).len())
        .sum();
    assert_eq!(account.metrics.made, sent as u64);
    assert_eq!(account.metrics.exported, account.metrics.made);
    assert_eq!((account.metrics.failed, account.metrics.dropped), (0, 0));
    report.clone()
}

#[test]
fn names_units_kinds_and_buckets_are_those_of_the_table() {
    for (edition, opt_in) in [
        (Edition::Released, "http, database/dup"),
        (Edition::Latest, "http,gen_ai_latest_experimental"),
    ] {
        let report = report(&[("OTEL_SEMCONV_STABILITY_OPT_IN", opt_in)]);
        let mut expected: BTreeMap<_, _> = Instrument::ALL
            .iter()
            .filter_map(|instrument| Some((instrument.row().name(edition)?, instrument.row())))
            .collect();
        for metric in all(&report) {
            let row = expected
                .remove(metric.name.as_str())
                .unwrap_or_else(|| panic!("{} is not in the table", metric.name));
            assert_eq!(metric.unit, row.unit, "{}", metric.name);
            assert_eq!(metric.description, row.description);
            let cumulative = AggregationTemporality::Cumulative as i32;
            match (row.kind, metric.data.unwrap()) {
                (Kind::Histogram(bounds), Data::Histogram(histogram)) => {
                    assert_eq!(histogram.aggregation_temporality, cumulative);
                    for point in histogram.data_points {
                        assert_eq!(point.explicit_bounds, bounds, "{}", metric.name);
                        let buckets = point.bucket_counts.len();
                        let expected = if bounds.is_empty() {
                            0
                        } else {
                            bounds.len() + 1
                        };
                        assert_eq!(buckets, expected, "{}", metric.name);
                    }
                }
                (Kind::Counter, Data::Sum(sum)) => {
                    assert_eq!(sum.aggregation_temporality, cumulative);
                    assert!(sum.is_monotonic);
                }
                (Kind::Gauge, Data::Gauge(_)) => {}
                (kind, data) => panic!("{} is {kind:?} and came as {data:?}", metric.name),
            }
        }
        assert!(expected.is_empty(), "not reported: {expected:?}");
    }
}

#[test]
fn the_buckets_of_the_conventions_are_theirs() {
    let gen_ai = Instrument::GenAiDuration.row().bounds();
    assert_eq!(gen_ai.len(), 14);
    assert!(
        gen_ai
            .windows(2)
            .all(|pair| (pair[1] / pair[0] - 2.0).abs() < 1e-9)
    );
    assert_eq!((gen_ai[0], gen_ai[13]), (0.01, 81.92));
    let tokens = Instrument::GenAiTokens.row().bounds();
    assert!(tokens.windows(2).all(|pair| pair[1] / pair[0] == 4.0));
    assert_eq!((tokens[0], tokens[13]), (1.0, 67_108_864.0));
    assert_eq!(
        Instrument::HttpDuration.row().bounds(),
        [
            0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0
        ]
    );
    for instrument in Instrument::ALL {
        let bounds = instrument.row().bounds();
        assert!(
            bounds.windows(2).all(|pair| pair[0] < pair[1]),
            "{instrument:?}"
        );
    }
}

#[test]
fn known_samples_give_known_values_in_the_words_of_the_conventions() {
    let report = report(&[]);
    let duration = points(&report, "gen_ai.client.operation.duration");
    let (failed, whole): (Vec<_>, Vec<_>) = duration
        .into_iter()
        .partition(|point| point.labels.contains_key("error.type"));
    // Three good ones, the warm-up, and the slow one, whose second attempt began at 0.2 s; the
    // one that was called off has no length.
    assert_eq!((whole.len(), whole[0].count), (1, 5));
    assert_near(whole[0].sum, 4.0 * 1.9155 + 2.1155);
    assert_eq!(whole[0].buckets[8], 5, "between 1.28 and 2.56 s");
    let labels = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m-small"),
        ("gen_ai.response.model", "m-small-2025"),
        ("server.address", "relay.example"),
        ("server.port", "8443"),
    ];
    let labels: BTreeMap<_, _> = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(whole[0].labels, labels);
    assert_eq!((failed.len(), failed[0].count), (1, 1));
    assert_near(failed[0].sum, 0.95);
    assert_eq!(failed[0].labels["error.type"], "malformed-json");

    let first = only(&report, "gen_ai.client.operation.time_to_first_chunk", &[]);
    assert_eq!((first.count, &first.labels), (6, &labels));
    assert_near(first.sum, 5.0 * 0.1461 + 0.3461);

    // 64 chunks have 63 times between them, from the first to the last: exact, and no buckets.
    let between = only(
        &report,
        "gen_ai.client.operation.time_per_output_chunk",
        &[],
    );
    assert_eq!((between.count, &between.labels), (6 * 63, &labels));
    assert_near(between.sum, 5.0 * 1.6 + (0.9 - 0.312_347));
    assert!(between.exemplars.is_empty());

    for (kind, tokens) in [("input", 20.0), ("output", 64.0)] {
        let usage = only(
            &report,
            "gen_ai.client.token.usage",
            &[("gen_ai.token.type", kind)],
        );
        assert_eq!(usage.count, 6);
        assert_near(usage.sum, 6.0 * tokens);
    }
}

#[test]
fn every_attempt_and_every_phase_that_ended_is_counted() {
    let report = report(&[]);
    let http = "http.client.request.duration";
    let answered: Vec<_> = points(&report, http)
        .into_iter()
        .filter(|point| !point.labels.contains_key("error.type"))
        .collect();
    assert_eq!((answered.len(), answered[0].count), (1, 5));
    assert_near(answered[0].sum, 5.0 * 1.9155);
    let labels = [
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("server.address", "relay.example"),
        ("server.port", "8443"),
    ];
    let labels: BTreeMap<_, _> = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(answered[0].labels, labels);
    let refused = only(&report, http, &[("error.type", "503")]);
    assert_eq!(refused.labels["http.response.status_code"], "503");
    assert_eq!(refused.count, 1);
    assert_near(refused.sum, 0.01);
    let died = only(&report, http, &[("error.type", "malformed-json")]);
    assert_eq!(died.labels["http.response.status_code"], "200");

    for (phase, count, sum) in [
        ("dns", 7, 7.0 * 0.005),
        ("connect", 7, 7.0 * 0.012),
        ("tunnel", 7, 7.0 * 0.003),
        ("tls", 7, 7.0 * 0.025),
        ("send", 8, 8.0 * 0.0002),
        ("wait", 8, 7.0 * 0.1 + 0.0087),
        ("head", 8, 8.0 * 0.0001),
        ("first_token", 7, 7.0 * 0.166_947),
        // Two streams died, and their last phase has no end.
        ("stream", 5, 5.0 * 1.6),
        ("end", 5, 5.0 * 0.002_654),
    ] {
        let point = only(&report, "relay.phase.duration", &[("relay.phase", phase)]);
        assert_eq!(point.count, count, "{phase}");
        assert_near(point.sum, sum);
        assert_eq!(point.labels["relay.name"], "acme");
        assert_eq!(point.labels.len(), 2);
    }
    assert_eq!(
        with(&report, "relay.phase.duration", &[("relay.phase", "pool")]).len(),
        0
    );
    let dns = only(&report, "dns.lookup.duration", &[]);
    assert_eq!(dns.labels["dns.question.name"], "relay.example");
    assert_eq!(dns.count, 7);
}

#[test]
fn samples_that_count_are_measured_by_their_first_attempt() {
    let report = report(&[]);
    let labels = [
        ("gen_ai.request.model", "m-small"),
        ("relay.name", "acme"),
        ("relay.spec", "chat"),
    ];
    let labels: BTreeMap<_, _> = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    for (name, count, sum) in [
        // The slow one's first attempt was refused; the warm-up does not count.
        ("relay.ttft", 4, 4.0 * 0.312_347),
        ("relay.itl", 4, 4.0 * 0.027),
        ("relay.tps", 4, 4.0 * 39.4),
    ] {
        let point = only(&report, name, &[]);
        assert_eq!((point.count, &point.labels), (count, &labels), "{name}");
        assert_near(point.sum, sum);
    }
    for (outcome, why, count) in [
        ("good", None, 3),
        ("slow", Some("slo_breach"), 1),
        ("error", Some("malformed-json"), 1),
        ("excluded", None, 2),
    ] {
        let point = only(
            &report,
            "relay.samples",
            &[("relay.sample.outcome", outcome)],
        );
        assert_eq!(point.count, count, "{outcome}");
        assert_eq!(point.labels.get("error.type").map(String::as_str), why);
    }
}

#[test]
fn verdicts_are_gauges_and_an_open_one_neither_passes_nor_fails() {
    let report = report(&[]);
    for (name, value) in [
        ("relay.slo.observed", 1.81),
        ("relay.slo.bound", 1.5),
        ("relay.slo.passed", 0.0),
    ] {
        let point = only(&report, name, &[]);
        assert_near(point.sum, value);
        assert_eq!(point.labels["relay.slo.id"], "ttft.p95 < 1.5s");
        assert_eq!(point.labels["test.case.name"], "acme/m-small/short");
        assert_eq!(point.labels.len(), 4);
    }
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let telemetry = crate::start(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    let suite = telemetry.suite(&crate::suite());
    let open = Verdict {
        decision: Decision::Inconclusive(Inconclusive::Budget),
        observed: None,
        ..make::violated()
    };
    suite.case(&make::header()).finish(&[open], T0);
    drop(suite);
    telemetry.finish(BUDGET);
    let seen = receiver.seen();
    let report = &seen.reports[0];
    assert_eq!(points(report, "relay.slo.bound").len(), 1);
    assert_eq!(points(report, "relay.slo.observed").len(), 0);
    assert_eq!(points(report, "relay.slo.passed").len(), 0);
}

#[test]
fn the_last_report_knows_what_became_of_the_spans() {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let account = play(crate::start(
        folder.path(),
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)],
    ));
    let seen = receiver.seen();
    let spans = only(seen.reports.last().unwrap(), "relay.evidence.spans", &[]);
    assert_eq!(spans.labels["relay.evidence.result"], "exported");
    assert_eq!(spans.count, account.spans.made);
}

#[test]
fn exemplars_lead_to_the_samples_that_tell_most() {
    let report = report(&[]);
    let ttft = only(&report, "relay.ttft", &[]);
    let [exemplar] = ttft.exemplars.as_slice() else {
        panic!("{:#?}", ttft.exemplars);
    };
    // Of four values in one bucket the one whose stream died.
    let sample = make::sample(4, make::cut());
    let context = sample_context(&sample);
    assert_eq!(exemplar.trace_id, context.trace_id().to_bytes());
    assert_eq!(exemplar.span_id, context.span_id().to_bytes());
    assert_eq!(exemplar.time_unix_nano, sample.t0_unix_ns + 950_000_000);
    assert_eq!(exemplar.value, Some(exemplar::Value::AsDouble(0.312_347)));
    let slow = only(
        &report,
        "relay.samples",
        &[("relay.sample.outcome", "slow")],
    );
    let context = sample_context(&make::sample(3, make::whole()));
    assert_eq!(slow.exemplars[0].trace_id, context.trace_id().to_bytes());

    let off = self::report(&[("OTEL_METRICS_EXEMPLAR_FILTER", "always_off")]);
    for instrument in Instrument::ALL {
        if let Some(name) = instrument.row().released {
            assert!(
                points(&off, name)
                    .iter()
                    .all(|point| point.exemplars.is_empty())
            );
        }
    }
}

#[test]
fn no_run_sample_or_trace_is_an_attribute() {
    let report = report(&[]);
    let known = [
        "dns.question.name",
        "error.type",
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.token.type",
        "http.request.method",
        "http.response.status_code",
        "relay.evidence.result",
        "relay.name",
        "relay.phase",
        "relay.sample.outcome",
        "relay.slo.id",
        "relay.spec",
        "server.address",
        "server.port",
        "test.case.name",
    ];
    let found: BTreeSet<_> = Instrument::ALL
        .iter()
        .filter_map(|instrument| instrument.row().released)
        .flat_map(|name| points(&report, name))
        .flat_map(|point| point.labels.into_keys())
        .collect();
    let found: Vec<_> = found.iter().map(String::as_str).collect();
    assert_eq!(found, known);
}

/// A relay that answers under a new name and with a new status each time.
#[test]
fn what_a_relay_decides_on_makes_few_series() {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "50"),
    ];
    let telemetry = crate::start(folder.path(), &env);
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    for index in 0..900_u16 {
        let mut seen = make::refused();
        seen.status = Some(100 + index);
        seen.model = Some(format!("m-{index}-{}", "x".repeat(2_000)));
        let facts = make::facts(SampleOutcome::Error);
        case.sample(&make::sample(index.into(), seen), &facts);
    }
    // A busy machine may need longer to draw them than the end of a run may take.
    let total = |report: &ExportMetricsServiceRequest| {
        let points = points(report, "relay.samples");
        points.iter().map(|point| point.count).sum::<u64>()
    };
    let start = Instant::now();
    while receiver
        .seen()
        .reports
        .last()
        .is_none_or(|report| total(report) < 900)
    {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    drop(case);
    drop(suite);
    telemetry.finish(BUDGET);
    let seen = receiver.seen();
    let report = seen.reports.last().unwrap();
    for (name, most) in [
        ("http.client.request.duration", 90),
        ("gen_ai.client.operation.duration", 256),
        ("relay.samples", 90),
    ] {
        let points = points(report, name);
        assert!(points.len() <= most, "{} series of {name}", points.len());
        let count: u64 = points.iter().map(|point| point.count).sum();
        assert_eq!(count, 900, "none is lost");
    }
    let models: BTreeSet<_> = points(report, "gen_ai.client.operation.duration")
        .into_iter()
        .filter_map(|point| point.labels.get("gen_ai.response.model").cloned())
        .collect();
    assert!(models.len() <= 9, "{} models", models.len());
    assert!(models.contains("_OTHER"));
    assert!(models.iter().all(|model| model.len() <= 256));
    let others = with(
        report,
        "http.client.request.duration",
        &[("error.type", "_OTHER")],
    );
    assert!(
        others
            .iter()
            .all(|point| !point.labels.contains_key("http.response.status_code"))
    );
}

/// Waits until so many reports have arrived.
fn wait_for(receiver: &Receiver, reports: usize) {
    let start = Instant::now();
    while receiver.seen().reports.len() < reports {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

/// Samples, with a report between any two of them at least.
fn reports_over_time(env: &[(&str, &str)]) -> (Exported, Vec<ExportMetricsServiceRequest>) {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let mut env = env.to_vec();
    env.extend([
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", ""),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "20"),
    ]);
    let telemetry = crate::start(folder.path(), &env);
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    for index in 0..3 {
        let good = make::facts(SampleOutcome::Good);
        case.sample(&make::sample(index, make::whole()), &good);
        let before = receiver.seen().reports.len();
        wait_for(&receiver, before + 1);
    }
    drop(case);
    suite.finish(SuiteStatus::Success);
    let account = telemetry.finish(BUDGET);
    assert_eq!(account.warnings, Vec::<String>::new());
    let reports = receiver.seen().reports.clone();
    (account, reports)
}

#[test]
fn reports_come_while_the_run_lasts_and_say_everything_so_far() {
    let (account, reports) = reports_over_time(&[]);
    assert!(reports.len() >= 3);
    let good = [("relay.sample.outcome", "good")];
    let points: Vec<_> = reports
        .iter()
        .flat_map(|report| with(report, "relay.samples", &good))
        .collect();
    assert!(points.windows(2).all(|pair| pair[0].count <= pair[1].count));
    assert!(points.windows(2).all(|pair| pair[0].start == pair[1].start));
    assert!(points.windows(2).all(|pair| pair[0].time < pair[1].time));
    assert_eq!(points.last().unwrap().count, 3);
    assert_eq!(account.metrics.made, account.metrics.exported);
}

#[test]
fn deltas_follow_each_other_without_a_gap_and_add_up() {
    for preference in ["delta", "LowMemory"] {
        let (_, reports) = reports_over_time(&[(
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            preference,
        )]);
        for report in &reports {
            for metric in all(report) {
                let temporality = match metric.data.unwrap() {
                    Data::Histogram(histogram) => histogram.aggregation_temporality,
                    Data::Sum(sum) => sum.aggregation_temporality,
                    Data::Gauge(_) => continue,
                    other => panic!("{other:?}"),
                };
                assert_eq!(temporality, AggregationTemporality::Delta as i32);
            }
        }
        let ttft: Vec<_> = reports
            .iter()
            .flat_map(|report| points(report, "relay.ttft"))
            .collect();
        assert!(ttft.len() > 1, "{preference}");
        assert_eq!(ttft.iter().map(|point| point.count).sum::<u64>(), 3);
        assert_eq!(
            ttft.iter()
                .map(|point| point.buckets.iter().sum::<u64>())
                .sum::<u64>(),
            3
        );
        assert_near(ttft.iter().map(|point| point.sum).sum(), 3.0 * 0.312_347);
        assert!(ttft.windows(2).all(|pair| pair[0].time <= pair[1].start));
        assert!(ttft.iter().all(|point| point.start < point.time));
    }
}

#[test]
fn reports_that_did_not_arrive_are_made_good_by_a_later_one() {
    let receiver = Receiver::start(Mode::Recover(2));
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint() + "/v1/metrics";
    let telemetry = crate::start(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &endpoint),
            ("OTEL_METRIC_EXPORT_INTERVAL", "10"),
            // Shorter than the pause before the next try: such a report is given up.
            ("OTEL_METRIC_EXPORT_TIMEOUT", "20"),
        ],
    );
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    let good = make::facts(SampleOutcome::Good);
    case.sample(&make::sample(0, make::whole()), &good);
    wait_for(&receiver, 1);
    case.sample(&make::sample(1, make::whole()), &good);
    drop(case);
    drop(suite);
    let account = telemetry.finish(BUDGET);
    assert_eq!(account.warnings, Vec::<String>::new());
    assert!(account.metrics.failed > 0, "{:?}", account.metrics);
    let seen = receiver.seen();
    let samples = only(seen.reports.last().unwrap(), "relay.samples", &[]);
    assert_eq!(samples.count, 2);
}

/// Metrics alone go to an endpoint that does not take them.
fn metrics_fail(endpoint: &str, reason: &str) {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let general = receiver.endpoint();
    let telemetry = crate::start(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &general),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint),
        ],
    );
    let start = Instant::now();
    let account = play(telemetry);
    // Five seconds and what a busy machine adds.
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(account.spans.exported, account.spans.made);
    assert_eq!(account.written, account.spans.made);
    assert_eq!(account.metrics.exported, 0);
    assert_eq!(account.metrics.failed, account.metrics.made);
    assert!(account.metrics.made > 0);
    let [warning] = account.warnings.as_slice() else {
        panic!("{:?}", account.warnings);
    };
    assert_eq!(
        *warning,
        format!("the last report of metrics was not taken ({reason})")
    );
    assert!(!account.to_string().contains("metrics"));
}

#[test]
fn metrics_that_are_refused_change_nothing_else() {
    for status in [400, 404, 503] {
        let receiver = Receiver::start(Mode::Status(status));
        metrics_fail(&receiver.endpoint(), &format!("HTTP status {status}"));
        assert!(receiver.seen().heads.len() == 1, "tried once");
    }
}

#[test]
fn metrics_without_a_collector_change_nothing_else() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    metrics_fail(&endpoint, "connection refused");
}

#[test]
fn a_collector_that_never_answers_about_metrics_holds_nothing_else_up() {
    let receiver = Receiver::start(Mode::Hang);
    metrics_fail(&receiver.endpoint(), "the time was too short");
}

#[test]
fn data_points_that_are_refused_are_counted_and_said() {
    let receiver = Receiver::start(Mode::Refuse(7));
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let account = play(crate::start(
        folder.path(),
        &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &endpoint)],
    ));
    assert_eq!(account.metrics.failed, 7);
    assert_eq!(account.metrics.exported, account.metrics.made - 7);
    assert_eq!(
        account.warnings,
        ["the last report of metrics was not taken (the other side refused some)"]
    );
}

#[test]
fn an_answer_that_is_no_otlp_is_taken_as_yes() {
    let receiver = Receiver::start(Mode::Garbage);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let account = play(crate::start(
        folder.path(),
        &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &endpoint)],
    ));
    assert_eq!(account.metrics.exported, account.metrics.made);
    assert_eq!(account.warnings, Vec::<String>::new());
}

#[test]
fn spans_that_hang_do_not_take_the_metrics_with_them() {
    let spans = Receiver::start(Mode::Hang);
    let metrics = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let (traces, reports) = (spans.endpoint(), metrics.endpoint() + "/v1/metrics");
    let account = play(crate::start(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &traces),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &reports),
        ],
    ));
    assert_eq!(account.metrics.exported, account.metrics.made);
    let seen = metrics.seen();
    assert_eq!(points(&seen.reports[0], "relay.ttft").len(), 1);
}

#[test]
fn nobody_asks_for_metrics_and_none_are_made() {
    for env in [
        vec![("OTEL_METRICS_EXPORTER", "none")],
        vec![("OTEL_SDK_DISABLED", "true")],
        vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
    ] {
        let receiver = Receiver::start(Mode::Ok);
        let folder = tempfile::tempdir().unwrap();
        let endpoint = receiver.endpoint();
        let mut all = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
        all.retain(|(name, _)| env.iter().all(|(other, _)| name != other));
        all.extend(env);
        let account = play(crate::start(folder.path(), &all));
        assert_eq!(account.metrics, relayproof::telemetry::Sent::default());
        assert_eq!(receiver.seen().requests("/v1/metrics"), 0);
    }
}

#[test]
fn what_cannot_be_read_is_said_and_the_default_is_taken() {
    let cases = [
        ("OTEL_METRIC_EXPORT_INTERVAL", "10s", "milliseconds"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "0", "30000 is assumed"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "both",
            "cumulative, delta, lowmemory",
        ),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "some", "always_off"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "base2_exponential_bucket_histogram",
            "not honoured",
        ),
    ];
    for (name, value, said) in cases {
        let receiver = Receiver::start(Mode::Ok);
        let folder = tempfile::tempdir().unwrap();
        let endpoint = receiver.endpoint();
        let env = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            (name, value),
        ];
        let account = play(crate::start(folder.path(), &env));
        let [warning] = account.warnings.as_slice() else {
            panic!("{name}: {:?}", account.warnings);
        };
        assert!(
            warning.contains(said) && warning.contains(name),
            "{warning}"
        );
        assert_eq!(receiver.seen().reports.len(), 1);
    }
}

/// Tokens in every variable of a pipeline that may hold one, and in baggage.
#[test]
fn tokens_of_the_environment_are_in_no_exported_byte() {
    const CANARY: &str = "canary5f1d0c";
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let with_user =
        |host: &str| format!("https://ci-token:{CANARY}@{host}/team/app.git?t={CANARY}#{CANARY}");
    let gitlab = with_user("gitlab.example");
    let jenkins = with_user("jenkins.example");
    let baggage = format!(
        "cicd.run=7,user.id={CANARY},test.token={CANARY},test.url=https://{CANARY}@host/,\
         test.key=sk-{CANARY},vcs.note=Bearer%20{CANARY}"
    );
    let headers = format!("authorization=Bearer {CANARY}");
    for pipeline in [
        vec![
            ("GITLAB_CI", "true"),
            ("CI_PIPELINE_URL", &gitlab),
            ("CI_JOB_URL", &gitlab),
            ("CI_PROJECT_URL", &gitlab),
            ("CI_REPOSITORY_URL", &gitlab),
            ("CI_JOB_TOKEN", CANARY),
        ],
        vec![
            ("JENKINS_URL", jenkins.as_str()),
            ("BUILD_URL", &jenkins),
            ("GIT_URL", &jenkins),
        ],
        vec![
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_TOKEN", CANARY),
            ("GITHUB_SERVER_URL", &jenkins),
            ("GITHUB_REPOSITORY", "team/app"),
            ("GITHUB_RUN_ID", "1"),
        ],
    ] {
        let mut env = pipeline;
        env.extend([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
            ("BAGGAGE", &baggage),
        ]);
        let account = play(crate::start(folder.path(), &env));
        assert!(!format!("{account:?}").contains(CANARY));
    }
    let kept = std::fs::read(folder.path().join(file::NAME)).unwrap();
    let seen = receiver.seen();
    assert_eq!(seen.reports.len(), 3);
    for body in seen.bodies.iter().chain([&kept]) {
        assert!(
            !body
                .windows(CANARY.len())
                .any(|part| part == CANARY.as_bytes())
        );
    }
    let suite = receiver_suite(&seen.traces);
    assert_eq!(text(&suite, "relay.baggage.cicd.run").as_deref(), Some("7"));
    let baggage = suite
        .iter()
        .filter(|pair| pair.key.starts_with("relay.baggage"));
    assert_eq!(baggage.count(), 1);
}

fn receiver_suite(
    traces: &[opentelemetry_proto::tonic::trace::v1::ResourceSpans],
) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    let mut spans = crate::receiver::spans(traces).into_iter();
    spans
        .find(|span| span.name == "relay.suite")
        .unwrap()
        .attributes
}

#[test]
fn the_pipeline_is_on_the_resource_of_every_signal_and_the_users_word_wins() {
    let receiver = Receiver::start(Mode::Ok);
    let folder = tempfile::tempdir().unwrap();
    let endpoint = receiver.endpoint();
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_WORKFLOW", "acceptance"),
        ("GITHUB_JOB", "relays"),
        ("OTEL_RESOURCE_ATTRIBUTES", "cicd.pipeline.task.name=mine"),
        ("RELAYPROOF_BAGGAGE_KEYS", "team"),
        ("BAGGAGE", "team=gateways%20eu;prop=1,other=2"),
    ];
    play(crate::start(folder.path(), &env));
    let seen = receiver.seen();
    let metrics = &seen.reports[0].resource_metrics[0];
    let spans = &seen.traces[0];
    for resource in [&metrics.resource, &spans.resource] {
        let attributes = &resource.as_ref().unwrap().attributes;
        for (name, value) in [
            ("cicd.pipeline.name", "acceptance"),
            ("cicd.pipeline.task.name", "mine"),
            ("vcs.provider.name", "github"),
            ("service.name", "relayproof"),
            ("relay.run.id", "20251124T160000Z-4f2a"),
        ] {
            assert_eq!(text(attributes, name).as_deref(), Some(value), "{name}");
        }
    }
    assert_eq!(
        metrics.scope_metrics[0].scope.as_ref().unwrap().name,
        "relayproof"
    );
    let suite = receiver_suite(&seen.traces);
    assert_eq!(
        text(&suite, "relay.baggage.team").as_deref(),
        Some("gateways eu")
    );
    assert_eq!(text(&suite, "relay.baggage.other"), None);
}

/// The documentation's tables are the table of the code.
#[test]
fn every_metric_is_in_the_documentation_with_its_kind_and_unit() {
    let docs = include_str!("../../docs/telemetry.md");
    let section = docs.split("\n## Metrics\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut rows: BTreeMap<_, _> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .collect();
    for instrument in Instrument::ALL {
        let row = instrument.row();
        let kind = match row.kind {
            Kind::Histogram(_) => "histogram",
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let unit = match row.unit {
            "" => String::new(),
            unit => format!("`{unit}`"),
        };
        for name in BTreeSet::from([row.released, row.latest])
            .into_iter()
            .flatten()
        {
            let rest = rows
                .remove(name)
                .unwrap_or_else(|| panic!("{name} is missing"));
            assert!(
                rest.starts_with(&format!("{kind} | {unit} |")),
                "{name}: {rest}"
            );
            let described = row.released != Some(name) || rest.contains(row.description);
            assert!(described, "{name}: {rest}");
        }
    }
    rows.remove("with `gen_ai_latest_experimental");
    assert!(rows.is_empty(), "not emitted: {rows:?}");
}
