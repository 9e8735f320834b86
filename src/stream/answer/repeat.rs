//! Deltas that repeat all text so far, which protocols that concatenate turn into stutter.

/// Shortest last delta that can show it; shorter ones can be a model counting.
const LEAST_BYTES: usize = 8;

/// Longest delta that is compared, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Watches whether every delta begins with the whole one before it.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    before: String,
    growths: u32,
    broken: bool,
}

impl Repeats {
    pub(super) fn piece(&mut self, text: &str) {
        if self.broken {
            return;
        }
        if text.len() > MAX_BYTES || !text.starts_with(&self.before) {
            self.broken = true;
            self.before = String::new();
            return;
        }
        self.growths += u32::from(!self.before.is_empty() && text.len() > self.before.len());
        text.clone_into(&mut self.before);
    }

    /// Whether deltas grew out of the ones before at least `growths` times.
    pub(super) fn is_cumulative(&self, growths: u32) -> bool {
        !self.broken && self.growths >= growths && self.before.len() >= LEAST_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cumulative(pieces: &[&str]) -> bool {
        let mut repeats = Repeats::default();
        for piece in pieces {
            repeats.piece(piece);
        }
        repeats.is_cumulative(2)
    }

    #[test]
    fn every_delta_must_begin_with_the_whole_one_before() {
        assert!(cumulative(&["Hel", "Hello", "Hello wor", "Hello world"]));
        assert!(cumulative(&["Hel", "Hello", "Hello world", "Hello world"]));
        assert!(!cumulative(&["Hel", "lo", " world"]));
        assert!(!cumulative(&["Hello", "Hello world"]));
        assert!(!cumulative(&["1", "12", "123"]));
        assert!(!cumulative(&["ha", "ha", "ha", "ha"]));
    }
}
