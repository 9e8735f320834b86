//! What is asked of each sample when relays are put side by side: one yes or no.

use crate::evidence::Sample;
use crate::measure::{Outcome, Reading};
use crate::objective::metric::{Direction, Metric, Unit};
use crate::objective::{Objective, Op, Severity, Statistic};
use crate::plan::Judging;
use crate::words::{did_you_mean, listed};

/// A question that each sample answers with yes or no, and whose share of yes is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Only its metric, operator and bound matter.
    objective: Objective,
    label: String,
}

/// What a sample says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    /// It is bad for no other reason than that the answer came in one burst.
    pub(super) burst: bool,
    /// It is bad for no other reason than that the seal is missing.
    pub(super) unsealed: bool,
}

impl Question {
    /// Whether the answer is complete, valid and free of suspicion: what is asked where nothing
    /// else is.
    pub fn usable() -> Self {
        Self::yes_no(Metric::Usable)
    }

    /// Whether the first attempt was answered 2xx: how available a relay is.
    pub fn http_success() -> Self {
        Self::yes_no(Metric::HttpSuccess)
    }

    /// Reads a metric of yes and no (`usable`), or an objective (`ttft < 1.5s`), of which metric
    /// and bound count: the share is what is compared, so a quantile may be left out and a required
    /// share is not used.
    ///
    /// # Errors
    /// Says what is wrong and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let known = Metric::ALL.iter().find(|metric| metric.as_str() == name);
        let mut written = text.to_owned();
        if rest.is_empty() && known.is_none() {
            let names = || Metric::ALL.iter().map(|metric| metric.as_str());
            return Err(match did_you_mean(name, names()) {
                Some(near) => format!("unknown metric `{name}`; did you mean `{near}`?"),
                None => format!(
                    "unknown metric `{name}`; the metrics are {}",
                    listed(names())
                ),
            });
        }
        if let Some(metric) = known {
            let bounded = metric.unit() != Unit::YesNo;
            if rest.is_empty() && !bounded {
                return Ok(Self::yes_no(*metric));
            }
            if rest.is_empty() {
                return Err(format!(
                    "`{name}` needs a bound; write `{name} {}`",
                    example(*metric)
                ));
            }
            if bounded && !rest.starts_with('.') {
                // The grammar wants one, and any would do.
                written = format!("{name}.p50{rest}");
            }
        }
        let objective = Objective::parse(&written)
            .map_err(|error| format!("{}: {}; {}", error.title, error.label, error.help))?;
        Self::of(&objective)
            .ok_or_else(|| "a mean is no share; name a bound, like `ttft < 1.5s`".to_owned())
    }

    /// The question that an objective asks of each sample; `None` for a mean, which asks none.
    pub fn of(objective: &Objective) -> Option<Self> {
        if objective.statistic == Statistic::Mean {
            return None;
        }
        if objective.metric.unit() == Unit::YesNo {
            return Some(Self::yes_no(objective.metric));
        }
        let bound = objective
            .text
            .split_once(' ')
            .map_or("", |(_, bound)| bound);
        Some(Self {
            label: format!("{} {bound}", objective.metric),
            objective: objective.clone(),
        })
    }

    fn yes_no(metric: Metric) -> Self {
        let op = match metric.direction() {
            Direction::Lower => Op::Less,
            Direction::Higher => Op::AtLeast,
        };
        let label = match metric.direction() {
            Direction::Lower => format!("no {metric}"),
            Direction::Higher => metric.to_string(),
        };
        Self {
            objective: Objective {
                text: label.clone(),
                metric,
                statistic: Statistic::Rate,
                op,
                bound: 0.5,
                confidence_ppm: None,
                severity: Severity::Gate,
                window: None,
                line: 1,
                column: 1,
            },
            label,
        }
    }

    /// The question in a few words: `usable`, `ttft < 1.5s`, `no interruption`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What is measured.
    pub const fn metric(&self) -> Metric {
        self.objective.metric
    }

    /// Whether the answer hangs on measured times, which a lag of our own makes longer.
    pub fn is_of_time(&self) -> bool {
        self.metric().unit() != Unit::YesNo
    }

    /// Whether both ask the same.
    pub fn same_as(&self, other: &Self) -> bool {
        let (one, two) = (&self.objective, &other.objective);
        one.metric == two.metric
            && (!self.is_of_time() || (one.op == two.op && one.bound == two.bound))
    }

    pub(super) fn answer(&self, sample: &Sample, judging: &Judging) -> Answer {
        let reading = self.metric().reading(sample, judging);
        Answer {
            outcome: self.objective.outcome_of(reading),
            burst: reading == Reading::Burst,
            unsealed: reading == Reading::Unsealed,
        }
    }
}

/// A bound of a metric of numbers.
const fn example(metric: Metric) -> &'static str {
    match metric.unit() {
        Unit::Seconds => "< 1.5s",
        Unit::PerSecond => ">= 20/s",
        Unit::YesNo => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;

    #[test]
    fn a_question_is_a_metric_of_yes_and_no_or_a_bound() {
        for (text, label) in [
            ("usable", "usable"),
            ("interruption", "no interruption"),
            ("interruption < 1%", "no interruption"),
            ("parse_success >= 99%", "parse_success"),
            ("ttft < 1.5s", "ttft < 1.5s"),
            ("ttft<800ms", "ttft < 800ms"),
            ("ttft.p95 < 1.5s", "ttft < 1.5s"),
            (" tps >= 20/s ", "tps >= 20/s"),
        ] {
            assert_eq!(Question::parse(text).unwrap().label(), label, "{text}");
        }
        for (text, words) in [
            ("ttft", "write `ttft < 1.5s`"),
            ("tps", "write `tps >= 20/s`"),
            ("useable", "did you mean `usable`?"),
            ("ttft < 1500", "ttft"),
            ("ttft > 1.5s", "ttft"),
            ("ttft.mean < 1.5s", "a mean is no share"),
            ("", "metric"),
        ] {
            let error = Question::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn objectives_with_the_same_bound_ask_the_same() {
        let ask = |text| Question::parse(text).unwrap();
        assert!(ask("ttft.p95 < 1.5s").same_as(&ask("ttft.p50 < 1.5s")));
        assert!(!ask("ttft < 1.5s").same_as(&ask("ttft < 1s")));
        assert!(ask("interruption < 1%").same_as(&ask("interruption < 5%")));
        assert_eq!(Question::of(&ttft_mean()), None);
    }

    #[test]
    fn a_sample_answers_by_the_bound_or_by_the_fact() {
        let outcome = |text: &str, seen| {
            let question = Question::parse(text).unwrap();
            question.answer(&sample(0, seen), &judging()).outcome
        };
        assert_eq!(outcome("ttft < 1.5s", good()), Outcome::Good);
        assert_eq!(outcome("ttft < 1.5s", slow(2000)), Outcome::Bad);
        assert_eq!(outcome("ttft < 1.5s", refused(503)), Outcome::Bad);
        assert_eq!(outcome("interruption", good()), Outcome::Good);
        assert_eq!(outcome("interruption", truncated()), Outcome::Bad);
        assert_eq!(outcome("interruption", refused(503)), Outcome::Ineligible);
        assert_eq!(outcome("usable", truncated()), Outcome::Bad);
    }
}
