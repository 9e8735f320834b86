//! The series of a run: counts, sums, buckets, last values and exemplars, all bounded.
//!
//! Pure: no clock, no exporter. Knows nothing of what is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::semconv::metric::{Edition, Instrument, Kind};
use super::super::semconv::{OTEL_METRIC_OVERFLOW, OTHER};

/// Most series of one metric, the one for everything else among them.
pub(super) const MAX_SERIES: usize = 256;

/// Most names under which one cell's relay may answer; what follows is one name for all.
pub(super) const MAX_NAMES: usize = 8;

/// The value of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    /// A text.
    Text(Arc<str>),
    /// A whole number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// The attributes of one series, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels(Vec<(&'static str, Label)>);

impl Labels {
    /// The same attributes and one more; an attribute that is there keeps its value.
    pub(super) fn with(&self, key: &'static str, value: impl Into<Label>) -> Self {
        let mut labels = self.clone();
        if let Err(at) = labels.0.binary_search_by_key(&key, |(key, _)| *key) {
            labels.0.insert(at, (key, value.into()));
        }
        labels
    }

    /// The same attributes, and one more where there is a value.
    pub(super) fn maybe(&self, key: &'static str, value: Option<impl Into<Label>>) -> Self {
        value.map_or_else(|| self.clone(), |value| self.with(key, value))
    }

    /// Keys and values, sorted by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(&'static str, Label)> {
        self.0.iter()
    }

    /// What everything that finds no room is counted under.
    fn overflow() -> Self {
        Self(vec![(OTEL_METRIC_OVERFLOW, Label::Flag(true))])
    }
}

/// The sample that a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Origin {
    /// Its trace.
    pub(super) trace_id: [u8; 16],
    /// Its span.
    pub(super) span_id: [u8; 8],
    /// When it was over.
    pub(super) unix_ns: u64,
    /// Whether it counts against the relay.
    pub(super) failing: bool,
}

/// A value with the sample that it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exemplar {
    /// The value.
    pub(super) value: f64,
    /// The sample.
    pub(super) origin: Origin,
}

/// What has come together: of a gauge the sum is the last value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Amount {
    /// Values.
    pub(super) count: u64,
    /// Their sum.
    pub(super) sum: f64,
    /// Values by bucket.
    pub(super) buckets: Vec<u64>,
}

impl Amount {
    /// What came after `before`.
    fn since(&self, before: &Self) -> Self {
        let mut buckets = self.buckets.clone();
        for (count, before) in buckets.iter_mut().zip(&before.buckets) {
            *count = count.saturating_sub(*before);
        }
        Self {
            count: self.count.saturating_sub(before.count),
            sum: (self.sum - before.sum).max(0.0),
            buckets,
        }
    }
}

/// One series.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    now: Amount,
    /// What the last report held.
    reported: Amount,
    /// What the last report that arrived held.
    arrived: Amount,
    /// By bucket; one for a counter.
    exemplars: BTreeMap<usize, Exemplar>,
}

impl Series {
    /// Keeps a value's sample: in each bucket a failing one before a good one, and of two alike
    /// the worse, or the later.
    fn remember(&mut self, place: usize, instrument: Instrument, exemplar: Exemplar) {
        let rank = |exemplar: &Exemplar| {
            let slower_is_less = instrument == Instrument::Tps;
            let badness = if slower_is_less {
                -exemplar.value
            } else {
                exemplar.value
            };
            (exemplar.origin.failing, badness)
        };
        let kept = self.exemplars.get(&place);
        if kept.is_none_or(|kept| rank(&exemplar) >= rank(kept)) {
            self.exemplars.insert(place, exemplar);
        }
    }
}

/// What a report says of one series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point<'a> {
    /// Its attributes.
    pub(super) labels: &'a Labels,
    /// What has come together, since the start or since the last report that arrived.
    pub(super) amount: Amount,
    /// Samples of some of the values.
    pub(super) exemplars: Vec<Exemplar>,
}

