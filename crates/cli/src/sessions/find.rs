//! Which session is meant: its id, or the first characters of it.

use domain::SessionId;
use journal::FileStore;

use crate::render::{Failure, one_line};

/// Fewest characters that name a session: with less, the next new one could be meant as well.
const PREFIX_MIN: usize = 4;

/// Most sessions named when several are meant: enough to choose from.
const NAMED_MAX: usize = 5;

/// The store and the one session that `text` names.
///
/// # Errors
/// If none is meant, or several are.
pub(crate) fn session<'a>(
    store: Option<&'a FileStore>,
    text: &str,
) -> anyhow::Result<(&'a FileStore, SessionId)> {
    check_length(text)?;
    let Some(store) = store else {
        return Err(missing(text).into());
    };
    if let Ok(id) = text.parse() {
        return match store.exists(id) {
            true => Ok((store, id)),
            false => Err(missing(text).into()),
        };
    }
    Ok((store, one_of(&store.list()?, text)?))
}

/// The one of `ids` that begins with `text`.
///
/// # Errors
/// If `text` is too short, or names none or several of them.
pub(crate) fn one_of(ids: &[SessionId], text: &str) -> Result<SessionId, Failure> {
    check_length(text)?;
    match matching(ids, text).as_slice() {
        [] => Err(missing(text)),
        [id] => Ok(*id),
        several => Err(ambiguous(text, several)),
    }
}

/// # Errors
/// If `text` is too short to name a session.
pub(crate) fn check_length(text: &str) -> Result<(), Failure> {
    if text.len() >= PREFIX_MIN {
        return Ok(());
    }
    let sentence = format!("`{}` is too short to name a session", one_line(text));
    let hint = "write at least four characters of its id; `fastness sessions list` shows them";
    Err(Failure::usage(sentence).hint(hint))
}

fn matching(ids: &[SessionId], prefix: &str) -> Vec<SessionId> {
    let begins = |id: &&SessionId| id.to_string().starts_with(prefix);
    ids.iter().filter(begins).copied().collect()
}

fn missing(text: &str) -> Failure {
    Failure::new(format!("there is no session {}", one_line(text)))
        .hint("`fastness sessions list` shows those that are there")
}

fn ambiguous(text: &str, several: &[SessionId]) -> Failure {
    let named: Vec<String> = several
        .iter()
        .take(NAMED_MAX)
        .map(ToString::to_string)
        .collect();
    let more = if several.len() > NAMED_MAX {
        ", …"
    } else {
        ""
    };
    Failure::usage(format!(
        "{} sessions begin with {text}: {}{more}",
        several.len(),
        named.join(", ")
    ))
    .hint("write more characters of the id")
}

#[cfg(test)]
mod tests {
    use domain::SessionId;

    use super::{ambiguous, matching, session};

    #[test]
    fn a_prefix_names_a_session_if_only_one_has_it() {
        let ids: Vec<SessionId> = ["3f2a", "3f2b"]
            .map(|start| format!("{start}{}", "0".repeat(28)).parse().unwrap())
            .into();
        assert_eq!(matching(&ids, "3f2a"), ids[..1]);
        let both = matching(&ids, "3f2");
        assert!(ambiguous("3f2", &both).to_string().contains("3f2b0"));
        assert_eq!(matching(&ids, "ffff"), []);
    }

    #[test]
    fn fewer_than_four_characters_name_nothing() {
        let error = session(None, "3f2").err().unwrap();
        assert!(error.to_string().contains("too short"), "{error}");
        let error = session(None, "3f2a").err().unwrap();
        assert_eq!(error.to_string(), "there is no session 3f2a");
    }
}
