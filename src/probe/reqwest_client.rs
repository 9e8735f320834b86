//! The client for runs: reqwest, timed through its public hooks.
//!
//! It cannot show the first response byte apart from the head, which fault HTTP framing has,
//! surplus bytes after a body, the cipher suite, or the order of headers with different names; what
//! it cannot show stays unknown. Judges nothing: it tells an exchange what happened, in order.

mod alarm;
mod failure;
mod progress;
mod route;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{HeaderMap, Method, Version, header};
use hyper_util::client::legacy::connect::HttpInfo;
use reqwest::dns::Resolve;
use reqwest::{Body, Client, Proxy, Response, redirect, retry};
use url::Url;

use self::alarm::Alarm;
use self::progress::Progress;
use self::route::Route;
use crate::observation::Connection;
use crate::plan::{ConnectionMode, HttpVersion};
use crate::probe::cancel::Cancel;
use crate::probe::clock::Clock;
use crate::probe::dial::{Dial, DialError, Request};
use crate::probe::hooks::{
    ATTEMPT, Known, Sink, SystemLookup, TimedBody, WatchConnects, WatchedLookup,
};
use crate::probe::tls;
use crate::stream::{Exchange, Head, Input};

/// Bytes of one HTTP/2 stream that may wait unread; bounds what a relay can make us hold.
const STREAM_WINDOW: u32 = 256 * 1024;

/// The reqwest client of one relay, with its pool.
pub struct ReqwestTransport {
    client: Client,
    proxy: Option<Url>,
    proxy_name: Option<String>,
    pooled: bool,
    known: Arc<Known>,
}

impl fmt::Debug for ReqwestTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestTransport")
            .field("pooled", &self.pooled)
            .field("proxy", &self.proxy_name)
            .finish_non_exhaustive()
    }
}

impl ReqwestTransport {
    /// A client that dials as `dial` says.
    pub fn new(dial: &Dial) -> Result<Self, DialError> {
        Self::with_lookup(dial, SystemLookup)
    }

