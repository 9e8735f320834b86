//! Plan and evidence values for the tests of this module.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::dialect::{Message, Protocol};
use crate::expect::Expect;
use crate::observation::{Connection, Counts, Ending, Observation, Packets, Phase, Timeline};
use crate::plan::{
    Cell, ConnectionMode, Endpoint, HttpVersion, Propagation, Proxy, Relay, Retry, Sampling,
    Timing, TransportKind, Workload,
};
use crate::stream::Timeouts;

/// Seconds to wait: 0.5, 1, 2, 4, then 8; no jitter; 429, 503 and connect.
pub(super) fn retry() -> Retry {
    Retry {
        statuses: vec![429, 503],
        connect: true,
        max: 7,
        backoff: Duration::from_millis(500),
        factor: 2.0,
        jitter: false,
        cap: Duration::from_secs(8),
        obey_retry_after: true,
    }
}

/// An attempt that ended before anything happened.
pub(super) fn observation() -> Observation {
    Observation {
        timeline: Timeline::default(),
        ending: Ending::Unreachable,
        timed_out: None,
        lost: None,
        last_phase: Phase::Connect,
        findings: Vec::new(),
        warnings: Vec::new(),
        parse_ok: true,
        interrupted: true,
        status: None,
        headers: Vec::new(),
        retry_after: None,
        error_code: None,
        error_kind: None,
        model: None,
        response_id: None,
        fingerprint: None,
        finish_reason: None,
        usage: None,
        sealed: None,
        unmet: Vec::new(),
        own_count: None,
        words: Vec::new(),
        packets: Packets::default(),
        counts: Counts::default(),
        connection: Connection::default(),
        text: None,
    }
}

/// A relay at `http://relay.example/v1`.
pub(super) fn relay() -> Relay {
    Relay {
        name: "alpha".to_owned(),
        endpoint: Endpoint::Url("http://relay.example/v1".to_owned()),
        protocol: Protocol::OpenaiChat,
        stream: true,
        connection: ConnectionMode::Fresh,
        transport: TransportKind::Raw,
        http: HttpVersion::Http1,
        proxy: Proxy::None,
        ca_file: None,
        timeouts: Timeouts::default(),
        retry: retry(),
        headers: BTreeMap::new(),
        api_key: None,
        propagate: Propagation::None,
        required: false,
    }
}

/// One question to [`relay`].
pub(super) fn cell() -> Cell {
    Cell {
        relay: relay(),
        model: "test-model".to_owned(),
        workload: Workload {
            name: "chat".to_owned(),
            messages: vec![Message {
                role: "user".to_owned(),
                content: "{{nonce}} Hello".to_owned(),
            }],
            params: serde_json::Map::new(),
            expect: Expect::default(),
            calibration: None,
            concurrency: None,
        },
        objectives: Vec::new(),
        id: "cell".to_owned(),
        ignored: None,
        price: None,
        region: None,
        beside: None,
    }
}

/// Ten starts a second on average, no warm-ups, no limits to speak of.
pub(super) fn sampling(max_samples: u64) -> Sampling {
    Sampling {
        seed: 7,
        rate_per_s: 10.0,
        max_samples,
        concurrency: 1000,
        warmup: 0,
        max_tokens: None,
        max_duration: None,
        max_cost_usd: None,
        mode: Timing::Burst,
        duration: None,
        start_unix_ns: None,
    }
}
