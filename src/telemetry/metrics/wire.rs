//! From the series of a run to an OTLP request.
//!
//! Made here and not by the SDK, because its metrics hold no exemplars and cannot be built by
//! anybody else.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar as WireExemplar, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, exemplar, metric::Data, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource as WireResource;
use opentelemetry_sdk::Resource;

use super::super::semconv::SCOPE;
use super::super::semconv::metric::{Instrument, Kind};
use super::store::{Exemplar, Label, Labels, Point, Store};

/// Whether reports say everything since the start, or what came after the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temporality {
    /// Everything since the start.
    #[default]
    Cumulative,
    /// What came after the last report that arrived.
    Delta,
}

/// One report, ready to be sent.
pub(in crate::telemetry) struct Report {
    /// The message.
    pub(in crate::telemetry) request: ExportMetricsServiceRequest,
    /// Data points in it.
    pub(in crate::telemetry) points: usize,
    made_ns: u64,
}

/// Makes reports of one store, and remembers which of them arrived.
pub(in crate::telemetry) struct Reporter {
    resource: WireResource,
    temporality: Temporality,
    since_ns: u64,
}

impl Reporter {
    /// Reports begin at this moment.
    pub(in crate::telemetry) fn new(
        resource: &Resource,
        temporality: Temporality,
        started_ns: u64,
    ) -> Self {
        Self {
            resource: WireResource {
                attributes: resource.iter().map(KeyValue::from).collect(),
                ..WireResource::default()
            },
            temporality,
            since_ns: started_ns,
        }
    }

    /// What there is to say at this moment.
    pub(in crate::telemetry) fn report(&self, store: &mut Store, now_ns: u64) -> Report {
        // A wall clock that was set back must not make a stretch of time negative.
        let now_ns = now_ns.max(self.since_ns);
        let edition = store.edition();
        let mut points = 0;
        let metrics = store
            .report(self.is_delta())
            .into_iter()
            .filter_map(|(instrument, series)| {
                let row = instrument.row();
                points += series.len();
                Some(Metric {
                    name: row.name(edition)?.to_owned(),
                    description: row.description.to_owned(),
                    unit: row.unit.to_owned(),
                    data: Some(self.data(instrument, series, now_ns)),
                    ..Metric::default()
                })
            })
            .collect();
        let scope = InstrumentationScope {
            name: SCOPE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let request = ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope),
                    metrics,
                    ..ScopeMetrics::default()
                }],
                ..ResourceMetrics::default()
            }],
        };
        Report {
            request,
            points,
            made_ns: now_ns,
        }
    }

    /// A report arrived; the next one begins where it ended.
    pub(in crate::telemetry) fn arrived(&mut self, store: &mut Store, report_ns: u64) {
        store.arrived(self.is_delta());
        match self.temporality {
            Temporality::Cumulative => {}
            Temporality::Delta => self.since_ns = report_ns,
        }
    }

    fn is_delta(&self) -> bool {
        self.temporality == Temporality::Delta
    }

    fn data(&self, instrument: Instrument, series: Vec<Point<'_>>, now_ns: u64) -> Data {
        let temporality = match self.temporality {
            Temporality::Cumulative => AggregationTemporality::Cumulative,
            Temporality::Delta => AggregationTemporality::Delta,
        };
        let row = instrument.row();
        match row.kind {
            Kind::Histogram(bounds) => Data::Histogram(Histogram {
                data_points: series
                    .into_iter()
                    .map(|point| HistogramDataPoint {
                        attributes: attributes(point.labels),
                        start_time_unix_nano: self.since_ns,
                        time_unix_nano: now_ns,
                        count: point.amount.count,
                        sum: Some(point.amount.sum),
                        bucket_counts: point.amount.buckets,
                        explicit_bounds: bounds.to_vec(),
                        exemplars: point.exemplars.iter().map(example).collect(),
                        ..HistogramDataPoint::default()
                    })
                    .collect(),
                aggregation_temporality: temporality.into(),
            }),
            Kind::Counter => Data::Sum(Sum {
                data_points: series
                    .into_iter()
                    .map(|point| NumberDataPoint {
                        attributes: attributes(point.labels),
                        start_time_unix_nano: self.since_ns,
                        time_unix_nano: now_ns,
                        value: Some(number_data_point::Value::from(point.amount.count)),
                        exemplars: point.exemplars.iter().map(example).collect(),
                        ..NumberDataPoint::default()
                    })
                    .collect(),
                aggregation_temporality: temporality.into(),
                is_monotonic: true,
            }),
            Kind::Gauge => Data::Gauge(Gauge {
                data_points: series
                    .into_iter()
                    .map(|point| NumberDataPoint {
                        attributes: attributes(point.labels),
                        time_unix_nano: now_ns,
                        value: Some(number_data_point::Value::from(point.amount.sum)),
                        ..NumberDataPoint::default()
                    })
                    .collect(),
            }),
        }
    }
}

