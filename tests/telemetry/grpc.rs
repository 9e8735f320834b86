//! OTLP over gRPC, against a server that speaks just enough of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use relayproof::telemetry::SuiteStatus;
use relayproof::telemetry::spans::SampleOutcome;

use crate::make::{self, T0};
use crate::receiver::spans;

#[derive(Default)]
struct Seen {
    tenants: Vec<String>,
    requests: Vec<ExportTraceServiceRequest>,
    reports: Vec<ExportMetricsServiceRequest>,
}

#[test]
fn spans_and_metrics_arrive_over_grpc_with_the_headers_of_the_environment() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let address = runtime.block_on(serve(Arc::clone(&seen)));
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("http://{address}");
    let telemetry = crate::start(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme"),
        ],
    );
    let suite = telemetry.suite(&crate::suite());
    let case = suite.case(&make::header());
    for index in 0..100 {
        case.sample(
            &make::sample(index, make::whole()),
            &make::facts(SampleOutcome::Good),
        );
    }
    case.finish(&[make::violated()], T0);
    suite.finish(SuiteStatus::Failure);
    let account = telemetry.finish(Duration::from_secs(5));
    assert_eq!(account.warnings, Vec::<String>::new());
    assert_eq!(account.spans.exported, 100 * 14 + 3);
    let seen = seen.lock().unwrap();
    let arrived: usize = seen
        .requests
        .iter()
        .map(|request| spans(&request.resource_spans).len())
        .sum();
    assert_eq!(arrived as u64, account.spans.made);
    assert!(seen.tenants.iter().all(|tenant| tenant == "acme"));
    let [report] = seen.reports.as_slice() else {
        panic!("{} reports", seen.reports.len());
    };
    let metrics = &report.resource_metrics[0].scope_metrics[0].metrics;
    assert!(metrics.iter().any(|metric| metric.name == "relay.ttft"));
    assert!(account.metrics.made > 0);
    assert_eq!(account.metrics.exported, account.metrics.made);
}

/// A server that is not there is one warning, in time.
#[test]
fn no_grpc_server_is_one_warning() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let folder = tempfile::tempdir().unwrap();
    let telemetry = crate::start(
        folder.path(),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ],
    );
    telemetry
        .suite(&crate::suite())
        .finish(SuiteStatus::Success);
    let start = std::time::Instant::now();
    let account = telemetry.finish(Duration::from_secs(5));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!((account.spans.made, account.spans.failed), (1, 1));
    assert_eq!(account.warnings.len(), 1, "{:?}", account.warnings);
}

async fn serve(seen: Arc<Mutex<Seen>>) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .ok();
            });
        }
    });
    address
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible>>, String>
{
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|error| error.to_string())?;
    let bytes = body.to_bytes();
    {
        let mut seen = seen.lock().unwrap();
        match parts.uri.path() {
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => {
                let message = ExportTraceServiceRequest::decode(&bytes[5..]).unwrap();
                seen.requests.push(message);
            }
            "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => {
                let message = ExportMetricsServiceRequest::decode(&bytes[5..]).unwrap();
                seen.reports.push(message);
            }
            other => return Err(format!("{other} is not served")),
        }
        let tenant = parts.headers.get("x-tenant").unwrap();
        seen.tenants.push(tenant.to_str().unwrap().to_owned());
    }
    // An empty message behind its five bytes of prefix, and the status in the trailers.
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(body);
    let kind = "application/grpc".parse().unwrap();
    response.headers_mut().insert("content-type", kind);
    Ok(response)
}
