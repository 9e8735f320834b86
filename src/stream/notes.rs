//! Findings and warnings of one attempt, bounded. No content, no judgement.

use std::time::Duration;

use crate::observation::{Class, Finding, Phase, Warning};

/// Most findings that are kept.
pub(super) const MAX_FINDINGS: usize = 64;

/// Most findings of one class that are kept; a class is never lost to the total.
const MAX_OF_CLASS: usize = 4;

/// Where in the stream something was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) at: Duration,
    pub(super) phase: Phase,
    pub(super) offset: Option<u64>,
    pub(super) event: Option<u64>,
}

/// What was noticed so far.
#[derive(Debug)]
pub(super) struct Notes {
    findings: Vec<Finding>,
    warnings: Vec<Warning>,
    /// Whether all bytes so far were valid at every layer.
    pub(super) parse_ok: bool,
}

impl Notes {
    pub(super) fn new() -> Self {
        Self {
            findings: Vec::new(),
            warnings: Vec::new(),
            parse_ok: true,
        }
    }

    pub(super) fn find(&mut self, class: Class, spot: Spot, detail: &'static str) {
        let same = self.findings.iter().filter(|kept| kept.class == class);
        if same.count() >= MAX_OF_CLASS || self.findings.len() >= MAX_FINDINGS {
            return;
        }
        self.findings.push(Finding {
            class,
            phase: spot.phase,
            at: Some(spot.at),
            offset: spot.offset,
            event: spot.event,
            detail: detail.to_owned(),
        });
    }

    /// Notes a finding that makes the bytes invalid.
    pub(super) fn fault(&mut self, class: Class, spot: Spot, detail: &'static str) {
        self.parse_ok = false;
        self.find(class, spot, detail);
    }

    pub(super) fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub(super) fn has(&self, class: Class) -> bool {
        self.findings.iter().any(|kept| kept.class == class)
    }

    pub(super) fn warned(&self, warning: Warning) -> bool {
        self.warnings.contains(&warning)
    }

    /// Forgets all but faults of the framing: the bytes were in a coding that nobody can read.
    pub(super) fn drop_unread(&mut self) {
        self.findings
            .retain(|kept| kept.class == Class::ProtocolViolation);
        self.warnings.clear();
    }

    /// Forgets the findings of one class, which another finding explains.
    pub(super) fn drop_class(&mut self, class: Class) {
        self.findings.retain(|kept| kept.class != class);
    }

    /// Leading finding first; of one class, the first in the stream first.
    pub(super) fn close(mut self) -> (Vec<Finding>, Vec<Warning>) {
        self.findings
            .sort_by_key(|finding| (finding.class, finding.event, finding.offset));
        self.warnings.sort_unstable();
        (self.findings, self.warnings)
    }
}
