//! A ranking as a page to publish: who stands where, and what may not be read into it.

use maud::{Markup, html};

use super::super::compared::{points, rate, share, share_up};
use super::super::ranking::{self, Table};
use super::page;
use super::plot::round;
use crate::compare::ranking::{Ranked, Ranking};
use crate::compare::tallied::Tallied;
use crate::compare::{Question, ranking::Score};
use crate::words;

/// Size of the picture of the scores, and the room for names and numbers.
const WIDTH: f64 = 640.0;
const ROW: f64 = 26.0;
const BARS: (f64, f64) = (190.0, 590.0);

/// The whole page.
pub fn scoreboard(tables: &[Table<'_>], score: Score) -> String {
    let heading = html! { "Relays by what is shown of them" };
    let body = html! {
        p {
            "The score is the lower end of Wilson's interval of the share of good answers, "
            (ranking::score_words(score)) ": a few good answers do not outrank many. Relays that "
            "share a place, marked ≈, are not shown to differ."
        }
        @for table in tables { (section(table)) }
    };
    page(Some("wide"), &heading, &body, env!("CARGO_PKG_VERSION"))
}

fn section(table: &Table<'_>) -> Markup {
    let ranking = &table.ranking;
    let names = ranking::names_of(ranking);
    let Some(first) = ranking.ranked.first() else {
        return html! {};
    };
    let header = &first.tallied.header;
    html! {
        section {
            h2 { (header.model) "/" (header.workload) ": " (table.question.label()) }
            p { (ranking::asked(table.question)) }
            (picture(ranking, &names))
            div class="scroll" {
                table class="records cards" {
                    thead {
                        tr {
                            th { "place" } th { "relay" } th class="number" { "score" }
                            th class="number" { "good" } th class="number" { "share, between" }
                            th class="number" { "p95 to the first token" }
                            th class="number" { "answered 2xx" } th class="number" { "usable" }
                            th class="number" { "USD/Mtok" }
                        }
                    }
                    tbody {
                        @for (index, (it, name)) in ranking.ranked.iter().zip(&names).enumerate() {
                            (row(ranking, index, it, name))
                        }
                    }
                }
            }
            (remarks(table, &names))
        }
    }
}

fn row(ranking: &Ranking<'_>, index: usize, it: &Ranked<'_>, name: &str) -> Markup {
    let tally = it.counts.tally;
    let shares = |at: usize| {
        ranking
            .ranked
            .get(at)
            .is_some_and(|other| other.place == it.place)
    };
    let tied = shares(index + 1) || index.checked_sub(1).is_some_and(shares);
    let of = |question: &Question| of(it.tallied, question);
    html! {
        tr {
            td data-label="place" { div { @if tied { "≈ " } (it.place) } }
            td data-label="relay" { div { code { (name) } } }
            td class="number" data-label="score" { div { (format!("{:.6}", it.score())) } }
            td class="number" data-label="good" { div { (tally.good()) " of " (tally.n()) } }
            td class="number" data-label="share, between" {
                div {
                    (tally.share().map_or_else(String::new, share)) ", "
                    (share(it.interval.lower)) " to " (share_up(it.interval.upper))
                }
            }
            td class="number" data-label="p95 to the first token" { div { (p95(it.tallied)) } }
            td class="number" data-label="answered 2xx" { div { (of(&Question::http_success())) } }
            td class="number" data-label="usable" { div { (of(&Question::usable())) } }
            td class="number" data-label="USD/Mtok" {
                div { (rate(it.tallied.paid.per_million())) }
            }
        }
    }
}

fn p95(tallied: &Tallied) -> String {
    match tallied.ttft_quantile(950_000) {
        Some(value) if value.is_finite() => words::seconds(value),
        Some(_) => "a failure".to_owned(),
        None => "–".to_owned(),
    }
}

fn of(tallied: &Tallied, question: &Question) -> String {
    let counts = tallied.counts_of(question);
    let found = counts.and_then(|counts| counts.tally.share());
    found.map_or_else(|| "–".to_owned(), share)
}

/// Each relay's share and the interval that it may lie in, on one axis.
fn picture(ranking: &Ranking<'_>, names: &[String]) -> Markup {
    let rows = ranking.ranked.len() as f64;
    let lowest = ranking.ranked.iter().map(|it| it.interval.lower);
    // A round share below all intervals, so that what differs can be seen.
    let low = (lowest.fold(1.0, f64::min) * 20.0).floor() / 20.0;
    let low = if low >= 1.0 { 0.95 } else { low };
    let x = |at: f64| BARS.0 + (at - low) / (1.0 - low) * (BARS.1 - BARS.0);
    let bottom = ROW * rows + 6.0;
    html! {
        figure {
            figcaption { "Share of good answers, and where the true share may lie; the left end is the score" }
            svg viewBox={ "0 0 " (WIDTH) " " (bottom + 24.0) } role="img" aria-label="scores" {
                @for at in [low, f64::midpoint(low, 1.0), 1.0] {
                    path class="axis" d={ "M" (round(x(at))) " 0V" (bottom) } {}
                    text x=(round(x(at))) y=(bottom + 18.0) text-anchor="middle" { (share(at)) }
                }
                @for (index, (it, name)) in ranking.ranked.iter().zip(names).enumerate() {
                    @let y = ROW * index as f64 + ROW / 2.0;
                    text x="0" y=(y + 4.0) { (super::super::compared::cut(name, 24)) }
                    path class="whisker" d={
                        "M" (round(x(it.interval.lower))) " " (y) "H" (round(x(it.interval.upper)))
                    } {}
                    @if let Some(share) = it.counts.tally.share() {
                        circle class="bar" cx=(round(x(share))) cy=(y) r="4.5" {}
                    }
                }
            }
        }
    }
}

fn remarks(table: &Table<'_>, names: &[String]) -> Markup {
    let ranking = &table.ranking;
    let neighbours = ranking
        .neighbours
        .iter()
        .zip(names)
        .zip(names.iter().skip(1));
    html! {
        ul {
            @for ((it, above), below) in neighbours {
                li {
                    (above) " minus " (below) ": " (points(it.difference.estimate)) " pt, between "
                    (points(it.difference.lower)) " and " (points(it.difference.upper))
                    @if it.tied { "; ≈ not shown to differ" }
                }
            }
            @for (at, it) in ranking.ranked.iter().enumerate() {
                @if let Some(why) = ranking::why_below(it, at, names) { li { (why) } }
            }
            @for said in ranking::prices(ranking, names) { li { (said) } }
            @for it in &ranking.unmeasured {
                li { "not ranked: " (it.header.cell) ": nothing was measured" }
            }
            @for it in &table.unlike { li { "not quite alike: " (it.words) } }
            @for note in &table.notes { li { (note) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::ranking::rank;
    use crate::evidence::fixtures::*;
    use crate::evidence::{Line, Sample};

    fn relay(name: &str, n: u64, failures: u64) -> Tallied {
        let mut header = header(Vec::new(), n);
        header.relay = name.to_owned();
        header.cell = format!("{name}/test-model/chat");
        let questions = [Question::usable(), Question::http_success()];
        let mut tallied = Tallied::new(header, String::new(), questions.to_vec()).with_ttft();
        for index in 0..n {
            let seen = if index < failures {
                refused(503)
            } else {
                slow(800)
            };
            let sample: Sample = sample(index, seen);
            tallied.take(&Line::Sample(Box::new(sample)));
        }
        tallied
    }

    #[test]
    fn a_page_ranks_by_score_and_marks_who_is_not_shown_to_differ() {
        let relays = [
            relay("b<ad", 200, 60),
            relay("good", 200, 1),
            relay("fine", 180, 1),
        ];
        let question = Question::usable();
        let table = Table {
            ranking: rank(&relays, &question, Score::default()),
            question: &question,
            unlike: Vec::new(),
            notes: vec!["a note".to_owned()],
        };
        let text = scoreboard(&[table], Score::default());
        let at = |name: &str| text.find(&format!("<code>{name}</code>")).unwrap();
        assert!(
            at("good") < at("fine") && at("fine") < at("b&lt;ad"),
            "{text}"
        );
        assert_eq!(text.matches("<div>≈ 1</div>").count(), 2, "{text}");
        assert!(text.contains("<div>3</div>"), "{text}");
        for wanted in [
            "800 ms",
            "a failure",
            "140 of 200",
            "70.00%",
            "<li>a note</li>",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
        assert!(
            !text.contains("<script") && !text.contains("http://"),
            "{text}"
        );
    }
}
