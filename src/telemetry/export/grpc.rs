//! What OTLP over gRPC needs besides the endpoint, and the client for metrics.

use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use opentelemetry_otlp::{Compression, Protocol, WithExportConfig, WithTonicConfig};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use super::courier::{CONNECT, read, unusable};
use crate::telemetry::env::Endpoint;

/// Sets endpoint, headers, TLS and compression.
pub(super) fn configured<B: WithExportConfig + WithTonicConfig>(
    builder: B,
    endpoint: &Endpoint,
) -> Result<B, String> {
    let mut builder = builder
        .with_protocol(Protocol::Grpc)
        .with_endpoint(endpoint.shown())
        .with_timeout(endpoint.timeout)
        .with_metadata(metadata(endpoint));
    if endpoint.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    if let Some(tls) = tls(endpoint)? {
        builder = builder.with_tls_config(tls);
    }
    Ok(builder)
}

fn metadata(endpoint: &Endpoint) -> MetadataMap {
    MetadataMap::from_headers(endpoint.headers.iter().cloned().collect())
}

fn tls(endpoint: &Endpoint) -> Result<Option<ClientTlsConfig>, String> {
    if endpoint.url.scheme() != "https" {
        return Ok(None);
    }
    let mut tls = ClientTlsConfig::new();
    tls = match &endpoint.certificate {
        Some(file) => tls.ca_certificate(Certificate::from_pem(read(file)?)),
        None => tls.with_native_roots(),
    };
    if let Some((certificate, key)) = &endpoint.client {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(Some(tls))
}

/// A client that sends reports of metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    client: MetricsServiceClient<Channel>,
    metadata: MetadataMap,
}

impl Metrics {
    /// Reads the files that the endpoint names; connects when there is something to send.
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, String> {
        let mut channel = Channel::from_shared(endpoint.shown())
            .map_err(|_| unusable(endpoint))?
            .connect_timeout(CONNECT)
            .timeout(endpoint.timeout);
        if let Some(tls) = tls(endpoint)? {
            channel = channel.tls_config(tls).map_err(|_| unusable(endpoint))?;
        }
        let mut client = MetricsServiceClient::new(channel.connect_lazy());
        if endpoint.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        Ok(Self {
            client,
            metadata: metadata(endpoint),
        })
    }

    /// Sends one report; gives the data points that were refused, or why none was taken.
    pub(super) async fn send(&self, report: ExportMetricsServiceRequest) -> Result<u64, String> {
        let mut request = tonic::Request::new(report);
        *request.metadata_mut() = self.metadata.clone();
        let answer = self
            .client
            .clone()
            .export(request)
            .await
            // The other side's message is its own wording.
            .map_err(|status| format!("gRPC status {:?}", status.code()))?;
        let partial = answer.into_inner().partial_success.unwrap_or_default();
        Ok(u64::try_from(partial.rejected_data_points).unwrap_or_default())
    }
}