    fn with_lookup(dial: &Dial, lookup: impl Resolve + 'static) -> Result<Self, DialError> {
        let known = Arc::new(Known::default());
        let pooled = dial.connection == ConnectionMode::Reuse;
        let mut client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .user_agent(concat!("relayproof/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls::client_config(dial.http, &dial.extra_ca_pem)?)
            .dns_resolver(WatchedLookup(lookup))
            .connector_layer(WatchConnects(Arc::clone(&known)))
            .http2_initial_stream_window_size(STREAM_WINDOW);
        if !pooled {
            client = client.pool_max_idle_per_host(0);
        }
        client = match dial.http {
            HttpVersion::Auto => client,
            HttpVersion::Http1 => client.http1_only(),
            HttpVersion::Http2 => client.http2_prior_knowledge(),
        };
        if let Some(url) = &dial.proxy {
            if !matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") {
                return Err(DialError::Unsupported(
                    "the proxy's scheme is none of http, https, socks5, socks5h",
                ));
            }
            client = client.proxy(Proxy::all(url.clone()).map_err(unbuilt)?);
        }
        Ok(Self {
            client: client.build().map_err(unbuilt)?,
            proxy: dial.proxy.clone(),
            proxy_name: dial.proxy.as_ref().map(host_and_port),
            pooled,
            known,
        })
    }

    /// Sends the request and tells the exchange everything up to its end.
    pub async fn attempt(
        &self,
        request: &Request,
        exchange: &mut Exchange,
        clock: &Clock,
        cancel: &mut Cancel,
    ) {
        let mut called_off = pin!(cancel.cancelled());
        let sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let mut alarm = Alarm::new(sleep, *clock);
        let sink = Sink::new(*clock);
        let mut progress =
            Progress::new(Route::new(&request.url, self.proxy.as_ref(), self.pooled));
        if let Some(proxy) = &self.proxy_name {
            let connection = Connection {
                proxy: Some(proxy.clone()),
                ..Connection::default()
            };
            exchange.handle(clock.now(), Input::Connected(connection));
        }

        let answer = {
            let mut sending = pin!(ATTEMPT.scope(
                Arc::clone(&sink),
                self.client.execute(outgoing(request, &sink)),
            ));
            let started = clock.now();
            let mut answer = once(sending.as_mut()).await;
            if answer.is_none() {
                drain(&sink, &mut progress, exchange);
                progress.started(started, &mut |at, input| exchange.handle(at, input));
            }
            loop {
                if let Some(answer) = answer {
                    break answer;
                }
                if exchange.is_over() || alarm.is_due(exchange) {
                    return;
                }
                tokio::select! {
                    biased;
                    () = called_off.as_mut() => {
                        return exchange.handle(clock.now(), Input::Cancelled);
                    }
                    ready = sending.as_mut() => answer = Some(ready),
                    () = sink.ready() => drain(&sink, &mut progress, exchange),
                    () = alarm.rings() => {}
                }
            }
        };
        drain(&sink, &mut progress, exchange);
        let now = clock.now();
        let mut response = match answer {
            Ok(response) => response,
            Err(error) => return exchange.handle(now, failure::before_head(&error, &progress)),
        };
        exchange.handle(now, Input::Connected(self.served(&response, &progress)));
        let headers = response.headers().iter();
        exchange.handle(
            now,
            Input::Head(Head {
                status: response.status().as_u16(),
                version: version(response.version()),
                headers: headers.map(|(n, v)| (n.as_str(), v.as_bytes())).collect(),
            }),
        );
        let sized = is_sized(response.headers());
        let mut sink = (!progress.sent()).then_some(sink);

        while !exchange.is_over() && !alarm.is_due(exchange) {
            tokio::select! {
                biased;
                () = called_off.as_mut() => {
                    return exchange.handle(clock.now(), Input::Cancelled);
                }
                chunk = response.chunk() => {
                    if let Some(late) = &sink {
                        // The relay answers before it has the whole request.
                        drain(late, &mut progress, exchange);
                        if progress.sent() {
                            sink = None;
                        }
                    }
                    let now = clock.now();
                    match chunk {
                        Ok(Some(bytes)) => exchange.handle(now, Input::Body(&bytes)),
                        Ok(None) => return exchange.handle(now, Input::BodyEnd),
                        Err(error) => {
                            return exchange.handle(now, failure::in_body(&error, sized));
                        }
                    }
                }
                () = alarm.rings() => {}
            }
        }
    }

    /// The connection that brought the response.
    fn served(&self, response: &Response, progress: &Progress) -> Connection {
        let addresses = response
            .extensions()
            .get::<HttpInfo>()
            .map(|info| (info.local_addr(), info.remote_addr()));
        let ends = addresses.and_then(|pair| self.known.between(pair));
        Connection {
            reused: Some(progress.reused(addresses)),
            peer: addresses.map(|(_, peer)| peer.to_string()),
            http_version: Some(version(response.version()).to_owned()),
            ..ends.as_ref().map(progress::facts).unwrap_or_default()
        }
    }
}

fn outgoing(request: &Request, sink: &Arc<Sink>) -> reqwest::Request {
    let mut outgoing = reqwest::Request::new(Method::POST, request.url.clone());
    outgoing.headers_mut().clone_from(&request.headers);
    *outgoing.body_mut() = Some(Body::wrap(TimedBody::new(
        request.body.clone(),
        Arc::clone(sink),
    )));
    outgoing
}

/// Polls once.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

fn drain(sink: &Sink, progress: &mut Progress, exchange: &mut Exchange) {
    while let Some(mark) = sink.next() {
        progress.take(mark, &mut |at, input| exchange.handle(at, input));
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    }
}

fn is_sized(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_LENGTH) && !headers.contains_key(header::TRANSFER_ENCODING)
}

fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn unbuilt(error: reqwest::Error) -> DialError {
    // Without the URL, which may hold a proxy's password.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    DialError::Client(text)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use bytes::Bytes;
    use reqwest::dns::{Addrs, Name, Resolving};

    use super::*;
    use crate::dialect::Protocol;
    use crate::expect::Expect;
    use crate::observation::{Class, Limit, Observation, Phase};
    use crate::probe::cancel::cancel_pair;
    use crate::stream::{Asked, Timeouts};

    /// Answers after a delay with some addresses; never without a delay.
    struct Scripted(Option<Duration>, Vec<IpAddr>);

    impl Resolve for Scripted {
        fn resolve(&self, _: Name) -> Resolving {
            let (delay, found) = (self.0, self.1.clone());
            Box::pin(async move {
                match delay {
                    Some(delay) => tokio::time::sleep(delay).await,
                    None => std::future::pending().await,
                }
                let found = found.into_iter().map(|ip| SocketAddr::new(ip, 0));
                Ok(Box::new(found) as Addrs)
            })
        }
    }

    /// One attempt at a port that nobody listens on.
    async fn observe(lookup: Scripted, dns: Duration) -> Observation {
        let dial = Dial {
            connection: ConnectionMode::Fresh,
            http: HttpVersion::Auto,
            proxy: None,
            extra_ca_pem: Vec::new(),
        };
        let transport = ReqwestTransport::with_lookup(&dial, lookup).unwrap();
        let request = Request {
            url: Url::parse("http://relay.test:1/v1").unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
        };
        let asked = Asked {
            protocol: Protocol::OpenaiChat,
            stream: true,
            model: "test-model".to_owned(),
            max_tokens: None,
            usage: false,
            seal: None,
            request_bytes: 2,
            expect: Expect::default(),
            keep_text: false,
        };
        let timeouts = Timeouts {
            dns,
            ..Timeouts::default()
        };
        let mut exchange = Exchange::new(asked, timeouts);
        let (_switch, mut cancel) = cancel_pair();
        let clock = Clock::start();
        transport
            .attempt(&request, &mut exchange, &clock, &mut cancel)
            .await;
        exchange.finish()
    }

    #[tokio::test]
    async fn a_silent_resolver_runs_into_the_dns_limit() {
        let limit = Duration::from_millis(80);
        let seen = observe(Scripted(None, Vec::new()), limit).await;
        assert_eq!(seen.timed_out, Some(Limit::Dns));
        assert_eq!(seen.last_phase, Phase::Dns);
        assert_eq!(seen.class(), Some(Class::DnsFailure));
        assert!(seen.timeline.over >= limit);
        assert_eq!(seen.connection.dns_name.as_deref(), Some("relay.test"));
    }

    #[tokio::test]
    async fn a_name_without_addresses_fails_in_dns() {
        let none = Scripted(Some(Duration::ZERO), Vec::new());
        let seen = observe(none, Duration::from_secs(5)).await;
        assert_eq!(seen.class(), Some(Class::DnsFailure));
        assert_eq!(seen.last_phase, Phase::Dns);
        assert_eq!(seen.timed_out, None);
    }

    #[tokio::test]
    async fn a_slow_resolver_is_charged_to_dns_and_its_addresses_are_bounded() {
        let delay = Duration::from_millis(60);
        let many = vec![IpAddr::V4(Ipv4Addr::LOCALHOST); 40];
        let seen = observe(Scripted(Some(delay), many), Duration::from_secs(5)).await;
        assert_eq!(seen.class(), Some(Class::ConnectRefused));
        assert_eq!(seen.last_phase, Phase::Connect);
        let dns = seen.timeline.dns.and_then(|dns| dns.length());
        assert!(dns.is_some_and(|dns| dns >= delay));
        assert_eq!(seen.connection.addresses.len(), 16);
    }
}
