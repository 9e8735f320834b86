//! Tokens counted by ourselves, for models whose tokenizer is known.
//!
//! Only with the feature `tokenizer`: the vocabularies are megabytes. Without it, nothing is counted
//! and no text of an answer is kept for it.

use crate::dialect::Message;
use crate::observation::OwnCount;

/// Counts tokens for one model.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    #[cfg(feature = "tokenizer")]
    model: String,
    #[cfg(feature = "tokenizer")]
    prompt: u64,
}

/// Longest answer that is counted: merging bytes of a relay's own choice takes time.
#[cfg(feature = "tokenizer")]
const MOST_BYTES: usize = 64 * 1024;

#[cfg(feature = "tokenizer")]
impl Counter {
    /// A counter for a call; `None` where the tokenizer of the model is not known.
    pub(super) fn of(model: &str, prompt: &[Message]) -> Option<Self> {
        let bare = bare(model);
        let tokens = |text: &str| tokens(bare, text);
        let prompt = prompt.iter().map(|message| tokens(&message.content));
        Some(Self {
            prompt: prompt.sum::<Option<u64>>()?,
            model: bare.to_owned(),
        })
    }

    /// [`Counter::count`], not on the threads that time other calls: how long it takes is up to the
    /// relay.
    pub(super) async fn count_aside(self, answer: String) -> Option<OwnCount> {
        let counted = tokio::task::spawn_blocking(move || self.count(&answer)).await;
        counted.ok().flatten()
    }

    /// What the prompt and this answer come to; `None` where the answer is longer than any model's.
    fn count(&self, answer: &str) -> Option<OwnCount> {
        if answer.len() > MOST_BYTES {
            return None;
        }
        Some(OwnCount {
            prompt: self.prompt,
            answer: tokens(&self.model, answer)?,
        })
    }
}

/// Makes the vocabulary of a model ready, which takes a good part of a second: not for the threads
/// that start calls. Without a known tokenizer there is nothing to do.
pub fn make_ready(model: &str) {
    #[cfg(feature = "tokenizer")]
    tokens(bare(model), "");
    #[cfg(not(feature = "tokenizer"))]
    let _ = model;
}

/// Relays put the vendor's name before the model's.
#[cfg(feature = "tokenizer")]
fn bare(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

#[cfg(feature = "tokenizer")]
fn tokens(model: &str, text: &str) -> Option<u64> {
    let tokenizer = tiktoken_rs::bpe_for_model(model).ok()?;
    Some(tokenizer.encode_ordinary(text).len() as u64)
}

#[cfg(not(feature = "tokenizer"))]
impl Counter {
    /// No tokenizer is on board.
    pub(super) const fn of(_model: &str, _prompt: &[Message]) -> Option<Self> {
        None
    }

    /// What the prompt and this answer come to.
    pub(super) async fn count_aside(self, _answer: String) -> Option<OwnCount> {
        std::future::ready(None).await
    }
}

#[cfg(all(test, feature = "tokenizer"))]
mod tests {
    use super::*;

    fn prompt() -> Vec<Message> {
        vec![Message {
            role: "user".to_owned(),
            content: "hello world".to_owned(),
        }]
    }

    #[test]
    fn tokens_are_those_of_the_models_own_tokenizer() {
        for model in ["gpt-4o-mini", "openai/gpt-4o-mini", "gpt-4"] {
            let counter = Counter::of(model, &prompt()).unwrap();
            let count = counter.count("tiktoken is great!").unwrap();
            assert_eq!((count.prompt, count.answer), (2, 6), "{model}");
        }
    }

    #[test]
    fn a_model_without_a_known_tokenizer_is_not_counted() {
        assert!(Counter::of("claude-sonnet", &prompt()).is_none());
    }

    #[test]
    fn an_answer_beyond_any_models_is_not_counted() {
        let counter = Counter::of("gpt-4o", &prompt()).unwrap();
        assert_eq!(counter.count(&"a".repeat(MOST_BYTES + 1)), None);
    }
}
