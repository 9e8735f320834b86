//! Sums, buckets, bounds on series, what a delta says, which samples are kept.

use super::*;

fn store() -> Store {
    Store::new(Edition::Released, true)
}

fn relay(name: &str) -> Labels {
    Labels::default().with("relay.name", name)
}

fn origin(number: u8, failing: bool) -> Option<Origin> {
    Some(Origin {
        trace_id: [number; 16],
        span_id: [number; 8],
        unix_ns: number.into(),
        failing,
    })
}

/// The points of one metric.
fn points(store: &mut Store, instrument: Instrument, delta: bool) -> Vec<(Amount, Vec<f64>)> {
    store
        .report(delta)
        .into_iter()
        .filter(|(reported, _)| *reported == instrument)
        .flat_map(|(_, points)| points)
        .map(|point| {
            let values = point.exemplars.iter().map(|exemplar| exemplar.value);
            (point.amount, values.collect())
        })
        .collect()
}

#[test]
fn labels_are_sorted_and_say_nothing_twice() {
    let one = Labels::default().with("b", "2").with("a", Label::Number(1));
    let other = Labels::default()
        .with("a", Label::Number(1))
        .with("b", "2")
        .with("b", "3")
        .maybe("c", None::<&str>);
    assert_eq!(one, other);
    let keys: Vec<_> = one.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, ["a", "b"]);
}

