//! The maps of a spec and their keys.

use super::{Key, Kind, Size, Table};
use crate::dialect::Protocol;
use crate::objective::Severity;
use crate::plan::{
    ConnectionMode, Content, HttpVersion, Method, Mode, OnInconclusive, Overload, Propagation,
    Scope, Stop, Timing, Tokens, TransportKind, ZERO_FAILURE,
};
use crate::spec::MOST_SAMPLES;
use crate::spec::workload::MOST_STREAMS;

/// Every map, in the order of the reference.
pub(super) static ALL: &[&Table] = &[
    &SPEC, &DEFAULTS, &RELAY, &API_KEY, &PROXY, &TLS, &TIMEOUTS, &RETRY, &PRICE, &SIMULATE,
    &BASELINE, &WORKLOAD, &MESSAGE, &EXPECT, &SHAPE, &DETECT, &MATRIX, &EXCLUSION, &REGION,
    &WINDOW, &SAMPLING, &LIMITS, &JUDGE, &SLO, &PROFILE, &OTEL,
];

const fn table(place: &'static str, about: &'static str, keys: &'static [&'static [Key]]) -> Table {
    Table {
        place,
        about,
        keys,
        size: Size::Any,
    }
}

/// The names of a closed set.
macro_rules! words {
    ($set:ty) => {
        Kind::Words(|| <$set>::ALL.iter().map(|it| it.as_str()).collect())
    };
}

