//! Where API keys come from.

use super::{Check, State};
use crate::keys::{KeyProvider, KeySource};
use crate::settings::Settings;

/// A line about the key of each provider, and one about a stored key that cannot be used.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let keys = &settings.keys;
    let mut checks = Vec::new();
    if let Some(problem) = &keys.problem {
        let advice = "store it again with `fastness login`, or remove it with `fastness logout`";
        checks.push(Check::new("keys", State::Broken, problem.clone()).advice(advice));
    }
    let all = KeyProvider::ALL.map(|provider| {
        let mut found = keys.found.iter();
        let source = match found.find(|(known, _)| *known == provider) {
            None => "none".to_owned(),
            Some((_, KeySource::Variable(name))) => format!("from {name}"),
            Some((_, KeySource::File(path))) => format!("from {}", path.display()),
        };
        format!("{} {source}", provider.name())
    });
    let state = match keys.found.is_empty() {
        true => State::Noted,
        false => State::Fine,
    };
    checks.push(Check::new("keys", state, all.join(", ")));
    checks
}
