//! TCP attempts per address, from the tracing events of reqwest's connector.
//!
//! The one hook that reads message texts, and the only one that shows each address tried and where
//! TCP ends and a proxy's tunnel begins. Without it both are one stretch, and nothing else changes.

use std::fmt::{self, Write};
use std::net::SocketAddr;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{What, on_link};

const TARGET: &str = "hyper_util::client::legacy::connect::http";

/// Longest message that is read; the ones that matter are a phrase and an address.
const LONGEST: usize = 160;

/// Tracing layer that gives the probe the TCP attempts of its connections.
#[derive(Debug)]
pub struct ConnectEvents(());

impl ConnectEvents {
    /// The layer with its own filter: it sees the connector's events whatever other layers filter.
    pub fn layer<S>() -> impl Layer<S> + Send + Sync + 'static
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        Self(()).with_filter(Targets::new().with_target(TARGET, Level::TRACE))
    }
}

impl<S: Subscriber> Layer<S> for ConnectEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != TARGET {
            return;
        }
        on_link(|link| {
            let mut message = Message(String::new());
            event.record(&mut message);
            if let Some(what) = read(&message.0) {
                link.note(what);
            }
        });
    }
}

/// The start of an event's message.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // The error is the limit being reached; what is kept is the start of the message.
            let _ = write!(Limited(&mut self.0), "{value:?}");
        }
    }
}

struct Limited<'a>(&'a mut String);

impl Write for Limited<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn read(message: &str) -> Option<What> {
    if let Some(address) = message.strip_prefix("connecting to ") {
        address.parse().ok().map(What::Dialling)
    } else if let Some(address) = message.strip_prefix("connected to ") {
        address.parse().ok().map(What::Dialled)
    } else if let Some(failure) = message.strip_prefix("connect error for ") {
        let (address, _) = failure.split_once(": ")?;
        address.parse::<SocketAddr>().ok().map(What::DialFailed)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::probe::clock::Clock;
    use crate::probe::hooks::{ATTEMPT, Known, Sink, SystemLookup, WatchConnects, WatchedLookup};

    /// The TCP marks of one request to `url`.
    async fn marks(url: String) -> Vec<What> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_backend_preconfigured(
                crate::probe::tls::client_config(crate::plan::HttpVersion::Auto, &[]).unwrap(),
            )
            .dns_resolver(WatchedLookup(SystemLookup))
            .connector_layer(WatchConnects(Known::default().into()))
            .build()
            .unwrap();
        let sink = Sink::new(Clock::start());
        let answer = ATTEMPT.scope(sink.clone(), client.get(url).send()).await;
        assert!(answer.is_err(), "nobody answers here");
        std::iter::from_fn(|| sink.next())
            .map(|mark| mark.what)
            .filter(|what| {
                matches!(
                    what,
                    What::Dialling(_) | What::Dialled(_) | What::DialFailed(_)
                )
            })
            .collect()
    }

    /// Fails when the connector's messages are worded differently: then [`read`] has to follow.
    #[tokio::test]
    async fn the_connectors_messages_still_name_each_address_tried() {
        let subscriber = tracing_subscriber::registry().with(ConnectEvents::layer());
        let _guard = tracing::subscriber::set_default(subscriber);

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let closing = tokio::spawn(async move { drop(listener.accept().await) });
        let seen = marks(format!("http://{address}/")).await;
        closing.await.unwrap();
        assert_eq!(seen, [What::Dialling(address), What::Dialled(address)]);

        // Taken, so that no other test can listen there, and not listening.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let closed = socket.local_addr().unwrap();
        let seen = marks(format!("http://{closed}/")).await;
        assert_eq!(seen, [What::Dialling(closed), What::DialFailed(closed)]);
    }

    #[test]
    fn an_endless_message_is_not_kept() {
        let mut message = String::new();
        let _ = write!(
            Limited(&mut message),
            "{}{}",
            "x".repeat(100),
            "y".repeat(LONGEST)
        );
        assert_eq!(message.len(), 100);
    }

    #[test]
    fn other_messages_mean_nothing() {
        for message in [
            "",
            "connecting to ",
            "connected to nowhere",
            "connect error for x",
        ] {
            assert_eq!(read(message), None, "{message:?}");
        }
    }
}
