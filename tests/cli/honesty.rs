//! What a run must not hide: a relay that stands still, and its own want of means.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::place::{Place, Seen};
use crate::server::{Server, honest, wait_for_leave};

/// The relay stands still from here to there, after its first request.
const STILL: (Duration, Duration) = (Duration::from_millis(2000), Duration::from_millis(2500));
/// What comes meanwhile waits at least this long.
const HOLD: Duration = Duration::from_millis(300);

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the relay of the test goes by the clock, as real ones do"
)]
fn a_relay_that_stands_still_a_tenth_of_the_time_is_measured_as_doing_so() {
    let (held, first) = (Arc::new(AtomicU64::new(0)), OnceLock::new());
    let count = Arc::clone(&held);
    let server = Server::start(move |_, _, stream: &mut TcpStream| {
        let since = first.get_or_init(Instant::now).elapsed();
        if (STILL.0..STILL.1).contains(&since) {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(STILL.1.saturating_sub(since) + HOLD);
        }
        stream.write_all(honest("m").as_bytes())
    });
    let place = Place::new();
    // 200 starts in some five seconds, of which the relay stands still half a second.
    let text = format!(
        "relayproof: 1
relays:
  - {{ name: r, base_url: \"{}\", models: [m] }}
sampling: {{ seed: 4, rate: 40/s, max_samples: 200 }}
judge: {{ method: exact }}
slos: [ttft.p50 < 250ms]
",
        server.base_url()
    );
    place.write("s.yaml", &text);
    place.run(&["run", "s.yaml", "--run-id", "r"]);
    let evidence = place.evidence("r");
    assert_eq!(evidence.samples.len(), 200, "every planned call was made");
    let slow = evidence.samples.iter().filter(|sample| {
        let first_token = sample.attempts[0].observation.timeline.first_token;
        first_token.is_none_or(|at| at >= HOLD)
    });
    let (slow, held) = (slow.count() as u64, held.load(Ordering::SeqCst));
    assert!(slow >= held, "{slow} of {held}");
    // Binomial(200, 0.1) is outside of 6 to 36 less than once in a thousand times. Whoever waits
    // for an answer before the next call would be held once.
    assert!((6..=36).contains(&held), "{held} of 200 were held");
}

#[test]
#[cfg(target_os = "linux")]
fn a_machine_without_files_for_its_calls_blames_no_relay() {
    // It answers twenty calls and keeps all others waiting.
    let server = Server::start(|number, _, stream: &mut TcpStream| {
        if number < 20 {
            stream.write_all(honest("m").as_bytes())
        } else {
            wait_for_leave(stream)
        }
    });
    let place = Place::new();
    let text = format!(
        "relayproof: 1
relays:
  - name: r
    base_url: \"{}\"
    models: [m]
    retry: {{ max: 0 }}
sampling: {{ rate: 100/s, max_samples: 300, limits: {{ max_duration: 2s }} }}
slos: [http_success >= 90%]
",
        server.base_url()
    );
    place.write("s.yaml", &text);
    // Room for the measuring threads and a few calls, which stay open.
    let mut command = place.through_shell("ulimit -n 48", &["run", "s.yaml", "--run-id", "r"]);
    let seen = Seen::of(command.output().unwrap());
    seen.exits(3).says("the run is invalid").says("on our side");
    assert!(!seen.out.contains("VIOLATED"), "{seen}");
    let evidence = place.evidence("r");
    let ours = evidence
        .samples
        .iter()
        .filter(|it| it.failed_for_our_want());
    assert!(ours.count() > 10, "{seen}");
}
