//! One cell's evidence as a comparison needs it, counted as it streams by.

use std::time::Duration;

use super::question::Question;
use crate::evidence::{Close, Header, LATE, Line, Sample, too_many_late};
use crate::measure::Outcome;
use crate::measure::cost::Cost;
use crate::objective::metric::Metric;
use crate::stats::quantile::nearest_rank;
use crate::stats::{Tally, float};

/// What the samples of one cell say to one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples with an answer, and those of them that are bad.
    pub tally: Tally,
    /// Bad ones for no other reason than that the answer came in one burst.
    pub bursts: u64,
    /// Bad ones for no other reason than that the seal is missing; models leave it out at times.
    pub unsealed: u64,
    /// Samples that have no value; they are not in the tally.
    pub undefined: u64,
    /// Samples that the question is not about; they are not in the tally.
    pub ineligible: u64,
}

impl Counts {
    /// The tally with answers that came in one burst as good ones.
    pub fn without_bursts(self) -> Tally {
        let failures = self.tally.failures().saturating_sub(self.bursts);
        Tally::new(self.tally.n(), failures).unwrap_or(self.tally)
    }
}

/// What a relay was paid, and for how much that could be used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Paid {
    /// What all calls cost; `None` where the price is unknown.
    pub cost: Option<Cost>,
    /// Samples whose answer could be used.
    pub usable: u64,
    /// Tokens of those answers; `None` when one of them reports none.
    pub usable_tokens: Option<u64>,
}

/// A price that follows from what was paid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// US dollars for a million output tokens of usable answers.
    Usd(f64),
    /// The same, of which only a lower bound is known: some calls have no known cost.
    AtLeast(f64),
    /// Nobody can tell: no price in the spec, or no usage in the answers.
    Unknown,
    /// No answer could be used.
    NothingUsable,
}

impl Paid {
    /// What a million output tokens of usable answers cost, the unusable answers paid as well.
    pub fn per_million(&self) -> Rate {
        let Some(cost) = self.cost else {
            return Rate::Unknown;
        };
        match self.usable_tokens {
            None => Rate::Unknown,
            Some(_) if cost.known == 0 => Rate::Unknown,
            Some(0) => Rate::NothingUsable,
            Some(tokens) => {
                let usd = cost.usd / float(tokens) * 1e6;
                if cost.unknown == 0 {
                    Rate::Usd(usd)
                } else {
                    Rate::AtLeast(usd)
                }
            }
        }
    }
}

/// The evidence of one cell, counted.
///
/// Of a sample it keeps one number at most, so that millions of them fit.
#[derive(Clone, Debug)]
pub struct Tallied {
    /// First line of the evidence.
    pub header: Header,
    /// Where the evidence lies, as shown.
    pub source: String,
    /// What was asked.
    pub questions: Vec<Question>,
    /// The answers, in the same order.
    pub counts: Vec<Counts>,
    /// Seconds to the first token of each sample, where they were asked for; a failure is infinite.
    pub ttft: Vec<f64>,
    /// Counted samples.
    pub samples: u64,
    /// Money.
    pub paid: Paid,
    /// Wall clock of the first start, nanoseconds since the epoch.
    pub first_unix_ns: Option<u64>,
    /// Wall clock of the last start.
    pub last_unix_ns: Option<u64>,
    /// Lag of our own that may be in any measured time.
    pub doubt: Option<Duration>,
    invalid: Option<String>,
    keeps_ttft: bool,
    late: u64,
    closed: bool,
}

impl Tallied {
    /// Nothing counted yet.
    pub fn new(header: Header, source: String, questions: Vec<Question>) -> Self {
        Self {
            paid: Paid {
                cost: header.price.map(|_| Cost::default()),
                usable: 0,
                usable_tokens: Some(0),
            },
            header,
            source,
            counts: vec![Counts::default(); questions.len()],
            questions,
            ttft: Vec::new(),
            samples: 0,
            first_unix_ns: None,
            last_unix_ns: None,
            doubt: None,
            invalid: None,
            keeps_ttft: false,
            late: 0,
            closed: false,
        }
    }

