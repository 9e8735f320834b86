//! Checks on an answer as a whole: is it all there, is it the model's, does it add up.

use super::super::Exchange;
use super::super::notes::Spot;
use super::super::pacing::Buffered;
use crate::dialect::Stop;
use crate::expect::Detect;
use crate::observation::{Class, Usage, Warning};

/// Notes everything that is wrong with the answer.
pub(super) fn check(exchange: &mut Exchange, spot: Spot) {
    let asked = &exchange.asked;
    let detect = &asked.expect.detect;
    let heard = &mut exchange.reading.heard;
    let (answer, notes) = (&mut heard.answer, &mut heard.notes);
    // Bytes that are no UTF-8 became U+FFFD in our own decoder, not on the way.
    if notes.has(Class::InvalidUtf8) {
        notes.drop_class(Class::ReplacementChars);
    }
    if let Some(spot) = answer.identity.splice(detect.id_changes) {
        notes.find(Class::StreamSplice, spot, "two generations in one stream");
    }
    if let Some(spot) = answer.identity.mismatch {
        notes.find(Class::ModelMismatch, spot, "another model's label");
    }
    if answer.is_cumulative(detect.growths) {
        notes.find(
            Class::CumulativeDeltas,
            spot,
            "each delta begins with the one before",
        );
    }
    let sealed = answer.sealed(asked.seal.as_deref(), asked.expect.shape.as_ref());
    let ended = answer.moments.end_mark.is_some();
    if sealed != Some(true) {
        let free = ended && asked.usage && answer.usage.is_none_or(|usage| usage.output == Some(0));
        if let Some(kind) = answer.spoken_error(free || sealed == Some(false), detect.put_bytes) {
            notes.find(Class::ErrorAsContent, spot, "an error text as the answer");
            answer.error.get_or_insert((None, kind));
        }
    }
    if !ended {
        return;
    }
    // What could not be read may have held whatever seems to be missing.
    let readable = heard.unreadable == 0 && !notes.has(Class::ErrorInStream);
    if readable && answer.objects > 0 {
        if answer.finish.is_none() {
            notes.find(Class::SilentTruncation, spot, "no finish reason");
        }
        let explained = notes.has(Class::ContentFiltered) || notes.has(Class::UpstreamAbort);
        if !answer.has_output() && !explained {
            notes.find(Class::EmptyAnswer, spot, "no output");
        }
    }
    let stop = answer.finish.as_ref().map(|(stop, _)| *stop);
    if stop == Some(Stop::Length) {
        let shown = (answer.is_text_only() && !answer.text.is_empty() && !answer.is_cut())
            .then_some(answer.text.len() as u64);
        if let Some(detail) = length_cut(asked.max_tokens, answer.usage, shown, detect) {
            notes.find(Class::UnexpectedLengthCut, spot, detail);
        }
    } else if readable {
        let none =
            stop == Some(Stop::ToolCalls) && answer.tools.count() == 0 && answer.has_output();
        let fault = none
            .then_some("a finish for tool calls, and none came")
            .or_else(|| answer.tools.fault());
        if let Some(detail) = fault {
            notes.find(Class::ToolCallCorrupt, spot, detail);
        }
    }
    if readable && asked.usage && answer.objects > 0 && stop.is_some() {
        let detail = match answer.usage {
            None => Some("missing"),
            Some(usage) => inconsistency(usage, answer.has_output()),
        };
        if let Some(detail) = detail {
            notes.find(Class::UsageMismatch, spot, detail);
        }
    }
    if asked.stream && answer.objects > 0 && !answer.gives_calls_whole(detect.least_chars) {
        let hidden = answer.usage.and_then(|usage| usage.reasoning);
        let hidden = hidden.filter(|_| !answer.has_reasoning()).unwrap_or(0);
        let tokens = answer.usage.and_then(|usage| usage.output);
        let tokens = tokens.map(|tokens| tokens.saturating_sub(hidden));
        let tokens = tokens.map(|tokens| tokens.max(answer.pacing.events()));
        let coarse = asked.protocol.groups_tokens();
        match answer.pacing.buffered(tokens, coarse) {
            Buffered::No => {}
            Buffered::Perhaps => notes.warn(Warning::BigBlocks),
            Buffered::OneBurst => {
                notes.find(Class::NotStreamed, spot, "the whole answer in one burst");
            }
            Buffered::Blocks => {
                notes.find(
                    Class::NotStreamed,
                    spot,
                    "big blocks with long pauses between",
                );
            }
        }
    }
    if readable && claims_whole(stop) && sealed == Some(false) && answer.has_output() {
        notes.find(
            Class::MaskedTruncation,
            spot,
            "a normal stop without the seal",
        );
    }
}

