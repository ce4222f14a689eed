//! Whether the editors that are here know how to start us.

use std::path::Path;

use super::{Check, State};
use crate::init::{self, editor::Editor, file::EditError};
use crate::settings::Settings;

/// A line for each editor that is found.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let looked = Editor::ALL.into_iter().filter_map(|editor| {
        let (path, found) = init::look(editor, settings)?;
        Some(of(editor, &path, found))
    });
    looked.collect()
}

fn of(editor: Editor, path: &Path, found: Result<Option<String>, EditError>) -> Check {
    let check = |state, finding: String| Check::new("editor", state, finding);
    let (name, word, shown) = (editor.name(), editor.word(), path.display());
    match found {
        Ok(None) => check(State::Noted, format!("{name} does not know us yet"))
            .advice(format!("`fastness init {word}` tells it")),
        Ok(Some(command)) if is_there(&command) => {
            check(State::Fine, format!("{name} starts us ({shown})"))
        }
        Ok(Some(command)) => check(
            State::Broken,
            format!("{name} would start {command}, which is not there ({shown})"),
        )
        .advice(format!(
            "`fastness init {word} --remove`, then `fastness init {word}`"
        )),
        Err(error) => check(State::Noted, format!("{name}: {error}"))
            .advice("mend that file; the editor may not understand it either"),
    }
}

/// A bare name is looked for by the editor; only a path can be known to be wrong.
fn is_there(command: &str) -> bool {
    !command.contains('/') || Path::new(command).is_file()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{State, of};
    use crate::init::editor::Editor;

    #[test]
    fn an_editor_knows_us_does_not_or_knows_a_program_that_is_gone() {
        let path = Path::new("settings.json");
        let check = |found: Option<&str>| of(Editor::Zed, path, Ok(found.map(str::to_owned)));
        assert_eq!(check(Some("fastness")).state, State::Fine);
        let unknown = check(None);
        assert_eq!(unknown.state, State::Noted);
        assert_eq!(
            unknown.advice.as_deref(),
            Some("`fastness init zed` tells it")
        );
        let gone = check(Some("/nowhere/fastness"));
        assert_eq!(gone.state, State::Broken);
        assert!(gone.advice.unwrap().contains("--remove"));
    }
}