pub(super) static SPEC: Table = table(
    "",
    "An acceptance test for LLM API relays: which relays, asked what, sampled how, and what they promise.",
    &[
        &[
            Key::new("relayproof", Kind::Exactly(1), "version of the spec").must(),
            Key::new("name", Kind::Name, "name of the spec in reports and traces")
                .usual("the file's name"),
            Key::new(
                "vars",
                Kind::MapOf(&Kind::Single, 0),
                "values for `${vars.NAME}`",
            )
            .shown("map of single values")
            .example(r#"{ "model": "gpt-4o-mini" }"#),
            Key::new(
                "defaults",
                Kind::Map(&DEFAULTS),
                "relay keys that every relay inherits",
            ),
            Key::new(
                "relays",
                Kind::List(&Kind::Map(&RELAY)),
                "the relays under test",
            )
            .must()
            .shown("list"),
            Key::new(
                "baseline",
                Kind::Map(&BASELINE),
                "the trusted upstream itself, asked beside the relays in a soak; it is not judged",
            )
            .usual("none"),
            Key::new(
                "workloads",
                Kind::List(&Kind::Map(&WORKLOAD)),
                "what is asked",
            )
            .usual("one built-in prompt")
            .shown("list"),
            Key::new(
                "matrix",
                Kind::Map(&MATRIX),
                "combinations that are left out",
            ),
            Key::new(
                "regions",
                Kind::List(&PLACE),
                "where probes stand; each says which it is: `RELAYPROOF_REGION`",
            )
            .usual("none")
            .shown("list of names or maps")
            .example(r#"["hk", "usw"]"#),
            Key::new(
                "windows",
                Kind::List(&Kind::Map(&WINDOW)),
                "parts of the day that objectives refer to",
            )
            .usual("none")
            .shown("list"),
        ],
        OVERLAID,
        &[
            Key::new(
                "profiles",
                Kind::MapOf(&Kind::Map(&PROFILE), 256),
                "overlays of `sampling`, `judge` and `slos`; see below",
            )
            .shown("map of names"),
            Key::new("otel", Kind::Map(&OTEL), "telemetry").usual("see below"),
        ],
    ],
);

/// What a profile may lay over a spec.
const OVERLAID: &[Key] = &[
    Key::new("sampling", Kind::Map(&SAMPLING), "how samples are drawn").usual("see below"),
    Key::new("judge", Kind::Map(&JUDGE), "how samples are judged").usual("see below"),
    SLOS.must(),
];

const SLOS: Key = Key::new("slos", Kind::List(&PROMISE), "what is promised")
    .shown("list")
    .example(r#"["ttft.p95 < 1.5s", "parse_success >= 99%", "interruption < 1%"]"#);

static PROMISE: Kind = Kind::Either(&[Kind::Objective { mean: false }, Kind::Map(&SLO)]);

pub(super) static PROFILE: Table = table(
    "profiles.NAME",
    "An overlay: its maps are merged into the spec's, its `slos` replace the spec's.",
    &[&[
        Key::new("sampling", Kind::Map(&SAMPLING), "how samples are drawn").usual("the spec's"),
        Key::new("judge", Kind::Map(&JUDGE), "how samples are judged").usual("the spec's"),
        SLOS.usual("the spec's"),
    ]],
);

static PLACE: Kind = Kind::Either(&[Kind::Name, Kind::Map(&REGION)]);

pub(super) static REGION: Table = table(
    "regions[]",
    "Where a probe stands.",
    &[&[
        Key::new("name", Kind::Name, "name of the region")
            .must()
            .example(r#""hk""#),
        Key::new(
            "budget_share",
            Kind::Share,
            "its share of samples and money; all of them are 100%",
        )
        .usual("an even part of what is left"),
    ]],
);

pub(super) static WINDOW: Table = table(
    "windows[]",
    "A part of the day; a sample belongs to every window that holds its planned start.",
    &[&[
        Key::new("name", Kind::Name, "name of the window")
            .must()
            .example(r#""peak""#),
        Key::new(
            "daily",
            Kind::Daily,
            "from when to when by the clock on the wall; it may cross midnight and belongs to the \
             day on which it begins",
        )
        .usual("the whole day")
        .example(r#""21:00-01:00""#),
        Key::new("tz", Kind::Text, "IANA name of the time zone")
            .usual("`UTC`")
            .shown("name of a zone")
            .example(r#""Asia/Shanghai""#),
    ]],
);

pub(super) static BASELINE: Table = table(
    "baseline",
    "The trusted upstream itself: keys of a relay, and how often it is asked beside one.",
    &[
        &[
            Key::new("name", Kind::Name, "its name")
                .must()
                .example(r#""official""#),
            Key::new("base_url", Kind::Url, "as in `relays[]`")
                .usual("required, or `simulate`")
                .example(r#""https://api.example/v1""#),
            Key::new(
                "simulate",
                Kind::Map(&SIMULATE),
                "an embedded relay on loopback instead",
            )
            .usual("–"),
            Key::new(
                "pair",
                Kind::Share,
                "share of the slots that both are asked, within a second and in random order",
            )
            .usual("`10%`"),
            Key::new(
                "calibration",
                Kind::Whole(20, 1000),
                "calls of one fixed prompt to each relay and to the baseline, spread over the soak, \
                 whose answers are compared: [signoff.md](signoff.md#signals)",
            )
            .usual("none"),
            Key::new(
                "pricing",
                Kind::MapOf(&Kind::Map(&PRICE), 256),
                "what it charges",
            )
            .usual("unknown")
            .shown("map of models"),
        ],
        COMMON,
    ],
);

pub(super) static DEFAULTS: Table = table("defaults", "Keys that every relay inherits.", &[COMMON]);

pub(super) static RELAY: Table = table(
    "relays[]",
    "A relay under test.",
    &[
        &[
            Key::new("name", Kind::Name, "name of the relay")
                .must()
                .example(r#""alpha""#),
            Key::new(
                "base_url",
                Kind::Url,
                "as the official SDK takes it: with `/v1`, without it for `anthropic-messages` and \
                 `gemini`; no user, password or query",
            )
            .usual("required, or `simulate`")
            .example(r#""https://relay.example/v1""#),
            Key::new(
                "simulate",
                Kind::Map(&SIMULATE),
                "an embedded relay on loopback instead",
            )
            .usual("–"),
            Key::new("extends", Kind::Text, "inherit from another relay").usual("–"),
            Key::new(
                "ignored",
                Kind::Text,
                "list the tests as ignored, with this reason",
            )
            .usual("–"),
            Key::new(
                "regions",
                Kind::List(&Kind::Name),
                "the regions from which it is sampled",
            )
            .usual("all of them")
            .shown("list of names"),
            Key::new(
                "pricing",
                Kind::MapOf(&Kind::Map(&PRICE), 256),
                "what the relay charges; see below",
            )
            .usual("unknown")
            .shown("map of models")
            .example(r#"{ "gpt-4o-mini": { "input": 0.15, "output": 0.6 } }"#),
        ],
        COMMON,
    ],
);

static PROXIES: [Kind; 2] = [Kind::Words(|| vec!["none", "env"]), Kind::Map(&PROXY)];

/// What `defaults` may hold, too.
const COMMON: &[Key] = &[
    Key::new("models", Kind::List(&Kind::Text), "models to ask for")
        .usual("required; `[simulated]` for an embedded relay")
        .example(r#"["gpt-4o-mini"]"#),
    Key::new(
        "api_key",
        Kind::Map(&API_KEY),
        "where the key is; a literal key is refused",
    )
    .usual("none is sent")
    .example(r#"{ "env": "ALPHA_KEY" }"#),
    Key::new(
        "headers",
        Kind::MapOf(&Kind::Text, 64),
        "further request headers, at most 64; refused are those that hold a key and those that \
         relayproof sets itself, with `propagate: request_id` also `x-request-id`",
    )
    .example(r#"{ "X-Tenant": "qa" }"#),
    Key::new(
        "required",
        Kind::Flag,
        "a missing key fails the tests instead of ignoring them",
    )
    .usual("`false`"),
    Key::new(
        "protocol",
        words!(Protocol),
        "wire protocol; `max_tokens` and other common parameters get the protocol's own names",
    )
    .usual("`openai-chat`"),
    Key::new("stream", Kind::True, "answers are streamed").usual("`true`"),
    Key::new(
        "connection",
        words!(ConnectionMode),
        "DNS, TCP and TLS for each call, or a warm pool",
    )
    .usual("`fresh`"),
    Key::new(
        "transport",
        words!(TransportKind),
        "HTTP client; `raw` is HTTP/1.1 straight to the relay and shows HTTP framing",
    )
    .usual("`reqwest`"),
    Key::new("http", words!(HttpVersion), "HTTP version").usual("`auto`"),
    Key::new(
        "proxy",
        Kind::Either(&PROXIES),
        "the way to the relay; `env` takes it from `HTTPS_PROXY` and its kin",
    )
    .usual("`none`")
    .shown("`none`, `env`, map"),
    Key::new(
        "propagate",
        words!(Propagation),
        "what the relay is told of the trace of a call: \
         [telemetry.md](telemetry.md#what-a-relay-is-told)",
    )
    .usual("`none`"),
    Key::new("tls", Kind::Map(&TLS), "trust"),
    Key::new("timeouts", Kind::Map(&TIMEOUTS), "time limits").usual("see below"),
    Key::new("retry", Kind::Map(&RETRY), "what is tried again").usual("see below"),
];

pub(super) static API_KEY: Table = Table {
    place: "relays[].api_key",
    about: "Where the API key is: one of its keys. Nothing is filled in here.",
    keys: &[&[
        Key::new(
            "env",
            Kind::Variable,
            "the environment variable that holds the key",
        )
        .usual("–")
        .shown("name of a variable"),
        Key::new(
            "file",
            Kind::Plain,
            "the file that holds the key, from the spec's folder",
        )
        .usual("–")
        .shown("path"),
        Key::new(
            "command",
            Kind::Command,
            "program and arguments; it prints the key and runs in the spec's folder",
        )
        .usual("–")
        .shown("list of texts"),
    ]],
    size: Size::One,
};

pub(super) static PROXY: Table = table(
    "relays[].proxy",
    "A proxy of the spec's own.",
    &[&[Key::new(
        "url",
        Kind::ProxyUrl,
        "`http://`, `https://`, `socks5://` or `socks5h://`",
    )
    .must()
    .shown("URL")
    .example(r#""socks5h://127.0.0.1:1080""#)]],
);

pub(super) static TLS: Table = table(
    "relays[].tls",
    "Whom to trust.",
    &[&[Key::new(
        "ca_file",
        Kind::Text,
        "further trusted certificates, PEM; relative to the spec's folder",
    )
    .shown("path")]],
);

pub(super) static TIMEOUTS: Table = table(
    "relays[].timeouts",
    "Time limits of a call.",
    &[&[
        Key::new("dns", Kind::Duration, "name resolution").usual("`2s`"),
        Key::new(
            "connect",
            Kind::Duration,
            "TCP connect, a proxy's tunnel included",
        )
        .usual("`3s`"),
        Key::new("tls", Kind::Duration, "TLS handshake").usual("`3s`"),
        Key::new(
            "headers",
            Kind::Duration,
            "from the start of the call to the response head",
        )
        .usual("`30s`"),
        Key::new(
            "first_token",
            Kind::Duration,
            "from the start of the call to the first output of the model",
        )
        .usual("`60s`"),
        Key::new("idle", Kind::Duration, "between two outputs of the model").usual("`10s`"),
        Key::new("total", Kind::Duration, "the whole call, from its start").usual("`120s`"),
    ]],
);

pub(super) static RETRY: Table = table(
    "relays[].retry",
    "What is tried again, before the first token only.",
    &[&[
        Key::new(
            "when",
            Kind::Anything(&Kind::Retried),
            "what is tried again",
        )
        .usual("`[429, 500, 502, 503, 504, connect]`")
        .shown("list of statuses from 400 to 599 and `connect`")
        .example(r#"[429, 500, 502, 503, 504, "connect"]"#),
        Key::new("max", Kind::Whole(0, 3), "most retries").usual("`3`"),
        Key::new("backoff", Kind::DurationOrZero, "first wait").usual("`500ms`"),
        Key::new("factor", Kind::Number(1.0, 10.0), "growth of the wait").usual("`2`"),
        Key::new(
            "jitter",
            Kind::Words(|| vec!["full", "none"]),
            "draw the wait between zero and its length",
        )
        .usual("`full`"),
        Key::new("cap", Kind::Duration, "longest wait").usual("`8s`"),
        Key::new(
            "retry_after",
            Kind::Words(|| vec!["obey", "ignore"]),
            "whether `Retry-After` counts",
        )
        .usual("`obey`"),
    ]],
);

/// Most of any price.
const MOST_PRICE: f64 = 1_000_000.0;

pub(super) static PRICE: Table = table(
    "relays[].pricing",
    "What a million tokens cost.",
    &[&[
        Key::new(
            "input",
            Kind::Number(0.0, MOST_PRICE),
            "price of a million prompt tokens",
        )
        .must(),
        Key::new(
            "cached_input",
            Kind::Number(0.0, MOST_PRICE),
            "price of a million prompt tokens that the answer reports as cached",
        )
        .usual("as `input`"),
        Key::new(
            "output",
            Kind::Number(0.0, MOST_PRICE),
            "price of a million tokens of the answer, reasoning included",
        )
        .must(),
        Key::new(
            "multiplier",
            Kind::Number(0.0, MOST_PRICE),
            "the relay's factor on all of these, often called its group ratio",
        )
        .usual("`1`"),
        Key::new(
            "fx",
            Kind::Number(0.000_001, MOST_PRICE),
            "prices are credits, and a US dollar buys so many of them",
        )
        .usual("prices are US dollars"),
    ]],
);

pub(super) static SIMULATE: Table = table(
    "relays[].simulate",
    "The embedded relay on loopback: no network, no key.",
    &[&[
        Key::new(
            "first_token",
            Kind::DurationOrZero,
            "from request to first token",
        )
        .usual("`120ms`"),
        Key::new("token_gap", Kind::DurationOrZero, "between tokens").usual("`15ms`"),
        Key::new("tokens", Kind::Whole(1, 100_000), "tokens of an answer").usual("`64`"),
        Key::new("tls", Kind::Flag, "HTTPS, with a certificate made at start").usual("`false`"),
        Key::new(
            "faults",
            Kind::Anything(&Kind::Fault),
            "which share of the calls is hit by which fault",
        )
        .shown("list of `{ NAME: PERCENTAGE, … }`")
        .example(r#"[{ "truncate": "2%", "after_tokens": 10 }]"#),
        Key::new(
            "capacity",
            Kind::Whole(1, MOST_STREAMS as u64),
            "most answers at a time",
        )
        .usual("no bound"),
        Key::new(
            "overload",
            words!(Overload),
            "what becomes of a call beyond the capacity: it waits for its turn, or is answered 429",
        )
        .usual("`queue`"),
    ]],
);

pub(super) static WORKLOAD: Table = table(
    "workloads[]",
    "What is asked, and what an answer must be like.",
    &[&[
        Key::new("name", Kind::Name, "name of the workload")
            .must()
            .example(r#""chat""#),
        Key::new(
            "messages",
            Kind::List(&Kind::Map(&MESSAGE)),
            "what is asked",
        )
        .must()
        .shown("list"),
        Key::new(
            "params",
            Kind::Params,
            "further members of the request, as they are, but for the budget and `stop`, which \
             each protocol calls by its own name; `model`, `messages`, `stream` and \
             `stream_options` are set by relayproof",
        )
        .usual("`{ max_tokens: 128 }`")
        .example(r#"{ "max_tokens": 120, "temperature": 0 }"#),
        Key::new("expect", Kind::Map(&EXPECT), "what an answer must be like"),
        Key::new(
            "concurrency",
            Kind::Whole(1, MOST_STREAMS as u64),
            "calls that are held open at all times, in place of starts at the rate: \
             [ramp.md](ramp.md#a-promise-at-a-stated-load)",
        )
        .usual("starts at the rate"),
    ]],
);

pub(super) static MESSAGE: Table = table(
    "workloads[].messages[]",
    "A message of the request.",
    &[&[
        Key::new(
            "role",
            Kind::Words(|| crate::spec::workload::ROLES.to_vec()),
            "who says it",
        )
        .must(),
        Key::new(
            "content",
            Kind::Text,
            "what is said; `{{nonce}}`, `{{seal}}` and `{{index}}` are filled in for each call",
        )
        .must()
        .example(r#""{{nonce}} List five uses of a brick. End your answer with `{{seal}}`.""#),
    ]],
);

pub(super) static EXPECT: Table = table(
    "workloads[].expect",
    "What an answer must be like to be usable.",
    &[&[
        Key::new("finish_reason", Kind::Texts, "finish reasons that are fine")
            .usual("any")
            .example(r#"["stop"]"#),
        Key::new(
            "min_chars",
            Kind::Whole(1, 1_000_000),
            "fewest characters of the answer",
        ),
        Key::new("contains", Kind::Texts, "texts that must be in the answer"),
        Key::new("not_contains", Kind::Texts, "texts that must not be in it"),
        Key::new(
            "seal_allowance",
            Kind::Share,
            "share of normal stops that may lack the seal before `usable` is violated: \
             [verdicts.md](verdicts.md#seals); refused where no seal is asked for",
        )
        .usual("`2%`")
        .shown("0% to 50%"),
        Key::new(
            "shape",
            Kind::Map(&SHAPE),
            "shape of a whole answer, a seal without a nonce: [streams.md](streams.md#seals)",
        ),
        Key::new(
            "detect",
            Kind::Map(&DETECT),
            "where the detectors of odd streams draw their lines: \
             [streams.md](streams.md#lines-that-can-be-moved)",
        )
        .usual("see there"),
    ]],
);

pub(super) static SHAPE: Table = Table {
    place: "workloads[].expect.shape",
    about: "The shape of a whole answer: one of its keys.",
    keys: &[&[
        Key::new(
            "numbered_lines",
            Kind::Whole(1, 10_000),
            "lines that begin with `1.` up to this number",
        )
        .usual("–"),
        Key::new("json", Kind::Texts, "one JSON object with these members").usual("–"),
    ]],
    size: Size::One,
};

/// A count of the detectors.
const MOST_COUNT: Kind = Kind::Whole(1, 1_000_000);

pub(super) static DETECT: Table = table(
    "workloads[].expect.detect",
    "Where the detectors of odd streams draw their lines.",
    &[&[
        Key::new("burst_gap", Kind::Duration, "the silence that ends a burst").usual("`50ms`"),
        Key::new(
            "least_tokens",
            MOST_COUNT,
            "fewest tokens of an answer that has to arrive piece by piece",
        )
        .usual("`16`"),
        Key::new(
            "least_chars",
            MOST_COUNT,
            "fewest characters of such an answer",
        )
        .usual("`32`"),
        Key::new(
            "heap_events",
            MOST_COUNT,
            "fewest events of an answer in one burst, where one event ordinarily holds many tokens",
        )
        .usual("`4`"),
        Key::new(
            "heap_tokens",
            MOST_COUNT,
            "fewest tokens of one with fewer events",
        )
        .usual("`512`"),
        Key::new("block_events", MOST_COUNT, "fewest events of a block").usual("`8`"),
        Key::new(
            "block_pause",
            Kind::Duration,
            "shortest pause between blocks, on average",
        )
        .usual("`200ms`"),
        Key::new("blocks", MOST_COUNT, "fewest blocks of a buffer").usual("`3`"),
        Key::new(
            "put_bytes",
            MOST_COUNT,
            "shortest piece that is no token of a model but a text that somebody put there",
        )
        .usual("`16`"),
        Key::new(
            "growths",
            MOST_COUNT,
            "how often a delta must have grown out of the one before to be cumulative",
        )
        .usual("`2`"),
        Key::new(
            "id_changes",
            MOST_COUNT,
            "most changes of an id that can be a splice; more are a habit",
        )
        .usual("`3`"),
        Key::new(
            "length_tolerance",
            Kind::Share,
            "how far below the budget a cut at the budget may be",
        )
        .usual("`10%`"),
    ]],
);

pub(super) static MATRIX: Table = table(
    "matrix",
    "Which combinations of relay, model and workload are sampled: all but these.",
    &[&[Key::new(
        "exclude",
        Kind::List(&Kind::Map(&EXCLUSION)),
        "combinations that are left out",
    )
    .shown("list of `{ relay, model, workload }`")]],
);

pub(super) static EXCLUSION: Table = Table {
    place: "matrix.exclude[]",
    about: "A combination that is left out; an absent part stands for all.",
    keys: &[&[
        Key::new("relay", Kind::Text, "name of the relay").usual("all"),
        Key::new("model", Kind::Text, "the model").usual("all"),
        Key::new("workload", Kind::Text, "name of the workload").usual("all"),
    ]],
    size: Size::Some,
};

pub(super) static SAMPLING: Table = table(
    "sampling",
    "How samples are drawn.",
    &[&[
        Key::new(
            "seed",
            Kind::Whole(0, u64::MAX),
            "the same seed gives the same starts and texts",
        )
        .usual("made from the spec's name")
        .shown("whole number"),
        Key::new(
            "mode",
            words!(Timing),
            "samples are drawn now, or spread over `duration` by `relayproof collect`",
        )
        .usual("`burst`"),
        Key::new(
            "duration",
            Kind::Duration,
            "over how long a soak is spread; a burst has none",
        )
        .usual("required for a soak")
        .example(r#""7d""#),
        Key::new(
            "start",
            Kind::Moment,
            "when a soak begins, with its offset from UTC",
        )
        .usual("when it is first collected; required with several regions")
        .shown("date and time")
        .example(r#""2026-12-01T00:00:00Z""#),
        Key::new(
            "rate",
            Kind::Rate,
            "starts of each cell, at random moments, never waiting for an answer",
        )
        .usual("`120/min`; `100/s` where every relay is embedded")
        .example(r#""120/min""#),
        Key::new(
            "max_samples",
            Kind::Whole(1, MOST_SAMPLES),
            "most samples of a cell",
        )
        .usual("see below"),
        Key::new(
            "concurrency",
            Kind::Whole(1, 65_536),
            "most open calls; a start delayed by it is recorded as lag",
        )
        .usual("`512`"),
        Key::new(
            "warmup",
            Kind::Whole(0, 1000),
            "calls before the counted ones",
        )
        .usual("`0`"),
        Key::new(
            "limits",
            Kind::Map(&LIMITS),
            "where sampling ends at the latest",
        ),
    ]],
);

pub(super) static LIMITS: Table = table(
    "sampling.limits",
    "Where sampling ends at the latest.",
    &[&[
        Key::new(
            "max_tokens",
            Kind::Count,
            "most tokens of the whole spec, prompts and answers",
        )
        .example(r#""8M""#),
        Key::new(
            "max_duration",
            Kind::Duration,
            "longest time of a cell; what is open then is inconclusive",
        )
        .example(r#""30m""#),
        Key::new(
            "max_cost",
            Kind::Money,
            "most money of the whole spec by the price tables, reserved before a call is sent",
        )
        .example(r#""25 USD""#),
    ]],
);

pub(super) static JUDGE: Table = table(
    "judge",
    "How samples are judged.",
    &[&[
        Key::new(
            "method",
            words!(Method),
            "look after every sample and stop early, or look once at the end, by Wilson's bounds or \
             by the exact ones",
        )
        .usual("`sequential`"),
        Key::new(
            "confidence",
            Kind::Share,
            "100% minus the chance that a relay passes which does not meet its objective",
        )
        .usual("`95%`")
        .shown("percentage above 50%"),
        Key::new(
            "mode",
            words!(Mode),
            "a pass is shown, or only not shown to be violated",
        )
        .usual("`prove`"),
        Key::new(
            "on_inconclusive",
            words!(OnInconclusive),
            "what an open question does to the test",
        )
        .usual("`fail`"),
        Key::new(
            "stop",
            words!(Stop),
            "sample until every gating objective is decided, or until the first is violated",
        )
        .usual("`all`"),
        Key::new(
            "design_ratio",
            Kind::Either(&[Kind::Number(2.0, 20.0), Kind::Words(|| vec![ZERO_FAILURE])]),
            "how much better than promised a relay has to be to pass soon; `zero_failure` takes the \
             fewest samples and forgives no failure",
        )
        .usual("`5`")
        .shown("2 to 20, `zero_failure`"),
        Key::new("futility", Kind::Flag, "close an objective that can no longer pass")
            .usual("`true`"),
        Key::new(
            "tokens",
            words!(Tokens),
            "count tokens as reported, or one for each content event",
        )
        .usual("`usage`"),
        Key::new(
            "scope",
            words!(Scope),
            "a verdict about the sampled moments, or about the days of a soak",
        )
        .usual("`campaign` for a soak, else `run`"),
        Key::new(
            "bucket",
            Kind::Duration,
            "how long one vote of a campaign lasts: five times as long as a disturbance",
        )
        .usual("`10m`")
        .shown("1s to 1d"),
        Key::new(
            "min_days",
            Kind::Whole(1, 366),
            "days that a pass of a campaign needs",
        )
        .usual("`3`"),
    ]],
);

pub(super) static SLO: Table = table(
    "slos[]",
    "An objective with settings of its own.",
    &[&[
        Key::new("expect", Kind::Objective { mean: true }, "the objective")
            .must()
            .shown("objective")
            .example(r#""ttft.p95 < 1.5s""#),
        Key::new(
            "severity",
            words!(Severity),
            "whether a miss fails the test or warns",
        )
        .usual("`gate`"),
        Key::new("confidence", Kind::Share, "for this objective")
            .usual("that of `judge`")
            .shown("percentage above 50%")
            .example(r#""99%""#),
        Key::new("window", Kind::Name, "the window whose samples it is about").usual("all samples"),
    ]],
);

pub(super) static OTEL: Table = table(
    "otel",
    "Telemetry.",
    &[&[
        Key::new(
            "trace_url",
            Kind::TraceUrl,
            "address of a trace, printed with failing samples where spans were exported: \
             [telemetry.md](telemetry.md#links)",
        )
        .usual("from the environment")
        .shown("text with `{trace_id}`, `jaeger:URL`, `tempo:URL`")
        .example(r#""http://127.0.0.1:16686/trace/{trace_id}""#),
        Key::new(
            "ci_parent",
            Kind::Words(|| vec!["link", "parent"]),
            "whether the trace context of CI is linked to, or the parent of the run",
        )
        .usual("`link`"),
        Key::new(
            "content",
            words!(Content),
            "what spans say of prompts and answers: [telemetry.md](telemetry.md#prompts-and-answers)",
        )
        .usual("`none`"),
        Key::new(
            "content_in_ci",
            Kind::Flag,
            "allow `content: full` where `CI` is set in the environment",
        )
        .usual("`false`"),
    ]],
);