/// All series of a run.
#[derive(Clone, Debug)]
pub(in crate::telemetry) struct Store {
    edition: Edition,
    exemplars: bool,
    series: BTreeMap<Instrument, BTreeMap<Labels, Series>>,
    names: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Store {
    /// An empty one; metrics that an edition does not have are not kept.
    pub(in crate::telemetry) fn new(edition: Edition, exemplars: bool) -> Self {
        Self {
            edition,
            exemplars,
            series: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Which edition names the metrics.
    pub(super) fn edition(&self) -> Edition {
        self.edition
    }

    /// A name that a cell's relay chose, or one name for all when it has chosen too many.
    pub(super) fn admit(&mut self, cell: &Arc<str>, name: &str) -> Arc<str> {
        let known = self.names.entry(Arc::clone(cell)).or_default();
        if let Some(name) = known.get(name) {
            return Arc::clone(name);
        }
        if known.len() >= MAX_NAMES {
            return OTHER.into();
        }
        let name: Arc<str> = name.into();
        known.insert(Arc::clone(&name));
        name
    }

    /// Adds one value to a distribution.
    pub(super) fn observe(
        &mut self,
        instrument: Instrument,
        labels: &Labels,
        value: f64,
        origin: Option<Origin>,
    ) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let bounds = instrument.row().bounds();
        let bucket = bounds.partition_point(|bound| *bound < value);
        let exemplar = origin
            .filter(|_| self.exemplars)
            .map(|origin| Exemplar { value, origin });
        let Some(series) = self.series(instrument, labels) else {
            return;
        };
        series.now.count += 1;
        series.now.sum += value;
        series.now.buckets.resize(bounds.len() + 1, 0);
        if let Some(count) = series.now.buckets.get_mut(bucket) {
            *count += 1;
        }
        if let Some(exemplar) = exemplar {
            series.remember(bucket, instrument, exemplar);
        }
    }

    /// Adds values of which only count and sum are known to a distribution without buckets.
    pub(super) fn observe_sum(
        &mut self,
        instrument: Instrument,
        labels: &Labels,
        (count, sum): (u64, f64),
    ) {
        if !instrument.row().bounds().is_empty() || !sum.is_finite() || sum < 0.0 || count == 0 {
            return;
        }
        if let Some(series) = self.series(instrument, labels) {
            series.now.count += count;
            series.now.sum += sum;
        }
    }

    /// Adds to a count.
    pub(super) fn add(
        &mut self,
        instrument: Instrument,
        labels: &Labels,
        items: u64,
        origin: Option<Origin>,
    ) {
        let exemplar = origin
            .filter(|_| self.exemplars)
            .map(|origin| Exemplar { value: 1.0, origin });
        if let Some(series) = self.series(instrument, labels) {
            series.now.count = series.now.count.saturating_add(items);
            if let Some(exemplar) = exemplar {
                series.remember(0, instrument, exemplar);
            }
        }
    }

    /// Sets a count that is kept elsewhere; it never falls.
    pub(super) fn total(&mut self, instrument: Instrument, labels: &Labels, items: u64) {
        if let Some(series) = self.series(instrument, labels) {
            series.now.count = series.now.count.max(items);
        }
    }

    /// Sets a last value.
    pub(super) fn set(&mut self, instrument: Instrument, labels: &Labels, value: f64) {
        if !value.is_finite() {
            return;
        }
        if let Some(series) = self.series(instrument, labels) {
            series.now.count += 1;
            series.now.sum = value;
        }
    }

    /// The series of these attributes; one that finds no room is the one for everything else.
    fn series(&mut self, instrument: Instrument, labels: &Labels) -> Option<&mut Series> {
        instrument.row().name(self.edition)?;
        let all = self.series.entry(instrument).or_default();
        // A copy of the labels costs more than a second look, and most series are there.
        if all.contains_key(labels) {
            return all.get_mut(labels);
        }
        let labels = if all.len() >= MAX_SERIES - 1 {
            Labels::overflow()
        } else {
            labels.clone()
        };
        Some(all.entry(labels).or_default())
    }

    /// What there is to report: all of it, or what came after the last report that arrived.
    pub(super) fn report(&mut self, delta: bool) -> Vec<(Instrument, Vec<Point<'_>>)> {
        self.series
            .iter_mut()
            .map(|(instrument, all)| {
                let gauge = instrument.row().kind == Kind::Gauge;
                let points = all
                    .iter_mut()
                    .map(|(labels, series)| {
                        series.reported = series.now.clone();
                        (labels, series)
                    })
                    .filter(|(_, series)| !delta || gauge || series.now != series.arrived)
                    .map(|(labels, series)| {
                        let amount = if delta && !gauge {
                            series.now.since(&series.arrived)
                        } else {
                            series.now.clone()
                        };
                        Point {
                            labels,
                            amount,
                            exemplars: series.exemplars.values().copied().collect(),
                        }
                    })
                    .collect::<Vec<_>>();
                (*instrument, points)
            })
            .filter(|(_, points)| !points.is_empty())
            .collect()
    }

    /// The last report arrived.
    pub(super) fn arrived(&mut self, delta: bool) {
        for series in self.series.values_mut().flat_map(BTreeMap::values_mut) {
            series.arrived = series.reported.clone();
            if delta {
                series.exemplars.clear();
            }
        }
    }
}

#[cfg(test)]
#[path = "store/tests.rs"]
mod tests;
