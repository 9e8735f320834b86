//! Every name that leaves this program in telemetry, in one table.
//!
//! Names of OpenTelemetry's conventions first, ours after them; no logic. A name that is not in
//! [`ALL`] is not emitted, and `docs/telemetry.md` lists the same names. Metrics have a table of
//! their own in [`metric`].

pub mod metric;

/// Declares the names and the table of all of them.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// Every attribute and event name, in declaration order.
        pub const ALL: &[&str] = &[$($text,)*];
    };
}

names! {
    /// What kind of model call it was.
    GEN_AI_OPERATION_NAME = "gen_ai.operation.name",
    /// The flavour of the wire protocol, whoever serves it.
    GEN_AI_PROVIDER_NAME = "gen_ai.provider.name",
    /// Model asked for.
    GEN_AI_REQUEST_MODEL = "gen_ai.request.model",
    /// Output budget asked for.
    GEN_AI_REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens",
    /// Whether a stream was served.
    GEN_AI_REQUEST_STREAM = "gen_ai.request.stream",
    /// Model that answered, as it says.
    GEN_AI_RESPONSE_MODEL = "gen_ai.response.model",
    /// Response id.
    GEN_AI_RESPONSE_ID = "gen_ai.response.id",
    /// Finish reasons.
    GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons",
    /// Seconds from the request to the first event of any kind.
    GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk",
    /// Prompt tokens, as the relay reported them.
    GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens",
    /// Answer tokens, as the relay reported them.
    GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens",
    /// Cached prompt tokens, as the relay reported them.
    GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens",
    /// Reasoning tokens, as the relay reported them.
    GEN_AI_USAGE_REASONING_OUTPUT_TOKENS = "gen_ai.usage.reasoning.output_tokens",
    /// `input` or `output`.
    GEN_AI_TOKEN_TYPE = "gen_ai.token.type",
    /// OpenAI API that was called.
    OPENAI_API_TYPE = "openai.api.type",
    /// The prompt, with `content: full` only; cut to 2 kB.
    GEN_AI_INPUT_MESSAGES = "gen_ai.input.messages",
    /// The answer, with `content: full` only; cut to 2 kB.
    GEN_AI_OUTPUT_MESSAGES = "gen_ai.output.messages",
    /// Characters of the prompt, unless `content: none`.
    RELAY_PROMPT_CHARS = "relay.prompt.chars",
    /// Hash of the prompt under a key of this process, with `content: hash` only.
    RELAY_PROMPT_HASH = "relay.prompt.hash",
    /// Characters of the answer, unless `content: none`.
    RELAY_ANSWER_CHARS = "relay.answer.chars",
    /// Hash of the answer under a key of this process, with `content: hash` only.
    RELAY_ANSWER_HASH = "relay.answer.hash",
    /// Fingerprint of the serving system.
    OPENAI_RESPONSE_SYSTEM_FINGERPRINT = "openai.response.system_fingerprint",
    /// Request method.
    HTTP_REQUEST_METHOD = "http.request.method",
    /// Number of the repetition, from 1; absent on the first try.
    HTTP_REQUEST_RESEND_COUNT = "http.request.resend_count",
    /// Request body bytes.
    HTTP_REQUEST_BODY_SIZE = "http.request.body.size",
    /// Response body bytes.
    HTTP_RESPONSE_BODY_SIZE = "http.response.body.size",
    /// Response status.
    HTTP_RESPONSE_STATUS_CODE = "http.response.status_code",
    /// Prefix of an allow-listed response header.
    HTTP_RESPONSE_HEADER = "http.response.header",
    /// Full URL, without user info and query.
    URL_FULL = "url.full",
    /// URL scheme.
    URL_SCHEME = "url.scheme",
    /// Host of the relay.
    SERVER_ADDRESS = "server.address",
    /// Port of the relay.
    SERVER_PORT = "server.port",
    /// Peer's IP address.
    NETWORK_PEER_ADDRESS = "network.peer.address",
    /// Peer's port.
    NETWORK_PEER_PORT = "network.peer.port",
    /// `ipv4` or `ipv6`.
    NETWORK_TYPE = "network.type",
    /// HTTP version.
    NETWORK_PROTOCOL_VERSION = "network.protocol.version",
    /// Name that was resolved.
    DNS_QUESTION_NAME = "dns.question.name",
    /// Addresses that it gave.
    DNS_ANSWERS = "dns.answers",
    /// `tls`.
    TLS_PROTOCOL_NAME = "tls.protocol.name",
    /// TLS version.
    TLS_PROTOCOL_VERSION = "tls.protocol.version",
    /// Application protocol agreed on.
    TLS_NEXT_PROTOCOL = "tls.next_protocol",
    /// Cipher suite.
    TLS_CIPHER = "tls.cipher",
    /// Whether the session was resumed.
    TLS_RESUMED = "tls.resumed",
    /// Marks the traffic of a test.
    USER_AGENT_SYNTHETIC_TYPE = "user_agent.synthetic.type",
    /// Why it failed: low cardinality, absent on success.
    ERROR_TYPE = "error.type",
    /// Name of the suite: the spec.
    TEST_SUITE_NAME = "test.suite.name",
    /// How the suite's run went.
    TEST_SUITE_RUN_STATUS = "test.suite.run.status",
    /// The cell: `relay/model/workload`.
    TEST_CASE_NAME = "test.case.name",
    /// How the cell fared.
    TEST_CASE_RESULT_STATUS = "test.case.result.status",
    /// Service that emits: the tester, never the relay.
    SERVICE_NAME = "service.name",
    /// Version of the tester.
    SERVICE_VERSION = "service.version",
    /// This process of the run.
    SERVICE_INSTANCE_ID = "service.instance.id",
    /// Host of the tester.
    HOST_NAME = "host.name",
    /// Pipeline that runs the tester.
    CICD_PIPELINE_NAME = "cicd.pipeline.name",
    /// Run of the pipeline.
    CICD_PIPELINE_RUN_ID = "cicd.pipeline.run.id",
    /// Where that run is shown.
    CICD_PIPELINE_RUN_URL_FULL = "cicd.pipeline.run.url.full",
    /// Job or stage of the pipeline.
    CICD_PIPELINE_TASK_NAME = "cicd.pipeline.task.name",
    /// Run of that job.
    CICD_PIPELINE_TASK_RUN_ID = "cicd.pipeline.task.run.id",
    /// Where the job's run is shown.
    CICD_PIPELINE_TASK_RUN_URL_FULL = "cicd.pipeline.task.run.url.full",
    /// Who hosts the repository, where the CI system says so.
    VCS_PROVIDER_NAME = "vcs.provider.name",
    /// Owner of the repository.
    VCS_OWNER_NAME = "vcs.owner.name",
    /// Repository.
    VCS_REPOSITORY_NAME = "vcs.repository.name",
    /// Where the repository is shown.
    VCS_REPOSITORY_URL_FULL = "vcs.repository.url.full",
    /// Branch or tag that is tested.
    VCS_REF_HEAD_NAME = "vcs.ref.head.name",
    /// `branch` or `tag`.
    VCS_REF_HEAD_TYPE = "vcs.ref.head.type",
    /// Commit that is tested.
    VCS_REF_HEAD_REVISION = "vcs.ref.head.revision",
    /// Branch that a change is made for.
    VCS_REF_BASE_NAME = "vcs.ref.base.name",
    /// Pull or merge request.
    VCS_CHANGE_ID = "vcs.change.id",
    /// Marks the series that holds what found no room in one of its own.
    OTEL_METRIC_OVERFLOW = "otel.metric.overflow",

    /// The run: its folder's name.
    RELAY_RUN_ID = "relay.run.id",
    /// Prefix of an allow-listed entry of `BAGGAGE`.
    RELAY_BAGGAGE = "relay.baggage",
    /// What became of spans: `exported`, `failed` or `dropped`.
    RELAY_EVIDENCE_RESULT = "relay.evidence.result",
    /// Relay under test.
    RELAY_NAME = "relay.name",
    /// Spec.
    RELAY_SPEC = "relay.spec",
    /// SHA-256 of the spec's text.
    RELAY_SPEC_DIGEST = "relay.spec.digest",
    /// Workload.
    RELAY_WORKLOAD = "relay.workload",
    /// HTTP client that sent the requests.
    RELAY_TRANSPORT = "relay.transport",
    /// Cells that the suite is expected to run.
    RELAY_CASE_EXPECTED = "relay.case.expected",
    /// Most samples that the suite may take.
    RELAY_SAMPLE_PLANNED = "relay.sample.planned",
    /// Samples seen by a cell.
    RELAY_SAMPLE_COUNT = "relay.sample.count",
    /// Failed ones among them.
    RELAY_SAMPLE_ERROR_COUNT = "relay.sample.error_count",
    /// Whole answers among them that missed an objective.
    RELAY_SAMPLE_SLOW_COUNT = "relay.sample.slow_count",
    /// Stable id of a sample.
    RELAY_SAMPLE_ID = "relay.sample.id",
    /// Index of its slot.
    RELAY_SAMPLE_INDEX = "relay.sample.index",
    /// Whether it was a warm-up, never counted.
    RELAY_SAMPLE_WARMUP = "relay.sample.warmup",
    /// `good`, `slow`, `error` or `excluded`.
    RELAY_SAMPLE_OUTCOME = "relay.sample.outcome",
    /// Leading class of the last attempt, or `ok`.
    RELAY_SAMPLE_CLASS = "relay.sample.class",
    /// Seconds between the planned and the real start; never charged to the relay.
    RELAY_SCHEDULE_DELAY = "relay.schedule_delay",
    /// HTTP attempts of a sample.
    RELAY_ATTEMPT_COUNT = "relay.attempt.count",
    /// Index of an attempt, from 0.
    RELAY_ATTEMPT_INDEX = "relay.attempt.index",
    /// What the request told the relay of this trace: `traceparent` or `request_id`.
    RELAY_PROPAGATION = "relay.propagation",
    /// Seconds to the first model output; also the event at that moment has this stem.
    RELAY_TTFT = "relay.ttft",
    /// Tokens a second after the first packet.
    RELAY_TPS = "relay.tps",
    /// Seconds: standard deviation of the gaps between packets.
    RELAY_JITTER = "relay.jitter",
    /// Seconds: a silence, or the longest one.
    RELAY_GAP = "relay.gap",
    /// Seconds: mean gap between packets.
    RELAY_GAP_MEAN = "relay.gap.mean",
    /// Objectives that a sample missed, joined by commas.
    RELAY_SLO_VIOLATIONS = "relay.slo.violations",
    /// Stage of an attempt.
    RELAY_PHASE = "relay.phase",
    /// How an attempt ended.
    RELAY_ENDING = "relay.ending",
    /// What was odd about an attempt, joined by commas.
    RELAY_WARNINGS = "relay.warnings",
    /// How the connection was lost.
    RELAY_LOSS = "relay.loss",
    /// What the relay's error is about.
    RELAY_ERROR_KIND = "relay.error.kind",
    /// `connected`, `failed`, or `lost` to a faster address.
    RELAY_CONNECT_OUTCOME = "relay.connect.outcome",
    /// The relay's own error code, never its text.
    RELAY_ERROR_CODE = "relay.error.code",
    /// Whether the connection had been used before.
    RELAY_CONNECTION_REUSED = "relay.connection.reused",
    /// Host and port of the proxy.
    RELAY_PROXY = "relay.proxy",
    /// Why there was a wait before an attempt.
    RELAY_BACKOFF_REASON = "relay.backoff.reason",
    /// Seconds that the relay had asked to wait.
    RELAY_RETRY_AFTER = "relay.retry_after",
    /// Content events.
    RELAY_CHUNK_COUNT = "relay.chunk.count",
    /// Packets: content events merged when less than a millisecond apart.
    RELAY_PACKET_COUNT = "relay.packet.count",
    /// Index of the packet that ended a silence.
    RELAY_PACKET_INDEX = "relay.packet.index",
    /// Events of any kind.
    RELAY_EVENT_COUNT = "relay.event.count",
    /// Tokens of the answer.
    RELAY_TOKEN_COUNT = "relay.token.count",
    /// Where the count comes from: `usage` or `events`.
    RELAY_TOKEN_SOURCE = "relay.token.source",
    /// Silences recorded as stalls.
    RELAY_STALL_COUNT = "relay.stall.count",
    /// Whether the protocol's end mark arrived.
    RELAY_DONE_MARKER = "relay.done.marker",
    /// Finish reason of the first choice.
    RELAY_FINISH_REASON = "relay.finish_reason",
    /// Whether the answer ended with the seal that was asked for.
    RELAY_SEALED = "relay.sealed",
    /// Class of a finding.
    RELAY_FINDING_CLASS = "relay.finding.class",
    /// Which form of it, in our own words.
    RELAY_FINDING_DETAIL = "relay.finding.detail",
    /// Byte offset in the body.
    RELAY_FINDING_OFFSET = "relay.finding.offset",
    /// Index of the event.
    RELAY_FINDING_EVENT = "relay.finding.event",
    /// Why a link is there: `test_case`, `failing_sample`, `slowest_sample`, `ci`.
    RELAY_LINK_TYPE = "relay.link.type",
    /// Objective as written.
    RELAY_SLO_ID = "relay.slo.id",
    /// `p95`, `rate` or `mean`.
    RELAY_SLO_STATISTIC = "relay.slo.statistic",
    /// Bound in the metric's base unit.
    RELAY_SLO_BOUND = "relay.slo.bound",
    /// Observed statistic in the metric's base unit.
    RELAY_SLO_OBSERVED = "relay.slo.observed",
    /// Share of good samples that must be met.
    RELAY_SLO_REQUIRED = "relay.slo.required",
    /// Lower bound of the share of good samples.
    RELAY_SLO_CI_LOW = "relay.slo.ci_low",
    /// Upper bound of the share of good samples.
    RELAY_SLO_CI_HIGH = "relay.slo.ci_high",
    /// Samples that counted.
    RELAY_SLO_N = "relay.slo.n",
    /// Failures among them.
    RELAY_SLO_FAILURES = "relay.slo.failures",
    /// Rule in words.
    RELAY_SLO_RULE = "relay.slo.rule",
    /// `pass`, `violated` or `inconclusive`.
    RELAY_SLO_VERDICT = "relay.slo.verdict",
    /// Why nothing could be decided.
    RELAY_SLO_REASON = "relay.slo.reason",

    /// Event: first event of the stream, with or without content.
    EVENT_FIRST_EVENT = "relay.sse.first_event",
    /// Event: first model output.
    EVENT_FIRST_TOKEN = "relay.first_token",
    /// Event: first response byte, where the transport can show it.
    EVENT_FIRST_BYTE = "relay.first_byte",
    /// Event: a long silence ended.
    EVENT_STALL = "relay.stall",
    /// Event: something that could not be parsed.
    EVENT_PARSE_ERROR = "relay.sse.parse_error",
    /// Event: anything else that was wrong.
    EVENT_FINDING = "relay.finding",
    /// Event: the protocol's end mark.
    EVENT_DONE = "relay.done",
    /// Event: the body ended without one.
    EVENT_EOF = "relay.eof",
}

