//! What a relay charges for the tokens of one model.

use serde::{Deserialize, Serialize};

use crate::stats::float;

/// Tokens that a price is for.
const PER: f64 = 1e6;

/// Prices of one model at one relay, per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Prompt tokens.
    pub input: f64,
    /// Prompt tokens that came from the provider's cache; `None`: as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// Tokens of the answer, reasoning included.
    pub output: f64,
    /// The relay's factor on all of them (its group ratio).
    pub multiplier: f64,
    /// Credits that one US dollar buys, where prices are in credits; `None`: they are in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fx: Option<f64>,
}

impl Price {
    /// What tokens cost, in US dollars.
    ///
    /// `cached` of the `input` tokens came from a cache; `None` when that does not add up.
    pub fn usd(&self, input: u64, cached: u64, output: u64) -> Option<f64> {
        let fresh = float(input.checked_sub(cached)?);
        let listed = fresh * self.input
            + float(cached) * self.cached_input.unwrap_or(self.input)
            + float(output) * self.output;
        Some(listed * self.multiplier / self.fx.unwrap_or(1.0) / PER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        input: 0.15,
        cached_input: Some(0.075),
        output: 0.60,
        multiplier: 0.8,
        fx: None,
    };

    fn close(cost: Option<f64>, wanted: f64) {
        let cost = cost.unwrap();
        assert!((cost - wanted).abs() < 1e-12, "{cost} is not {wanted}");
    }

    #[test]
    fn a_million_tokens_cost_what_the_table_says_times_the_multiplier() {
        close(PRICE.usd(1_000_000, 0, 0), 0.12);
        close(PRICE.usd(0, 0, 1_000_000), 0.48);
        close(PRICE.usd(1_000_000, 1_000_000, 0), 0.06);
        close(PRICE.usd(1_000_000, 500_000, 0), 0.09);
    }

    #[test]
    fn cached_tokens_without_a_price_of_their_own_cost_as_any_other() {
        let price = Price {
            cached_input: None,
            ..PRICE
        };
        close(price.usd(1_000_000, 500_000, 0), 0.12);
    }

    #[test]
    fn credits_are_turned_into_dollars() {
        let price = Price {
            fx: Some(8.0),
            ..PRICE
        };
        close(price.usd(0, 0, 1_000_000), 0.06);
    }

    #[test]
    fn more_cached_than_prompt_tokens_have_no_price() {
        assert_eq!(PRICE.usd(10, 11, 0), None);
    }
}
