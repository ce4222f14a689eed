//! What is known of models by their names: how much they read and write, and what that costs.
//!
//! Prices change and names come and go, so an unknown name is no error: it has the default window
//! and no price. A price counts only for the very model it was published for.

use domain::event::Usage;

use crate::dialect::Output;

/// Tokens of one answer that are asked for at most: an answer with its thinking fits, and what the
/// model reads has room beside it.
const OUTPUT_MAX: u64 = 32_000;

/// An answer may have this part of the window at least: where less is left, the server says so.
const OUTPUT_PART_LEAST: u64 = 16;

/// Above this many tokens read in one call some models cost more; then no price is given.
const SHORT: u64 = 272_000;

/// The models that are offered by name where their provider has a key; the first is the default.
pub(crate) const ANTHROPIC_OFFERED: &[&str] = &[
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-1",
];

/// As [`ANTHROPIC_OFFERED`], for OpenAI.
pub(crate) const OPENAI_OFFERED: &[&str] = &["gpt-6-sol", "gpt-6-luna", "gpt-6-astra"];

/// A model, or all whose names begin alike.
struct Known {
    name: &'static str,
    window: u64,
    output: u64,
    price: Option<Price>,
}

/// Billionths of a US dollar per token, which are thousandths of a dollar per million tokens.
#[derive(Clone, Copy)]
struct Price {
    input: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
    /// The price holds for calls that read at most this.
    input_max: u64,
}

/// Tokens that fit into one call of the model `name`, if its name says so.
pub(crate) fn context_window(name: &str) -> Option<u64> {
    alike(name).map(|known| known.window)
}

/// How long an answer of the model `name` may be, after a question of about `input` tokens.
///
/// Servers of models without a name that is known may stop after a few words, or never. Some refuse
/// a call that asks for more than what is left of their window, so what is asked for stays within.
pub(crate) fn output(name: &str, window: u64, input: u64) -> Output {
    if let Some(known) = alike(name) {
        return Output {
            tokens_max: known.output.min(OUTPUT_MAX),
            is_default_unknown: false,
        };
    }
    // The question's length is an estimate.
    let left = window.saturating_sub(input + input / 8);
    let least = window / OUTPUT_PART_LEAST;
    Output {
        tokens_max: left.clamp(least.min(OUTPUT_MAX), OUTPUT_MAX),
        is_default_unknown: true,
    }
}

/// What `usage` of the model `name` costs, in billionths of a US dollar.
pub(crate) fn cost_nano_usd(name: &str, usage: &Usage) -> Option<u64> {
    let known = KNOWN.iter().find(|known| known.is(name))?;
    let price = known.price?;
    if usage.input_tokens > price.input_max {
        return None;
    }
    let fresh = usage
        .input_tokens
        .saturating_sub(usage.cached_tokens)
        .saturating_sub(usage.cache_write_tokens);
    let parts = [
        (fresh, price.input),
        (usage.cached_tokens, price.cached),
        (usage.cache_write_tokens, price.cache_write),
        (usage.output_tokens, price.output),
    ];
    let costs = parts.map(|(tokens, price)| tokens.saturating_mul(price));
    Some(costs.into_iter().fold(0, u64::saturating_add))
}

/// The model whose name is the longest beginning of `name`.
fn alike(name: &str) -> Option<&'static Known> {
    let alike = KNOWN.iter().filter(|known| name.starts_with(known.name));
    alike.max_by_key(|known| known.name.len())
}

impl Known {
    /// Whether `name` is this very model, or a dated snapshot of it.
    fn is(&self, name: &str) -> bool {
        match name.strip_prefix(self.name) {
            Some(rest) => rest.is_empty() || rest == "-latest" || rest.starts_with("-20"),
            None => false,
        }
    }
}

const fn known(name: &'static str, window: u64, output: u64, price: Option<Price>) -> Known {
    Known {
        name,
        window,
        output,
        price,
    }
}