fn claims_whole(stop: Option<Stop>) -> bool {
    matches!(stop, Some(Stop::Natural | Stop::Unknown))
}

/// Why a cut at a length was not asked for; `shown` is the size of the answer where that is all.
fn length_cut(
    budget: Option<u64>,
    usage: Option<Usage>,
    shown: Option<u64>,
    detect: &Detect,
) -> Option<&'static str> {
    let Some(budget) = budget else {
        return Some("no budget was asked for");
    };
    let least = u128::from(1_000_000_u32.saturating_sub(detect.length_tolerance_ppm));
    match (usage.and_then(|usage| usage.output), shown) {
        // Room for servers that count the end in or out.
        (Some(used), _) => (u128::from(used) * 1_000_000 < u128::from(budget) * least)
            .then_some("fewer tokens than the budget"),
        // No token is shorter than a byte.
        (None, Some(bytes)) => (bytes < budget).then_some("fewer bytes than tokens in the budget"),
        (None, None) => None,
    }
}

/// What does not add up in a usage report.
fn inconsistency(usage: Usage, output: bool) -> Option<&'static str> {
    if output && usage.output == Some(0) {
        return Some("zero beside output");
    }
    if usage.output.is_none() {
        return Some("no count of the output");
    }
    if let (Some(cached), Some(input)) = (usage.cached_input, usage.input)
        && cached > input
    {
        return Some("more cached input than input");
    }
    if let (Some(input), Some(output), Some(total)) = (usage.input, usage.output, usage.total) {
        let sum = input.saturating_add(output);
        // Some services count reasoning beside the output.
        let apart = sum.saturating_add(usage.reasoning.unwrap_or(0));
        if total != sum && total != apart {
            return Some("the total is no sum");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(output: u64) -> Option<Usage> {
        Some(Usage {
            output: Some(output),
            ..Usage::default()
        })
    }

    #[test]
    fn a_cut_at_the_budget_asked_for_is_expected() {
        let length_cut =
            |budget, usage, shown| length_cut(budget, usage, shown, &Detect::default());
        assert_eq!(length_cut(Some(2), used(2), None), None);
        assert_eq!(length_cut(Some(128), used(127), None), None);
        assert_eq!(length_cut(Some(2), None, Some(9)), None);
        assert_eq!(length_cut(Some(64), None, None), None);
        assert!(length_cut(None, used(6), None).is_some());
        assert!(length_cut(Some(4096), used(4), None).is_some());
        assert!(length_cut(Some(4096), None, Some(10)).is_some());
    }

    #[test]
    fn a_usage_report_has_to_add_up() {
        let usage = Usage {
            input: Some(9),
            output: Some(5),
            reasoning: Some(3),
            cached_input: None,
            total: Some(14),
        };
        assert_eq!(inconsistency(usage, true), None);
        let apart = Usage {
            total: Some(17),
            ..usage
        };
        assert_eq!(inconsistency(apart, true), None);
        let wrong = Usage {
            total: Some(15),
            ..usage
        };
        assert!(inconsistency(wrong, true).is_some());
        let free = Usage {
            output: Some(0),
            total: Some(9),
            ..usage
        };
        assert!(inconsistency(free, true).is_some());
    }
}
