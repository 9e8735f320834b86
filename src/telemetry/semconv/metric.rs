//! Every metric that leaves this program, in one table: names of both editions of the GenAI
//! conventions, unit, kind, buckets.
//!
//! No logic. `docs/telemetry.md` lists the same names.

/// Which edition of the GenAI conventions names the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edition {
    /// The names that are in use: `gen_ai.client.operation.*`.
    #[default]
    Released,
    /// The names that replace them: `gen_ai.client.inference.*`.
    Latest,
}

/// How values of one metric add up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A distribution with these upper bounds; without bounds only count and sum are kept.
    Histogram(&'static [f64]),
    /// A count that only grows.
    Counter,
    /// The last value.
    Gauge,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Name in the edition in use; `None` if the metric is not in it.
    pub released: Option<&'static str>,
    /// Name in the newer edition; `None` if the metric is not in it.
    pub latest: Option<&'static str>,
    /// Unit, in UCUM.
    pub unit: &'static str,
    /// How values add up.
    pub kind: Kind,
    /// What is measured.
    pub description: &'static str,
}

impl Row {
    /// The name in an edition; `None` if the metric is not in it.
    pub const fn name(&self, edition: Edition) -> Option<&'static str> {
        match edition {
            Edition::Released => self.released,
            Edition::Latest => self.latest,
        }
    }

    /// Upper bounds of the buckets.
    pub const fn bounds(&self) -> &'static [f64] {
        match self.kind {
            Kind::Histogram(bounds) => bounds,
            Kind::Counter | Kind::Gauge => &[],
        }
    }
}

/// Buckets of the GenAI conventions for seconds.
const GEN_AI_SECONDS: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// Buckets of the GenAI conventions for tokens.
const GEN_AI_TOKENS: &[f64] = &[
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];

/// Buckets of the HTTP and DNS conventions.
const HTTP_SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// Buckets of phases, which may be as short as a write to a socket.
const PHASE_SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// Buckets of times to the first token: narrow where bounds of objectives usually are.
const TTFT_SECONDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0,
    30.0, 60.0,
];

/// Buckets of gaps between packets.
const GAP_SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// Buckets of token rates.
const RATES: &[f64] = &[
    1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1000.0,
];