/// Anthropic's prices: reading the cache costs a tenth, writing it a quarter more.
const fn claude(input: u64, output: u64) -> Option<Price> {
    Some(Price {
        input,
        cached: input / 10,
        cache_write: input + input / 4,
        output,
        input_max: u64::MAX,
    })
}

/// OpenAI's prices, where writing the cache costs nothing extra.
const fn gpt(input: u64, cached: u64, output: u64) -> Option<Price> {
    Some(Price {
        input,
        cached,
        cache_write: input,
        output,
        input_max: SHORT,
    })
}

/// OpenAI's prices since GPT-6, where writing the cache costs a quarter more.
const fn gpt_6(input: u64, output: u64) -> Option<Price> {
    Some(Price {
        input,
        cached: input / 10,
        cache_write: input + input / 4,
        output,
        input_max: SHORT,
    })
}

/// As the providers published them in November 2026.
const KNOWN: &[Known] = &[
    known("claude-fable-5", 1_000_000, 128_000, claude(10_000, 50_000)),
    known(
        "claude-fable-5-1",
        1_000_000,
        128_000,
        claude(10_000, 50_000),
    ),
    known("claude-opus-5-5", 1_000_000, 128_000, claude(4_000, 20_000)),
    known("claude-opus-5", 1_000_000, 128_000, claude(5_000, 25_000)),
    known("claude-opus-4-6", 200_000, 64_000, claude(5_000, 25_000)),
    known("claude-opus-4-5", 200_000, 64_000, claude(5_000, 25_000)),
    known("claude-opus-4-1", 200_000, 32_000, claude(15_000, 75_000)),
    known("claude-opus-4", 200_000, 32_000, claude(15_000, 75_000)),
    known(
        "claude-sonnet-5-5",
        1_000_000,
        128_000,
        claude(2_000, 10_000),
    ),
    known("claude-sonnet-5", 1_000_000, 128_000, claude(2_000, 10_000)),
    known("claude-sonnet-4-6", 200_000, 64_000, claude(3_000, 15_000)),
    known("claude-sonnet-4-5", 200_000, 64_000, claude(3_000, 15_000)),
    known("claude-sonnet-4", 200_000, 64_000, claude(3_000, 15_000)),
    // Its price has steps that no call shows.
    known("claude-haiku-5-5", 1_000_000, 128_000, None),
    known("claude-haiku-4-5", 200_000, 64_000, claude(1_000, 5_000)),
    known("claude-3-7-sonnet", 200_000, 64_000, claude(3_000, 15_000)),
    known("claude-3-5-haiku", 200_000, 8_192, claude(800, 4_000)),
    known("claude-3-5", 200_000, 8_192, None),
    known("claude-3", 200_000, 4_096, None),
    known("claude-", 200_000, 32_000, None),
    known("gpt-6-sol", 1_050_000, 128_000, gpt_6(2_000, 10_000)),
    known("gpt-6-luna", 1_050_000, 128_000, gpt_6(100, 500)),
    known("gpt-6", 1_050_000, 128_000, None),
    known("gpt-5.6", 1_050_000, 128_000, None),
    known("gpt-5.5", 1_050_000, 128_000, gpt(5_000, 500, 30_000)),
    known("gpt-5.4", 1_050_000, 128_000, gpt(2_500, 250, 15_000)),
    known("gpt-5.4-mini", 400_000, 128_000, gpt(750, 75, 4_500)),
    known("gpt-5.4-nano", 400_000, 128_000, gpt(200, 20, 1_250)),
    known("gpt-5.3-codex", 400_000, 128_000, gpt(1_750, 175, 14_000)),
    known("gpt-5.2", 400_000, 128_000, gpt(1_750, 175, 14_000)),
    known("gpt-5.1", 400_000, 128_000, gpt(1_250, 125, 10_000)),
    known("gpt-5-mini", 400_000, 128_000, gpt(250, 25, 2_000)),
    known("gpt-5-nano", 400_000, 128_000, gpt(50, 5, 400)),
    known("gpt-5", 400_000, 128_000, gpt(1_250, 125, 10_000)),
    known("gpt-4.1", 1_047_576, 32_768, gpt(2_000, 500, 8_000)),
    known("gpt-4.1-mini", 1_047_576, 32_768, gpt(400, 100, 1_600)),
    known("gpt-4o", 128_000, 16_384, gpt(2_500, 1_250, 10_000)),
    known("gpt-4o-mini", 128_000, 16_384, gpt(150, 75, 600)),
    known("o3", 200_000, 100_000, gpt(2_000, 500, 8_000)),
    known("o4", 200_000, 100_000, None),
];

