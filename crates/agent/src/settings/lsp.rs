//! `[lsp]`: a command for each language, in place of the servers that we know.

use std::collections::BTreeMap;

use domain::limits::{LSP_WORDS_MAX, edit_distance};
use toml::Table;
use tools::lsp::{Commands, Language};

use super::{SettingsError, part, wrong};

/// Reads the table, and checks every language and command in it.
pub(super) fn commands(file: &Table) -> Result<Commands, SettingsError> {
    let commands: BTreeMap<String, Vec<String>> = part(file, "lsp")?;
    for (key, words) in &commands {
        if !Language::keys().any(|known| known == key) {
            let start: String = key.chars().take(64).collect();
            let nearest = Language::keys().min_by_key(|known| edit_distance(&start, known));
            return Err(SettingsError::Unknown {
                place: format!("lsp.{start}"),
                nearest: nearest.unwrap_or_default(),
            });
        }
        let is_named = words.first().is_none_or(|program| {
            let is_bare = !program.contains('/');
            !program.is_empty() && (is_bare || program.starts_with('/'))
        });
        let is_harmless = words.iter().all(|word| !word.contains('\0'));
        if !is_named || !is_harmless || words.len() > LSP_WORDS_MAX {
            return Err(wrong(&format!(
                "lsp.{key} is a program, by its name or its whole path, and its arguments"
            )));
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use crate::settings::FileSettings;

    fn read(text: &str) -> Result<usize, String> {
        let read = FileSettings::parse(text);
        read.map(|(settings, _)| settings.lsp.len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_is_a_program_and_its_arguments_for_a_language_that_is_known() {
        let good = "[lsp]\npython = [\"pylsp\", \"-v\"]\nrust = []\ngo = [\"/opt/gopls\"]\n";
        assert_eq!(read(good), Ok(3));
        let error = read("[lsp]\npyton = [\"pylsp\"]\n").unwrap_err();
        assert!(error.contains("`python`"), "{error}");
        for wrong in [
            "\"pylsp\"",
            "[\"\"]",
            "[\"./pylsp\"]",
            "[5]",
            "[\"a\\u0000\"]",
        ] {
            assert!(
                read(&format!("[lsp]\npython = {wrong}\n")).is_err(),
                "{wrong}"
            );
        }
    }
}
