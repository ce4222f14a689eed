//! What the agent wants to know from the person at the terminal. Rules never answer it: they are
//! about what may run.

use client::ToolCall;
use domain::event::{PermissionOption, PermissionOptionKind};

/// Whether a call is a question to the person, and no wish to do something.
pub(crate) fn is_question(call: &ToolCall) -> bool {
    call.name.as_deref() == Some("ask_user")
}

/// The options that a person can choose by number; leaving the line empty declines.
pub(super) fn answers(options: &[PermissionOption]) -> impl Iterator<Item = &PermissionOption> {
    let is_answer = |option: &&PermissionOption| match option.kind {
        PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways => true,
        PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways => false,
    };
    options.iter().filter(is_answer)
}

/// The option that a typed line means: its number, or its words.
pub(super) fn chosen<'a>(line: &str, options: &'a [PermissionOption]) -> Option<&'a str> {
    let line = line.trim();
    let number = line.parse::<usize>().ok();
    let by_number = number.and_then(|number| answers(options).nth(number.checked_sub(1)?));
    let by_words = || answers(options).find(|option| option.name.eq_ignore_ascii_case(line));
    let option = by_number.or_else(by_words)?;
    Some(&option.option_id)
}

#[cfg(test)]
mod tests {
    use domain::event::{PermissionOption, PermissionOptionKind};

    use super::chosen;

    #[test]
    fn d_05_an_answer_is_chosen_by_its_number_or_its_words() {
        let option = |id: &str, name: &str, kind| PermissionOption {
            option_id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        let options = [
            option("a", "Red", PermissionOptionKind::AllowOnce),
            option("no", "Don't answer", PermissionOptionKind::RejectOnce),
            option("b", "Blue", PermissionOptionKind::AllowOnce),
        ];
        assert_eq!(chosen("1\n", &options), Some("a"));
        assert_eq!(chosen(" 2", &options), Some("b"));
        assert_eq!(chosen("blue\n", &options), Some("b"));
        for line in [
            "",
            "0",
            "3",
            "-1",
            "y",
            "don't answer",
            "99999999999999999999",
        ] {
            assert_eq!(chosen(line, &options), None, "{line}");
        }
    }
}