    /// Keeps the times to the first token as well.
    #[must_use]
    pub const fn with_ttft(mut self) -> Self {
        self.keeps_ttft = true;
        self
    }

    /// Nearest rank of the times to the first token, where those were kept; a failure is infinite.
    pub fn ttft_quantile(&self, ppm: u32) -> Option<f64> {
        let rank = nearest_rank(self.ttft.len() as u64, ppm)?;
        let place = usize::try_from(rank.checked_sub(1)?).ok()?;
        let mut times = self.ttft.clone();
        let (_, at, _) = times.select_nth_unstable_by(place, f64::total_cmp);
        Some(*at)
    }

    /// The answers to a question, where it was asked.
    pub fn counts_of(&self, question: &Question) -> Option<Counts> {
        let mut asked = self.questions.iter().zip(&self.counts);
        asked
            .find(|(asked, _)| asked.same_as(question))
            .map(|(_, counts)| *counts)
    }

    /// Takes the next line of the evidence.
    pub fn take(&mut self, line: &Line) {
        match line {
            Line::Sample(sample) => self.sample(sample),
            Line::Close(close) => self.close(close),
            // A larger budget changes no count.
            Line::Continued(_) | Line::Session(_) | Line::Skipped(_) => {}
        }
    }

    fn sample(&mut self, sample: &Sample) {
        self.closed = false;
        if !sample.counts() {
            return;
        }
        self.samples += 1;
        self.late += u64::from(sample.lag > LATE);
        let start = sample.t0_unix_ns;
        self.first_unix_ns = Some(self.first_unix_ns.map_or(start, |at| at.min(start)));
        self.last_unix_ns = self.last_unix_ns.max(Some(start));
        let judging = &self.header.judge;
        for (question, counts) in self.questions.iter().zip(&mut self.counts) {
            let answer = question.answer(sample, judging);
            match answer.outcome {
                Outcome::Good => counts.tally = counts.tally.with(true),
                Outcome::Bad => {
                    counts.tally = counts.tally.with(false);
                    counts.bursts += u64::from(answer.burst);
                    counts.unsealed += u64::from(answer.unsealed);
                }
                Outcome::Undefined => counts.undefined += 1,
                Outcome::Ineligible => counts.ineligible += 1,
            }
        }
        if self.keeps_ttft {
            let value = Metric::Ttft.reading(sample, judging).value();
            self.ttft.push(value.unwrap_or(f64::INFINITY));
        }
        self.pay(sample);
    }

    fn pay(&mut self, sample: &Sample) {
        if let (Some(price), Some(cost)) = (&self.header.price, &mut self.paid.cost) {
            cost.add(sample.usd(price));
        }
        let usable = Metric::Usable.reading(sample, &self.header.judge).value();
        if usable.is_some_and(|usable| usable > 0.5) {
            self.paid.usable += 1;
            let tokens = sample.output_tokens();
            self.paid.usable_tokens = self
                .paid
                .usable_tokens
                .and_then(|sum| sum.checked_add(tokens?));
        }
    }

    fn close(&mut self, close: &Close) {
        self.closed = true;
        let check = &close.self_check;
        if self.invalid.is_none() {
            self.invalid.clone_from(&check.invalid);
        }
        self.doubt = self.doubt.max(check.doubt());
    }

