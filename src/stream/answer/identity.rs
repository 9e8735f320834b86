//! Who answers: ids, model labels and announced roles, and whether they change in mid-answer.

use crate::stream::clean;
use crate::stream::naming::is_same_model;
use crate::stream::notes::Spot;

/// How much of an id or a label is compared, in bytes.
const MAX_BYTES: usize = 256;

/// What the frames call themselves.
#[derive(Debug)]
pub(in crate::stream) struct Identity {
    asked: String,
    pub(in crate::stream) id: Option<String>,
    pub(in crate::stream) model: Option<String>,
    pub(in crate::stream) fingerprint: Option<String>,
    /// First label that names another model than the one asked for.
    pub(in crate::stream) mismatch: Option<Spot>,
    last_id: Option<String>,
    last_model: Option<String>,
    id_changes: u64,
    role_before: bool,
    /// A second generation began here: model and one more sign changed, or the protocol said so.
    certain: Option<Spot>,
    /// The same, but resting on the id.
    by_id: Option<Spot>,
}

impl Identity {
    pub(super) fn new(asked: &str) -> Self {
        Self {
            asked: asked.to_owned(),
            id: None,
            model: None,
            fingerprint: None,
            mismatch: None,
            last_id: None,
            last_model: None,
            id_changes: 0,
            role_before: false,
            certain: None,
            by_id: None,
        }
    }

    /// Takes one frame's identity; `output` is whether model output came before it.
    pub(super) fn meta(
        &mut self,
        spot: Spot,
        id: Option<&str>,
        model: Option<&str>,
        fingerprint: Option<&str>,
        role: bool,
        output: bool,
    ) {
        let id_changed = changed(&mut self.last_id, id);
        self.id_changes += u64::from(id_changed);
        let model_changed = self.relabel(spot, model);
        let role_again = role && !self.role_before;
        self.role_before = role;
        if output {
            if model_changed && role_again {
                self.certain.get_or_insert(spot);
            } else if id_changed && (model_changed || role_again) {
                self.by_id.get_or_insert(spot);
            }
        }
        for (kept, now) in [
            (&mut self.id, id),
            (&mut self.model, model),
            (&mut self.fingerprint, fingerprint),
        ] {
            if let Some(now) = now.filter(|_| kept.is_none()) {
                *kept = Some(clean::short(now));
            }
        }
    }

    /// Takes a beginning that the protocol allows but once.
    pub(super) fn restart(&mut self, spot: Spot) {
        self.certain.get_or_insert(spot);
    }

    /// Takes a model label; true when it names another model than the label before.
    fn relabel(&mut self, spot: Spot, model: Option<&str>) -> bool {
        let Some(now) = model.map(|label| clean::cut(label, MAX_BYTES)) else {
            return false;
        };
        let other = match self.last_model.as_deref() {
            Some(before) if before == now => return false,
            Some(before) => !is_same_model(before, now),
            None => false,
        };
        let wanted = self.asked.is_empty() || is_same_model(&self.asked, now);
        if self.mismatch.is_none() && !wanted {
            self.mismatch = Some(spot);
        }
        self.last_model = Some(now.to_owned());
        other
    }

    /// Where a second generation began; an id that changes more often than `habit` is drawn anew
    /// each time and is no sign.
    pub(in crate::stream) fn splice(&self, habit: u64) -> Option<Spot> {
        self.certain
            .or_else(|| self.by_id.filter(|_| self.id_changes <= habit))
    }
}

/// Whether a value differs from the one before, which it replaces.
fn changed(before: &mut Option<String>, now: Option<&str>) -> bool {
    let Some(now) = now.map(|now| clean::cut(now, MAX_BYTES)) else {
        return false;
    };
    match before {
        Some(before) if before == now => false,
        Some(before) => {
            now.clone_into(before);
            true
        }
        None => {
            *before = Some(now.to_owned());
            false
        }
    }
}
