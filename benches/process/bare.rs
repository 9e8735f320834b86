//! The yardstick: a client that reads the same streams and does nothing but note the first token.

use std::sync::Arc;

use memchr::memmem::Finder;
use relayproof::plan::{Cell, Sampling};
use relayproof::probe::tls;
use reqwest::{Client, Response};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::clocks::monotonic_ns;
use super::{Failure, Outcome};

/// Asks at the planned moments; gives each answer's id and the moment of its first content.
pub(crate) async fn read_all(
    base_url: &str,
    cell: &Cell,
    sampling: &Sampling,
) -> Outcome<Vec<(String, i64)>> {
    let client = Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(tls::client_config(cell.relay.http, &[])?)
        .pool_max_idle_per_host(0)
        .build()?;
    let (path, _) = cell.relay.protocol.target(&cell.model, true);
    let url = format!("{base_url}{path}");
    let content = Arc::new(Finder::new(b"\"content\":\"").into_owned());
    let open = Arc::new(tokio::sync::Semaphore::new(usize::try_from(
        sampling.concurrency,
    )?));
    let mut streams = JoinSet::new();
    let epoch = Instant::now();
    for slot in cell.slots(sampling) {
        sleep_until(epoch + slot.start).await;
        let permit = Arc::clone(&open).acquire_owned().await?;
        let request = client
            .post(&url)
            .header("content-type", "application/json")
            .body(cell.relay.protocol.body(&cell.prompt(&slot)));
        let content = Arc::clone(&content);
        streams.spawn(async move {
            let _permit = permit;
            first_content(request.send().await?.error_for_status()?, &content).await
        });
    }
    streams.join_all().await.into_iter().collect()
}

async fn first_content(mut response: Response, content: &Finder<'_>) -> Outcome<(String, i64)> {
    let id = response.headers().get("x-request-id");
    let id = id
        .and_then(|id| id.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let mut first = None;
    while let Some(chunk) = response.chunk().await? {
        let now = monotonic_ns();
        // The chunk that announces the role has an empty text.
        if first.is_none()
            && content
                .find_iter(&chunk)
                .any(|at| chunk.get(at + content.needle().len()) != Some(&b'"'))
        {
            first = Some(now);
        }
    }
    first
        .map(|first| (id, first))
        .ok_or_else(|| Failure::from("an answer without content"))
}