/// Span names, in the order of the tree.
pub mod span {
    /// One spec of a run.
    pub const SUITE: &str = "relay.suite";
    /// One cell.
    pub const CASE: &str = "relay.case";
    /// One objective of a cell.
    pub const SLO: &str = "relay.slo";
    /// One call, root of its own trace.
    pub const SAMPLE: &str = "relay.sample";
    /// Wait before a further attempt.
    pub const BACKOFF: &str = "relay.backoff";
    /// One HTTP attempt.
    pub const POST: &str = "POST";
    /// Wait for a pooled connection.
    pub const WAIT_FOR_CONNECTION: &str = "HTTP wait_for_connection";
    /// All of connecting.
    pub const CONNECTION_SETUP: &str = "HTTP connection_setup";
    /// Name resolution.
    pub const DNS: &str = "DNS lookup";
    /// TCP connect.
    pub const CONNECT: &str = "socket connect";
    /// CONNECT or SOCKS exchange with a proxy.
    pub const TUNNEL: &str = "proxy tunnel";
    /// TLS handshake.
    pub const TLS: &str = "TLS client handshake";
    /// First to last request byte.
    pub const SEND: &str = "HTTP request send";
    /// Last request byte to the first response byte, or to the head.
    pub const WAIT: &str = "HTTP response wait";
    /// First response byte to the end of the head.
    pub const HEAD: &str = "HTTP response headers";
    /// A body that is no event stream.
    pub const BODY: &str = "HTTP response body";
    /// Head to first model output.
    pub const FIRST_TOKEN: &str = "SSE first token";
    /// First to last model output.
    pub const TOKENS: &str = "SSE tokens";
    /// Last model output to the end mark.
    pub const DONE: &str = "SSE done";

    /// Every fixed span name (`chat {model}` is the one that is not fixed).
    pub const ALL: &[&str] = &[
        SUITE,
        CASE,
        SLO,
        SAMPLE,
        BACKOFF,
        POST,
        WAIT_FOR_CONNECTION,
        CONNECTION_SETUP,
        DNS,
        CONNECT,
        TUNNEL,
        TLS,
        SEND,
        WAIT,
        HEAD,
        BODY,
        FIRST_TOKEN,
        TOKENS,
        DONE,
    ];
}

/// Instrumentation scope of every span and log.
pub const SCOPE: &str = "relayproof";

/// `error.type` of a sample that was whole but missed an objective.
pub const SLO_BREACH: &str = "slo_breach";

/// `error.type` where nothing better is known.
pub const OTHER: &str = "_OTHER";
