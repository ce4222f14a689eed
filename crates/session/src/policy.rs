//! Whether a tool call may run: allow, ask, or deny. Pure.

use domain::event::{PermissionOption, PermissionOptionKind};

use crate::mode::Mode;

/// What the rules say about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run; the reason is for the model.
    Deny(&'static str),
}

/// Judges a call of `tool` in `mode`, given the tools a person has allowed for good.
#[must_use]
pub fn judge(mode: Mode, tool: &str, always: &[String]) -> Ruling {
    let reads = matches!(tool, "read" | "list" | "glob" | "grep" | "todo" | "skill");
    let edits = matches!(tool, "write" | "edit" | "notebook_edit");
    match mode {
        _ if reads => Ruling::Allow,
        Mode::Plan => Ruling::Deny("The session is in plan mode, which only reads."),
        Mode::Bypass => Ruling::Allow,
        Mode::AcceptEdits if edits => Ruling::Allow,
        Mode::Default | Mode::AcceptEdits if always.iter().any(|allowed| allowed == tool) => {
            Ruling::Allow
        }
        Mode::Default | Mode::AcceptEdits => Ruling::Ask,
    }
}

/// The ways to answer a permission question.
#[must_use]
pub fn options(tool: &str) -> Vec<PermissionOption> {
    let option = |id: &str, name: String, kind| PermissionOption {
        option_id: id.to_owned(),
        name,
        kind,
    };
    vec![
        option(
            "allow_once",
            "Allow once".to_owned(),
            PermissionOptionKind::AllowOnce,
        ),
        option(
            "allow_always",
            format!("Allow {tool} for this session"),
            PermissionOptionKind::AllowAlways,
        ),
        option(
            "reject_once",
            "Reject".to_owned(),
            PermissionOptionKind::RejectOnce,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Ruling, judge};
    use crate::mode::Mode;

    #[test]
    fn reading_is_free_editing_asks_and_plan_mode_changes_nothing() {
        let always = ["bash".to_owned()];
        for mode in [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::Bypass] {
            assert_eq!(judge(mode, "read", &[]), Ruling::Allow);
        }
        assert_eq!(judge(Mode::Default, "write", &[]), Ruling::Ask);
        assert_eq!(judge(Mode::AcceptEdits, "write", &[]), Ruling::Allow);
        assert_eq!(judge(Mode::AcceptEdits, "bash", &[]), Ruling::Ask);
        assert_eq!(judge(Mode::Default, "bash", &always), Ruling::Allow);
        assert_eq!(judge(Mode::Bypass, "bash", &[]), Ruling::Allow);
        assert!(matches!(
            judge(Mode::Plan, "bash", &always),
            Ruling::Deny(_)
        ));
        assert!(matches!(judge(Mode::Plan, "write", &[]), Ruling::Deny(_)));
    }
}