#[cfg(test)]
mod tests {
    use domain::event::Usage;

    use super::{context_window, cost_nano_usd, output};

    fn cost(name: &str, usage: [u64; 4]) -> Option<u64> {
        let [
            input_tokens,
            cached_tokens,
            cache_write_tokens,
            output_tokens,
        ] = usage;
        let usage = Usage {
            input_tokens,
            output_tokens,
            cached_tokens,
            cache_write_tokens,
            ..Usage::default()
        };
        cost_nano_usd(name, &usage)
    }

    #[test]
    fn a_call_costs_what_its_tokens_cost_each_at_its_own_price() {
        let million = 1_000_000;
        let dollars = 1_000_000_000;
        let sonnet = "claude-sonnet-4-5-20250929";
        assert_eq!(cost(sonnet, [million, 0, 0, 0]), Some(3 * dollars));
        assert_eq!(cost(sonnet, [0, 0, 0, million]), Some(15 * dollars));
        // Cached tokens are a part of those read, and cost a tenth; written ones a quarter more.
        let parts = [3 * million, million, million, 0];
        assert_eq!(cost(sonnet, parts), Some((300 + 375 + 30) * dollars / 100));
        assert_eq!(cost("gpt-6-luna", [1_000, 0, 0, 100]), Some(150_000));
    }

    #[test]
    fn a_model_of_another_name_or_a_dearer_call_has_no_price() {
        for unknown in [
            "qwen3:4b",
            "gpt-5-pro",
            "gpt-5.6-sol",
            "claude-haiku-5-5",
            "",
        ] {
            assert_eq!(cost(unknown, [1, 0, 0, 1]), None, "{unknown}");
        }
        assert_eq!(cost("gpt-6-sol", [300_000, 0, 0, 1]), None);
    }

    #[test]
    fn the_window_is_that_of_the_nearest_name() {
        let windows = [
            ("claude-opus-5-5", 1_000_000),
            ("claude-opus-4-1-20250805", 200_000),
            ("claude-something-new", 200_000),
            ("gpt-6-terra", 1_050_000),
            ("gpt-5-codex", 400_000),
        ];
        for (name, window) in windows {
            assert_eq!(context_window(name), Some(window), "{name}");
        }
        assert_eq!(context_window("qwen3:4b"), None);
    }

    #[test]
    fn answer_may_fill_what_is_left_of_an_unknown_window() {
        let tokens_max = |name, window, input| output(name, window, input).tokens_max;
        assert_eq!(tokens_max("claude-3-haiku-20240307", 200_000, 1), 4_096);
        assert_eq!(tokens_max("claude-opus-5-5", 1_000_000, 1), 32_000);
        assert_eq!(tokens_max("qwen", 8_192, 2_000), 8_192 - 2_250);
        assert_eq!(tokens_max("qwen", 128_000, 2_000), 32_000);
        assert_eq!(tokens_max("qwen", 8_192, 9_000), 512);
        assert!(output("qwen", 8_192, 1).is_default_unknown);
        assert!(!output("gpt-6-sol", 8_192, 1).is_default_unknown);
    }
}
