//! Files in which git notes what it is about to do, as far as they name programs.
//!
//! A merge strategy that git does not know itself is a program: `git merge-NAME`. Older versions also let
//! a shell evaluate options. Commands may write these files, since git writes them all the time.

use std::path::Path;

use super::git_config;

/// Strategies that git knows itself.
const STRATEGIES: &[&str] = &["octopus", "ort", "ours", "recursive", "resolve", "subtree"];

/// The lines of the state file `path` because of which git runs something.
pub(super) fn lines_that_run(path: &Path, text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let name = path.file_name().and_then(|name| name.to_str());
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let owned = str::to_owned;
    match name {
        Some("strategy") => lines.filter(|line| !is_known(line)).map(owned).collect(),
        Some("strategy_opts" | "apply-opt") => lines
            .filter(|line| is_for_a_shell(line))
            .map(owned)
            .collect(),
        Some("opts") => match git_config::parse(&text) {
            Some(settings) => {
                let runs = |setting: &git_config::Setting| {
                    setting.key == "options.strategy" && !is_known(&setting.value)
                };
                let run = settings.iter().filter(|setting| runs(setting));
                run.map(|setting| setting.value.clone()).collect()
            }
            // Git may read what we cannot.
            None => lines.map(owned).collect(),
        },
        _ => {
            let runs = |line: &&str| {
                let step = line.split_whitespace().next();
                step.is_some_and(|step| matches!(step, "exec" | "x"))
            };
            lines.filter(runs).map(owned).collect()
        }
    }
}

fn is_known(strategy: &str) -> bool {
    STRATEGIES.contains(&strategy)
}

/// Whether a shell would do more with a line than to take it apart.
fn is_for_a_shell(line: &str) -> bool {
    line.contains(['$', '`', ';', '|', '&', '<', '>', '(', ')'])
}