impl Report {
    /// When it was made.
    pub(in crate::telemetry) fn made_ns(&self) -> u64 {
        self.made_ns
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    labels
        .iter()
        .map(|(key, label)| KeyValue {
            key: (*key).to_owned(),
            value: Some(AnyValue {
                value: Some(match label {
                    Label::Text(text) => Value::StringValue(text.as_ref().to_owned()),
                    Label::Number(number) => Value::IntValue(*number),
                    Label::Flag(flag) => Value::BoolValue(*flag),
                }),
            }),
            ..KeyValue::default()
        })
        .collect()
}

fn example(exemplar: &Exemplar) -> WireExemplar {
    WireExemplar {
        time_unix_nano: exemplar.origin.unix_ns,
        span_id: exemplar.origin.span_id.to_vec(),
        trace_id: exemplar.origin.trace_id.to_vec(),
        value: Some(exemplar::Value::from(exemplar.value)),
        ..WireExemplar::default()
    }
}

/// A report for people: one line a data point.
pub(in crate::telemetry) fn lines(
    report: &ExportMetricsServiceRequest,
) -> impl Iterator<Item = String> {
    report
        .resource_metrics
        .iter()
        .flat_map(|resource| &resource.scope_metrics)
        .flat_map(|scope| &scope.metrics)
        .flat_map(|metric| {
            let points: Vec<_> = match &metric.data {
                Some(Data::Histogram(histogram)) => histogram
                    .data_points
                    .iter()
                    .map(|point| {
                        let sum = point.sum.unwrap_or_default();
                        (
                            &point.attributes,
                            format!("count {} sum {sum}", point.count),
                        )
                    })
                    .collect(),
                Some(Data::Sum(Sum { data_points, .. }) | Data::Gauge(Gauge { data_points })) => {
                    data_points
                        .iter()
                        .map(|point| (&point.attributes, number(point)))
                        .collect()
                }
                Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => Vec::new(),
            };
            points.into_iter().map(|(attributes, value)| {
                let labels: Vec<_> = attributes.iter().map(shown).collect();
                format!("metric {}{{{}}} {value}", metric.name, labels.join(","))
            })
        })
}

fn number(point: &NumberDataPoint) -> String {
    match point.value {
        Some(number_data_point::Value::AsInt(value)) => value.to_string(),
        Some(number_data_point::Value::AsDouble(value)) => value.to_string(),
        None => String::new(),
    }
}

fn shown(label: &KeyValue) -> String {
    let value = label.value.as_ref().and_then(|value| value.value.as_ref());
    match value {
        Some(Value::StringValue(text)) => format!("{}={text:?}", label.key),
        Some(Value::IntValue(number)) => format!("{}={number}", label.key),
        Some(Value::BoolValue(flag)) => format!("{}={flag}", label.key),
        Some(_) | None => label.key.clone(),
    }
}
