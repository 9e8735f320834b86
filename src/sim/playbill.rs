//! Which case is played where.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpSocket;

use super::case::{Case, Reach, is_own_path};
use super::script::Script;

/// Most cases of one relay.
const MAX_CASES: usize = 10_000;

/// A name that never resolves.
const NO_SUCH_NAME: &str = "http://relay-under-test.invalid";

/// A case that a relay plays, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The case's id.
    pub id: String,
    /// Its protocol.
    pub protocol: String,
    /// The base URL that a client needs to meet it.
    pub base_url: String,
}

/// The answers of all cases, by id.
#[derive(Debug, Default)]
pub(super) struct Playbill {
    answers: HashMap<String, Arc<Script>>,
    /// Holds a port on which nothing listens, as long as the relay is there.
    _dead_port: Option<TcpSocket>,
}

/// Why cases cannot be played.
#[derive(Debug)]
pub(super) enum Error {
    /// They do not go together, or not with the relay.
    Cases(String),
    /// No port is to be had.
    Port(io::Error),
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Billed<'a> {
    /// A case's answer.
    Case(&'a str, Arc<Script>),
    /// A name that no case has.
    Nothing,
    /// What the relay says by itself.
    OwnAnswer,
}

impl Playbill {
    /// The cases of a relay that is found at `own`, which has no path.
    pub(super) fn new(
        cases: Vec<Case>,
        own: &str,
        tls: bool,
        ip: IpAddr,
    ) -> Result<(Self, Vec<Played>), Error> {
        if cases.len() > MAX_CASES {
            return Err(Error::Cases(format!("more than {MAX_CASES} cases")));
        }
        let mut bill = Self::default();
        let mut dead = None;
        let mut played: Vec<Played> = Vec::with_capacity(cases.len());
        for case in cases {
            let id = case.id().to_owned();
            if played.iter().any(|other| other.id == id) {
                return Err(Error::Cases(format!("two cases have the id `{id}`")));
            }
            let at = match case.reach() {
                Reach::Answer(script) => {
                    bill.answers.insert(id.clone(), Arc::clone(script));
                    format!("{own}/{id}")
                }
                Reach::NoSuchName => NO_SUCH_NAME.to_owned(),
                Reach::Refused => {
                    let address = match dead {
                        Some(address) => address,
                        None => {
                            let (socket, address) = dead_port(ip).map_err(Error::Port)?;
                            bill._dead_port = Some(socket);
                            *dead.insert(address)
                        }
                    };
                    format!("http://{address}")
                }
                Reach::PlainPort if tls => {
                    return Err(Error::Cases(format!(
                        "the case `{id}` needs a plain port, and the relay speaks TLS"
                    )));
                }
                Reach::PlainPort => {
                    let place = own.strip_prefix("http://").unwrap_or(own);
                    format!("https://{place}/{id}")
                }
            };
            played.push(Played {
                protocol: case.protocol().to_owned(),
                base_url: format!("{at}{}", case.path()),
                id,
            });
        }
        Ok((bill, played))
    }

    /// What this path leads to.
    pub(super) fn at(&self, path: &str) -> Billed<'_> {
        let segment = path.split('/').nth(1).unwrap_or_default();
        if self.answers.is_empty() || is_own_path(segment) {
            return Billed::OwnAnswer;
        }
        let case = self.answers.get_key_value(segment);
        case.map_or(Billed::Nothing, |(id, script)| {
            Billed::Case(id, Arc::clone(script))
        })
    }
}

/// A port that is taken, so that nobody else can listen there, and at which nobody listens.
fn dead_port(ip: IpAddr) -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = match ip {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.bind(SocketAddr::new(ip, 0))?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use super::*;

    fn bill(cases: &[&str], tls: bool) -> Result<(Playbill, Vec<Played>), String> {
        let cases = cases.iter().map(|text| {
            let text = format!("protocol: anthropic-messages\n{text}\n");
            Case::parse(Path::new("x.yaml"), &text).unwrap()
        });
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Playbill::new(cases.collect(), "http://127.0.0.1:9", tls, ip).map_err(|error| match error {
            Error::Cases(why) => why,
            Error::Port(error) => error.to_string(),
        })
    }

    const A: &str = "id: a\nresponse: { steps: [] }";

    #[test]
    fn a_path_leads_to_its_case_to_the_relay_itself_or_nowhere() {
        let (played, cases) = bill(&[A], false).unwrap();
        assert_eq!(cases[0].base_url, "http://127.0.0.1:9/a");
        assert!(matches!(played.at("/a/v1/messages"), Billed::Case("a", _)));
        assert_eq!(played.at("/b/v1/messages"), Billed::Nothing);
        assert_eq!(played.at("/v1/messages"), Billed::OwnAnswer);
        assert_eq!(Playbill::default().at("/b/v1/x"), Billed::OwnAnswer);
    }

    #[tokio::test]
    async fn a_client_that_is_to_fail_before_http_is_led_to_where_it_does() {
        let ways = ["refused", "dns", "tls-plaintext"];
        let cases = ways.map(|how| format!("id: {how}\ntransport: {how}"));
        let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
        let (_held, played) = bill(&cases, false).unwrap();
        let at = |index: usize| played[index].base_url.as_str();
        let dead = at(0).strip_prefix("http://").unwrap();
        let error = tokio::net::TcpStream::connect(dead).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(at(1), "http://relay-under-test.invalid");
        assert_eq!(at(2), "https://127.0.0.1:9/tls-plaintext");
    }

    #[test]
    fn cases_that_cannot_stand_beside_each_other_are_refused() {
        assert!(bill(&[A, A], false).unwrap_err().contains("two cases"));
        let plain = "id: b\ntransport: tls-plaintext";
        assert!(bill(&[plain], true).unwrap_err().contains("plain port"));
    }
}
