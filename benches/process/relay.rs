//! The relay's process: the embedded relay, and its record of when it really wrote.

use std::io::{self, Read, Write};
use std::time::Duration;

use relayproof::sim::{Relay, Settings};

use super::clocks::monotonic_ns;
use super::task::Shape;
use super::{Failure, Outcome};

/// Serves until standard input ends, then says when each first token was written.
///
/// The first line of output is the base URL; each further one is an answer's id and the moment at
/// which the write call with its first token had returned.
pub(crate) fn serve(shape: &Shape) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("bench-relay")
        .enable_all()
        .build()?;
    let served = runtime.block_on(async {
        let relay = Relay::start(Settings {
            first_token: Duration::from_micros(shape.first_token_us),
            token_gap: Duration::from_micros(shape.gap_us),
            tokens: shape.tokens,
            ..Settings::default()
        })
        .await?;
        let mut out = io::stdout();
        writeln!(out, "{}", relay.base_url())?;
        out.flush()?;
        tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await??;
        relay.quiet().await;
        Ok::<_, Failure>(relay.served())
    })?;
    // The standard library's monotonic clock is the same one, with its reading hidden.
    let (moment, reading) = (tokio::time::Instant::now().into_std(), monotonic_ns());
    let mut out = io::BufWriter::new(io::stdout().lock());
    for answer in served {
        let Some(after) = answer.first_token_after() else {
            continue;
        };
        let ago = moment.saturating_duration_since(answer.arrival + after);
        writeln!(
            out,
            "{} {}",
            answer.id,
            reading - i64::try_from(ago.as_nanos())?
        )?;
    }
    out.flush()?;
    Ok(())
}
