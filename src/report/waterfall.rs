//! The phases of an attempt, one behind the other, as every waterfall shows them.

use std::time::Duration;

use crate::observation::{Phase, Timeline};

/// Phase, start and end of each phase that happened; an open end lasts until the attempt was over.
pub fn phases(line: &Timeline) -> Vec<(Phase, Duration, Duration)> {
    let mut rows = Vec::new();
    let stretches = [
        (Phase::Pool, line.pool),
        (Phase::Dns, line.dns),
        (Phase::Connect, line.connect),
        (Phase::Tunnel, line.tunnel),
        (Phase::Tls, line.tls),
        (Phase::Send, line.send),
    ];
    for (phase, of) in stretches {
        if let Some(of) = of {
            rows.push((phase, of.start, of.end.unwrap_or(line.over)));
        }
    }
    let mut from = line.send.map(|send| send.end.unwrap_or(line.over));
    let marks = [
        (Phase::Wait, line.first_byte.or(line.head)),
        (Phase::Head, line.head),
        (Phase::FirstEvent, line.first_event),
        (Phase::FirstToken, line.first_token),
        (Phase::Stream, line.last_token),
        (Phase::End, line.end_mark),
    ];
    for (phase, mark) in marks {
        let Some(start) = from else { break };
        match mark {
            Some(mark) => {
                // Without the first byte, wait and head are one.
                if phase != Phase::Head || line.first_byte.is_some() {
                    rows.push((phase, start, mark.max(start)));
                }
                from = Some(mark.max(start));
            }
            None if marks
                .iter()
                .any(|(later, at)| *later > phase && at.is_some()) => {}
            None => {
                if start < line.over {
                    rows.push((phase, start, line.over));
                }
                break;
            }
        }
    }
    rows
}
