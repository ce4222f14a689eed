//! Which Claude thinks, and how it is asked to.

use serde_json::{Value, json};

/// Tokens for thinking, where a number must be given: enough for a plan, a fraction of an answer.
const BUDGET: u64 = 8_000;

/// The `thinking` of a request to the model `name`, or none for a model that cannot or is not known.
///
/// From 4.6 on a model decides by itself how much to think, and only shows it when asked to; from
/// 3.7 on it takes a budget.
pub(super) fn wanted(name: &str) -> Option<Value> {
    match version(name)? {
        (4, 6..) | (5.., _) => Some(json!({ "type": "adaptive", "display": "summarized" })),
        (3, 7..) | (4, _) => Some(json!({ "type": "enabled", "budget_tokens": BUDGET })),
        _ => None,
    }
}

/// The version in a name such as `claude-opus-4-5-20251101` or `claude-3-7-sonnet-latest`.
fn version(name: &str) -> Option<(u32, u32)> {
    let words = name.strip_prefix("claude-")?.split('-');
    // A date is a number too, but longer.
    let numbers = words.map(|word| word.parse::<u32>().ok().filter(|_| word.len() <= 2));
    let mut numbers = numbers.skip_while(Option::is_none);
    let major = numbers.next().flatten()?;
    Some((major, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::{version, wanted};

    #[test]
    fn the_version_is_read_from_the_name() {
        let names = [
            ("claude-opus-4-5-20251101", Some((4, 5))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-3-7-sonnet-latest", Some((3, 7))),
            ("claude-3-haiku-20240307", Some((3, 0))),
            ("claude-fable-5-1", Some((5, 1))),
            ("claude-opus-5", Some((5, 0))),
            ("claude-new", None),
            ("mock", None),
        ];
        for (name, expected) in names {
            assert_eq!(version(name), expected, "{name}");
        }
    }

    #[test]
    fn each_generation_is_asked_in_its_own_way() {
        let kind = |name: &str| Some(wanted(name)?["type"].as_str()?.to_owned());
        assert_eq!(kind("claude-sonnet-5-5").as_deref(), Some("adaptive"));
        assert_eq!(kind("claude-opus-4-6").as_deref(), Some("adaptive"));
        assert_eq!(kind("claude-haiku-4-5").as_deref(), Some("enabled"));
        assert_eq!(kind("claude-3-5-haiku-latest"), None);
        assert_eq!(kind("mock"), None);
    }
}
