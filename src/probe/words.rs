//! The words of an answer as keyed hashes: equal words stay equal, and no text is kept.

use sha2::{Digest, Sha256};

/// Most words that are kept of an answer.
const MOST: usize = 64;

/// The first words of a text; the same key gives the same word the same number.
pub(super) fn hashed(key: &str, text: &str) -> Vec<u32> {
    let number = |word: &str| {
        let hash = Sha256::new()
            .chain_update((key.len() as u64).to_le_bytes())
            .chain_update(key)
            .chain_update(word)
            .finalize();
        let mut first = [0; 4];
        first.copy_from_slice(&hash[..4]);
        u32::from_le_bytes(first)
    };
    text.split_whitespace().take(MOST).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_are_equal_numbers_under_one_key_only() {
        let one = hashed("run", "the lamp and the sea");
        assert_eq!(one.len(), 5);
        assert_eq!(one[0], one[3]);
        assert_ne!(one[0], one[1]);
        assert_eq!(one, hashed("run", " the\nlamp  and the sea "));
        assert_ne!(one, hashed("another", "the lamp and the sea"));
    }

    #[test]
    fn a_long_answer_is_no_longer_than_the_bound() {
        assert_eq!(hashed("run", &"word ".repeat(10_000)).len(), MOST);
        assert!(hashed("run", "").is_empty());
    }
}