    /// Why the run says nothing of the relay, where that is so.
    pub fn invalid(&self) -> Option<String> {
        if self.invalid.is_some() {
            return self.invalid.clone();
        }
        // Without a closing line nobody was left to check the probe's health.
        (!self.closed && too_many_late(self.late, self.samples)).then(|| {
            format!(
                "{} of {} starts were more than 100 ms late",
                self.late, self.samples
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::CloseReason;
    use crate::evidence::fixtures::*;
    use crate::observation::{Observation, Usage};
    use crate::plan::Price;

    fn line(index: u64, seen: Observation) -> Line {
        Line::Sample(Box::new(sample(index, seen)))
    }

    fn tallied(questions: &[&str], lines: &[Line]) -> Tallied {
        let questions = questions.iter().map(|text| Question::parse(text).unwrap());
        let mut header = header(Vec::new(), 100);
        header.price = Some(Price {
            input: 0.0,
            cached_input: None,
            output: 1.0,
            multiplier: 1.0,
            fx: None,
        });
        let mut tallied = Tallied::new(header, "file".to_owned(), questions.collect()).with_ttft();
        lines.iter().for_each(|line| tallied.take(line));
        tallied
    }

    /// A whole answer that says what it used.
    fn told(output: u64) -> Observation {
        Observation {
            usage: Some(Usage {
                input: Some(0),
                output: Some(output),
                ..Usage::default()
            }),
            ..good()
        }
    }

    #[test]
    fn warm_ups_do_not_count_and_failures_are_infinite_times() {
        let mut warm = sample(9, good());
        warm.warmup = true;
        let lines = [
            line(0, good()),
            line(1, slow(2000)),
            line(2, refused(503)),
            Line::Sample(Box::new(warm)),
        ];
        let seen = tallied(&["ttft < 1.5s", "interruption"], &lines);
        assert_eq!(seen.samples, 3);
        assert_eq!(seen.ttft, [0.12, 2.0, f64::INFINITY]);
        assert_eq!(seen.ttft_quantile(500_000), Some(2.0));
        assert_eq!(seen.ttft_quantile(950_000), Some(f64::INFINITY));
        assert_eq!(tallied(&[], &[]).ttft_quantile(500_000), None);
        assert_eq!(seen.counts[0].tally, Tally::new(3, 2).unwrap());
        assert_eq!(seen.counts[1].tally, Tally::new(2, 0).unwrap());
        assert_eq!(seen.counts[1].ineligible, 1);
    }

    #[test]
    fn tokens_of_unusable_answers_are_paid_and_not_counted() {
        let unusable = Observation {
            parse_ok: false,
            ..told(300)
        };
        let paid = tallied(&[], &[line(0, told(100)), line(1, unusable)]).paid;
        assert_eq!((paid.usable, paid.usable_tokens), (1, Some(100)));
        // 400 tokens paid at 1 USD a million, 100 of them usable.
        let Rate::Usd(usd) = paid.per_million() else {
            panic!("{paid:?}");
        };
        assert!((usd - 4.0).abs() < 1e-12, "{usd}");
    }

    #[test]
    fn an_unknown_cost_makes_the_price_a_lower_bound_and_never_0() {
        let some = tallied(&[], &[line(0, told(100)), line(1, truncated())]).paid;
        let Rate::AtLeast(usd) = some.per_million() else {
            panic!("{some:?}");
        };
        assert!((usd - 1.0).abs() < 1e-12, "{usd}");
        let none = tallied(&[], &[line(0, truncated())]).paid;
        assert_eq!(none.per_million(), Rate::Unknown);
        let refused = tallied(&[], &[line(0, refused(503))]).paid;
        assert_eq!(refused.per_million(), Rate::NothingUsable);
        let mut unpriced = tallied(&[], &[line(0, told(100))]).paid;
        unpriced.cost = None;
        assert_eq!(unpriced.per_million(), Rate::Unknown);
    }

    #[test]
    fn a_closing_line_says_whether_the_run_is_invalid_and_without_one_late_starts_do() {
        let mut unfit = close(CloseReason::Budget);
        unfit.self_check.invalid = Some("clock".to_owned());
        let lines = [line(0, good()), Line::Close(unfit), line(1, good())];
        assert_eq!(tallied(&[], &lines).invalid().as_deref(), Some("clock"));

        let late = |index| {
            let mut late = sample(index, good());
            late.lag = ms(200);
            Line::Sample(Box::new(late))
        };
        let mut lines: Vec<Line> = (0..6).map(late).collect();
        let why = tallied(&[], &lines).invalid().unwrap();
        assert!(why.starts_with("6 of 6 starts"), "{why}");
        lines.push(Line::Close(close(CloseReason::Budget)));
        assert_eq!(tallied(&[], &lines).invalid(), None);
    }
}