/// Declares the metrics and the table of all of them.
macro_rules! instruments {
    ($($(#[$doc:meta])* $name:ident = $row:expr,)*) => {
        /// One metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Instrument { $($(#[$doc])* $name,)* }

        impl Instrument {
            /// Every metric, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its row of the table.
            pub const fn row(self) -> &'static Row {
                match self { $(Self::$name => const { &$row },)* }
            }
        }
    };
}

/// A row with one name in both editions.
const fn same(
    name: &'static str,
    unit: &'static str,
    kind: Kind,
    description: &'static str,
) -> Row {
    Row {
        released: Some(name),
        latest: Some(name),
        unit,
        kind,
        description,
    }
}

instruments! {
    /// Length of a model call, all attempts.
    GenAiDuration = Row {
        released: Some("gen_ai.client.operation.duration"),
        latest: Some("gen_ai.client.inference.duration"),
        unit: "s",
        kind: Kind::Histogram(GEN_AI_SECONDS),
        description: "Length of a model call with all its attempts",
    },
    /// Time to the first event of any kind.
    GenAiFirstChunk = Row {
        released: Some("gen_ai.client.operation.time_to_first_chunk"),
        latest: Some("gen_ai.client.inference.time_to_first_chunk"),
        unit: "s",
        kind: Kind::Histogram(GEN_AI_SECONDS),
        description: "From the start of the call to the first event of any kind",
    },
    /// Time between output chunks: exact count and sum, no buckets.
    GenAiPerChunk = Row {
        released: Some("gen_ai.client.operation.time_per_output_chunk"),
        latest: Some("gen_ai.client.inference.time_per_output_chunk"),
        unit: "s",
        kind: Kind::Histogram(&[]),
        description: "Time between output chunks; count and sum only, single gaps are not kept",
    },
    /// Tokens that the relay reported.
    GenAiTokens = Row {
        released: Some("gen_ai.client.token.usage"),
        latest: None,
        unit: "{token}",
        kind: Kind::Histogram(GEN_AI_TOKENS),
        description: "Tokens of one answer, as the relay reported them",
    },
    /// Prompt tokens that the relay reported, per call.
    GenAiInputTokens = Row {
        released: None,
        latest: Some("gen_ai.client.inference.operation.input_tokens"),
        unit: "{token}",
        kind: Kind::Histogram(GEN_AI_TOKENS),
        description: "Prompt tokens of one call, as the relay reported them",
    },
    /// Answer tokens that the relay reported, per call.
    GenAiOutputTokens = Row {
        released: None,
        latest: Some("gen_ai.client.inference.operation.output_tokens"),
        unit: "{token}",
        kind: Kind::Histogram(GEN_AI_TOKENS),
        description: "Answer tokens of one call, as the relay reported them",
    },
    /// Prompt tokens that the relay reported, in all.
    GenAiInputUsage = Row {
        released: None,
        latest: Some("gen_ai.client.inference.usage.input_tokens"),
        unit: "{token}",
        kind: Kind::Counter,
        description: "Prompt tokens, as the relay reported them",
    },
    /// Answer tokens that the relay reported, in all.
    GenAiOutputUsage = Row {
        released: None,
        latest: Some("gen_ai.client.inference.usage.output_tokens"),
        unit: "{token}",
        kind: Kind::Counter,
        description: "Answer tokens, as the relay reported them",
    },
    /// Length of one HTTP attempt.
    HttpDuration = same(
        "http.client.request.duration",
        "s",
        Kind::Histogram(HTTP_SECONDS),
        "Length of one HTTP attempt, to the end of the body",
    ),
    /// Length of name resolution.
    DnsDuration = same(
        "dns.lookup.duration",
        "s",
        Kind::Histogram(HTTP_SECONDS),
        "Length of name resolution",
    ),
    /// Length of a phase that came to its end.
    PhaseDuration = same(
        "relay.phase.duration",
        "s",
        Kind::Histogram(PHASE_SECONDS),
        "Length of one phase of an attempt that came to its end",
    ),
    /// Time to the first model output.
    Ttft = same(
        "relay.ttft",
        "s",
        Kind::Histogram(TTFT_SECONDS),
        "From the start of the first attempt to the first model output",
    ),
    /// Token rate.
    Tps = same(
        "relay.tps",
        "{token}/s",
        Kind::Histogram(RATES),
        "Tokens after the first packet, per second",
    ),
    /// Mean gap between the packets of one answer.
    Itl = same(
        "relay.itl",
        "s",
        Kind::Histogram(GAP_SECONDS),
        "Mean gap between the packets of one answer: one value an answer",
    ),
    /// Samples by outcome.
    Samples = same(
        "relay.samples",
        "{sample}",
        Kind::Counter,
        "Samples by outcome",
    ),
    /// Observed statistic of an objective.
    SloObserved = same(
        "relay.slo.observed",
        "",
        Kind::Gauge,
        "Observed statistic, in the base unit of the objective's metric",
    ),
    /// Bound of an objective.
    SloBound = same(
        "relay.slo.bound",
        "",
        Kind::Gauge,
        "Bound of the objective, in the base unit of its metric",
    ),
    /// Whether an objective is met.
    SloPassed = same(
        "relay.slo.passed",
        "1",
        Kind::Gauge,
        "1 where the objective is met, 0 where it is violated, absent where nothing is decided",
    ),
    /// Spans by what became of them.
    EvidenceSpans = same(
        "relay.evidence.spans",
        "{span}",
        Kind::Counter,
        "Spans by what became of them on the way to the network",
    ),
}
