//! Whether a tool call may run: allow, ask, or deny. Pure.

use domain::event::{PermissionOption, PermissionOptionKind};
use serde_json::Value;

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

/// What a person allows for good by allowing one call always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Always {
    /// Every call of this tool.
    Tool(String),
    /// `bash` with exactly this command: another one may do anything.
    Command(String),
}

impl Always {
    /// What allowing a call of `tool` with `input` would allow.
    #[must_use]
    pub fn of(tool: &str, input: &Value) -> Self {
        if tool == "bash" {
            let command = input.get("command").and_then(Value::as_str);
            return Self::Command(command.unwrap_or_default().to_owned());
        }
        Self::Tool(tool.to_owned())
    }

    fn tool(&self) -> &str {
        match self {
            Self::Tool(tool) => tool,
            Self::Command(_) => "bash",
        }
    }
}

/// Judges a call that is `wanted` in `mode`, given what a person has allowed for good.
#[must_use]
pub fn judge(mode: Mode, wanted: &Always, always: &[Always]) -> Ruling {
    let tool = wanted.tool();
    let reads = matches!(tool, "read" | "list" | "glob" | "grep" | "todo" | "skill");
    let edits = matches!(tool, "write" | "edit" | "notebook_edit");
    match mode {
        _ if reads => Ruling::Allow,
        // A sub-agent has the mode of who calls it, and so only reads.
        Mode::Plan if tool == "task" && always.contains(wanted) => Ruling::Allow,
        Mode::Plan if tool == "task" => Ruling::Ask,
        Mode::Plan => Ruling::Deny("The session is in plan mode, which only reads."),
        Mode::Bypass => Ruling::Allow,
        Mode::AcceptEdits if edits => Ruling::Allow,
        Mode::Default | Mode::AcceptEdits if always.contains(wanted) => Ruling::Allow,
        Mode::Default | Mode::AcceptEdits => Ruling::Ask,
    }
}

/// The ways to answer a question about a call that is `wanted`.
#[must_use]
pub fn options(wanted: &Always) -> Vec<PermissionOption> {
    let always = match wanted {
        Always::Tool(tool) => format!("Allow {tool} for this session"),
        Always::Command(_) => "Allow this exact command for this session".to_owned(),
    };
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
        option("allow_always", always, PermissionOptionKind::AllowAlways),
        option(
            "reject_once",
            "Reject".to_owned(),
            PermissionOptionKind::RejectOnce,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Always, Ruling, judge};
    use crate::mode::Mode;

    fn wanted(tool: &str) -> Always {
        Always::of(tool, &json!({"command": "ls"}))
    }

    #[test]
    fn reading_is_free_editing_asks_and_plan_mode_changes_nothing() {
        let (read, write, bash) = (wanted("read"), wanted("write"), wanted("bash"));
        let always = [bash.clone()];
        for mode in [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::Bypass] {
            assert_eq!(judge(mode, &read, &[]), Ruling::Allow);
        }
        assert_eq!(judge(Mode::Default, &write, &[]), Ruling::Ask);
        assert_eq!(judge(Mode::AcceptEdits, &write, &[]), Ruling::Allow);
        assert_eq!(judge(Mode::AcceptEdits, &bash, &[]), Ruling::Ask);
        assert_eq!(judge(Mode::Default, &bash, &always), Ruling::Allow);
        assert_eq!(judge(Mode::Bypass, &bash, &[]), Ruling::Allow);
        assert!(matches!(judge(Mode::Plan, &bash, &always), Ruling::Deny(_)));
        assert!(matches!(judge(Mode::Plan, &write, &[]), Ruling::Deny(_)));
    }

    #[test]
    fn a_command_allowed_always_allows_no_other_command() {
        let always = [wanted("bash"), wanted("write")];
        let other = Always::of("bash", &json!({"command": "ls; rm -r x"}));
        assert_eq!(judge(Mode::Default, &other, &always), Ruling::Ask);
        let elsewhere = Always::of("write", &json!({"path": "b"}));
        assert_eq!(judge(Mode::Default, &elsewhere, &always), Ruling::Allow);
    }
}