#[test]
fn a_bound_belongs_to_the_bucket_below_it() {
    let mut store = store();
    for value in [0.005, 0.0050001, 10.0, 11.0] {
        store.observe(Instrument::HttpDuration, &relay("a"), value, None);
    }
    let [(amount, _)] = points(&mut store, Instrument::HttpDuration, false)
        .try_into()
        .unwrap();
    assert_eq!(amount.count, 4);
    assert!((amount.sum - 21.0100001).abs() < 1e-9);
    assert_eq!(
        amount.buckets,
        [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    );
}

#[test]
fn what_is_no_measurement_is_not_counted() {
    let mut store = store();
    for value in [f64::NAN, f64::INFINITY, -0.1] {
        store.observe(Instrument::Ttft, &relay("a"), value, None);
        store.observe_sum(Instrument::GenAiPerChunk, &relay("a"), (3, value));
    }
    store.observe_sum(Instrument::GenAiPerChunk, &relay("a"), (0, 0.0));
    store.observe_sum(Instrument::Ttft, &relay("a"), (3, 0.5));
    store.set(Instrument::SloObserved, &relay("a"), f64::NAN);
    assert_eq!(store.report(false), []);
}

#[test]
fn metrics_of_another_edition_are_not_kept() {
    let mut store = Store::new(Edition::Latest, true);
    store.observe(Instrument::GenAiTokens, &relay("a"), 3.0, None);
    store.observe(Instrument::GenAiInputTokens, &relay("a"), 3.0, None);
    let kept: Vec<_> = store.report(false).iter().map(|(i, _)| *i).collect();
    assert_eq!(kept, [Instrument::GenAiInputTokens]);
}

#[test]
fn series_without_room_are_counted_together() {
    let mut store = store();
    for number in 0..2 * MAX_SERIES {
        store.add(Instrument::Samples, &relay(&number.to_string()), 1, None);
    }
    // One that is there goes on to be counted by itself.
    store.add(Instrument::Samples, &relay("0"), 1, None);
    let report = store.report(false);
    let [(_, points)] = report.as_slice() else {
        panic!("{} metrics", report.len());
    };
    assert_eq!(points.len(), MAX_SERIES);
    let total: u64 = points.iter().map(|point| point.amount.count).sum();
    assert_eq!(total, 2 * MAX_SERIES as u64 + 1);
    let overflow = points
        .iter()
        .find(|point| *point.labels == Labels::overflow())
        .unwrap();
    assert_eq!(overflow.amount.count, MAX_SERIES as u64 + 1);
    let first = points.iter().find(|point| *point.labels == relay("0"));
    assert_eq!(first.unwrap().amount.count, 2);
}

#[test]
fn a_relay_that_answers_under_ever_new_names_has_few_of_them() {
    let mut store = store();
    let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
    let admitted: BTreeSet<_> = (0..1000)
        .map(|number| store.admit(&one, &format!("m-{number}")))
        .collect();
    assert_eq!(admitted.len(), MAX_NAMES + 1);
    assert!(admitted.contains(OTHER));
    assert_eq!(&*store.admit(&one, "m-0"), "m-0");
    assert_eq!(&*store.admit(&one, "m-999"), OTHER);
    assert_eq!(
        &*store.admit(&other, "m-999"),
        "m-999",
        "each cell has its own"
    );
}

#[test]
fn a_delta_says_what_came_after_the_last_report_that_arrived() {
    let mut store = store();
    let samples = |store: &mut Store| {
        let points = points(store, Instrument::Samples, true);
        points
            .iter()
            .map(|(amount, _)| amount.count)
            .collect::<Vec<_>>()
    };
    store.add(Instrument::Samples, &relay("a"), 2, None);
    assert_eq!(samples(&mut store), [2]);
    store.add(Instrument::Samples, &relay("a"), 1, None);
    assert_eq!(samples(&mut store), [3], "the first one did not arrive");
    // Counted while the report is on its way, and so not in it.
    store.add(Instrument::Samples, &relay("a"), 4, None);
    store.add(Instrument::Samples, &relay("b"), 1, None);
    store.arrived(true);
    assert_eq!(samples(&mut store), [4, 1]);
    store.arrived(true);
    assert_eq!(samples(&mut store), [0; 0], "nothing new, nothing to say");
    store.add(Instrument::Samples, &relay("b"), 1, None);
    assert_eq!(samples(&mut store), [1]);
}

#[test]
fn a_delta_of_a_distribution_has_the_new_values_only() {
    let mut store = store();
    store.observe(
        Instrument::HttpDuration,
        &relay("a"),
        0.004,
        origin(1, false),
    );
    points(&mut store, Instrument::HttpDuration, true);
    store.arrived(true);
    store.observe(
        Instrument::HttpDuration,
        &relay("a"),
        20.0,
        origin(2, false),
    );
    let [(amount, exemplars)] = points(&mut store, Instrument::HttpDuration, true)
        .try_into()
        .unwrap();
    assert_eq!((amount.count, amount.sum), (1, 20.0));
    assert_eq!(amount.buckets.iter().sum::<u64>(), 1);
    assert_eq!(amount.buckets.last(), Some(&1));
    assert_eq!(
        exemplars,
        [20.0],
        "samples of the last report are not repeated"
    );
}

#[test]
fn cumulative_reports_keep_everything() {
    let mut store = store();
    store.observe(Instrument::Ttft, &relay("a"), 0.2, origin(1, false));
    for _ in 0..2 {
        let [(amount, exemplars)] = points(&mut store, Instrument::Ttft, false)
            .try_into()
            .unwrap();
        assert_eq!((amount.count, exemplars), (1, vec![0.2]));
        store.arrived(false);
    }
}

#[test]
fn a_gauge_holds_the_last_value_in_both_kinds_of_report() {
    for delta in [false, true] {
        let mut store = store();
        store.set(Instrument::SloObserved, &relay("a"), 1.5);
        store.set(Instrument::SloObserved, &relay("a"), 1.25);
        for _ in 0..2 {
            let [(amount, _)] = points(&mut store, Instrument::SloObserved, delta)
                .try_into()
                .unwrap();
            assert_eq!(amount.sum, 1.25);
            store.arrived(delta);
        }
    }
}

#[test]
fn a_total_that_is_kept_elsewhere_never_falls() {
    let mut store = store();
    for total in [5, 3, 7] {
        store.total(Instrument::EvidenceSpans, &relay("a"), total);
    }
    let [(amount, _)] = points(&mut store, Instrument::EvidenceSpans, false)
        .try_into()
        .unwrap();
    assert_eq!(amount.count, 7);
}

#[test]
fn each_bucket_keeps_the_sample_that_tells_most() {
    let mut store = store();
    let mut ttft = |value, number, failing| {
        store.observe(
            Instrument::Ttft,
            &relay("a"),
            value,
            origin(number, failing),
        );
    };
    // One bucket: a good one, a slower one, a faster one that failed, a good one after it.
    ttft(0.31, 1, false);
    ttft(0.39, 2, false);
    ttft(0.35, 3, true);
    ttft(0.38, 4, false);
    // Another bucket, far slower.
    ttft(45.0, 5, false);
    let [(_, exemplars)] = points(&mut store, Instrument::Ttft, false)
        .try_into()
        .unwrap();
    assert_eq!(exemplars, [0.35, 45.0]);
    // Of rates the lower one tells more.
    store.observe(Instrument::Tps, &relay("a"), 35.0, origin(1, false));
    store.observe(Instrument::Tps, &relay("a"), 31.0, origin(2, false));
    store.observe(Instrument::Tps, &relay("a"), 39.0, origin(3, false));
    let [(_, exemplars)] = points(&mut store, Instrument::Tps, false)
        .try_into()
        .unwrap();
    assert_eq!(exemplars, [31.0]);
}

#[test]
fn exemplars_can_be_left_out() {
    let mut store = Store::new(Edition::Released, false);
    store.observe(Instrument::Ttft, &relay("a"), 0.2, origin(1, true));
    store.add(Instrument::Samples, &relay("a"), 1, origin(1, true));
    assert!(points(&mut store, Instrument::Ttft, false)[0].1.is_empty());
    assert!(
        points(&mut store, Instrument::Samples, false)[0]
            .1
            .is_empty()
    );
}
