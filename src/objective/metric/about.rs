//! The catalogue in words: formula, worst value and pitfall of each metric, in Markdown.

use super::Metric;

impl Metric {
    /// How the value of one sample comes about.
    pub const fn formula(self) -> &'static str {
        match self {
            Self::Dns => "end − start of the name resolution",
            Self::Connect => "end − start of the TCP connect, over all addresses tried",
            Self::Tls => "end − start of the TLS handshake",
            Self::Ttfb => "head complete − t0",
            Self::FirstEvent => "first dispatched event − t0",
            Self::Ttft => "first output of the model − t0",
            Self::Total => "end mark − t0",
            Self::Tps => "C × (H − h_1) / H / (T_m − T_1)",
            Self::Jitter => "sqrt(Σ (g − mean)² / (k − 1)) over the k = m − 1 gaps between packets",
            Self::MaxGap => "max(T_j − T_(j−1)) over the packets j = 2 … m",
            Self::HttpSuccess => "calls whose first attempt has a 2xx status / calls",
            Self::ParseSuccess => "valid answers / first attempts answered 2xx",
            Self::Interruption => "interrupted answers / first attempts answered 2xx",
            Self::RetrySuccess => "recovered calls / calls whose first attempt failed retryably",
            Self::SuccessIn4 => "calls with a whole answer in attempts 1 to 4 / calls",
            Self::Usable => "calls with a usable answer / calls",
            Self::ModelMatch => "answers with the asked name / answers 2xx that name a model",
            Self::UsageMatch => "answers whose usage adds up / whole answers 2xx",
            Self::Overhead => "ttft of the relay − ttft of the baseline, asked the same within 1 s",
        }
    }

    /// When a sample has the worst value there is; empty where good and bad say it all.
    pub const fn worst(self) -> &'static str {
        match self {
            Self::Dns | Self::Connect | Self::Tls => "it failed, or the attempt ended before it",
            Self::Ttfb => "no head came",
            Self::FirstEvent => "no event came",
            Self::Ttft => "none came",
            Self::Total => "no end mark came",
            Self::Tps => "the answer is not complete: 0",
            Self::Jitter => "the answer is not complete, or came in one burst: infinite",
            Self::MaxGap => "the answer is not complete: infinite",
            Self::Overhead => "only the baseline had a first token: infinite",
            Self::HttpSuccess
            | Self::ParseSuccess
            | Self::Interruption
            | Self::RetrySuccess
            | Self::SuccessIn4
            | Self::Usable
            | Self::ModelMatch
            | Self::UsageMatch => "",
        }
    }

    /// What misleads about it.
    pub const fn pitfall(self) -> &'static str {
        match self {
            Self::Dns => {
                "a cache of the system answers in microseconds; an address in the URL has no such \
                 phase, nor has a reused connection"
            }
            Self::Connect => {
                "through a proxy it is the way to the proxy; a reused connection has none"
            }
            Self::Tls => {
                "a resumed session is faster than a first one; a reused connection has none"
            }
            Self::Ttfb => {
                "a relay can send its head long before it has asked the model; promise `ttft`"
            }
            Self::FirstEvent => "a relay can send an empty event at once; promise `ttft`",
            Self::Ttft => {
                "with `connection: fresh` it includes DNS, TCP and TLS; a model that reasons out of \
                 sight has a late first token"
            }
            Self::Total => "it grows with the length of the answer: bound that with `max_tokens`",
            Self::Tps => {
                "undefined below 16 tokens, and without usage unless `judge.tokens: events`; a \
                 buffered answer is measured from t0"
            }
            Self::Jitter => "undefined below 16 gaps: ask for longer answers",
            Self::MaxGap => "the `idle` limit cuts it off, so the bound must be below that",
            Self::HttpSuccess => "a 200 may hold nothing, half an answer or an error",
            Self::ParseSuccess => "a stream that ends early and is valid so far counts as valid",
            Self::Interruption => {
                "a relay that invents an end mark is not seen by it: promise `usable`, which asks \
                 for the seal"
            }
            Self::RetrySuccess => {
                "a good relay hardly feeds it, so that it holds no run open: promise `success_in_4`"
            }
            Self::SuccessIn4 => "needs `retry.max: 3`, and every retry costs",
            Self::Usable => "counts the model's own lapses, too; missing seals have an allowance",
            Self::ModelMatch => {
                "a relay that puts the asked name on every answer cannot be told by it"
            }
            Self::UsageMatch => "checks sums, not the count itself: no tokenizer is asked",
            Self::Overhead => {
                "needs a `baseline` and a soak; pairs whose baseline failed say nothing and are \
                 counted"
            }
        }
    }
}
