//! Whether a tool call may run: allow, ask, or deny. Pure.
//!
//! [`judge`] puts together what the rules say of a call ([`Ruled`]), the session's mode, and what a
//! person has allowed for good. A rule that denies beats everything, also the mode `bypass`; a rule
//! that asks beats all but that and the mode `plan`. What writes a protected file is asked about in
//! every mode but `bypass`, unless a rule names that file.

use agent::permissions::Ruled;
use domain::EventSeq;
use domain::event::{GroundRule, Grounds, PermissionOption, PermissionOptionKind};
use serde_json::Value;

use crate::mode::Mode;

/// What is to happen with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It runs, for this reason.
    Allow(Grounds),
    /// A person decides.
    Ask(Memory),
    /// It does not run; the reason is for the model.
    Deny(String),
}

/// Whether an answer may be for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It may.
    Kept,
    /// It may not: a rule wants every call asked about, or the same command may start something else next time.
    None,
}

/// What a person allows for good by allowing one call always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Always {
    /// Every call of this tool.
    Tool(String),
    /// `bash` with exactly this command in this directory: another one may do anything.
    Command {
        /// The command.
        command: String,
        /// Where, if that was said.
        cwd: Option<String>,
    },
}

impl Always {
    /// What allowing a call of `tool` with `input` would allow.
    #[must_use]
    pub fn of(tool: &str, input: &Value) -> Self {
        if tool == "bash" {
            let text = |field: &str| input.get(field).and_then(Value::as_str);
            return Self::Command {
                command: text("command").unwrap_or_default().to_owned(),
                cwd: text("cwd").map(str::to_owned),
            };
        }
        Self::Tool(tool.to_owned())
    }

    /// Whether it means the same every time: what a command starts can be seen in its text.
    fn is_fixed(&self) -> bool {
        match self {
            Self::Tool(_) => true,
            Self::Command { command, .. } => agent::permissions::is_seen(command),
        }
    }

    fn tool(&self) -> &str {
        match self {
            Self::Tool(tool) => tool,
            Self::Command { .. } => "bash",
        }
    }
}

/// What a person has allowed for good, and with which answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// What.
    pub what: Always,
    /// The event of the answer.
    pub answer: EventSeq,
}

/// Judges a call that is `wanted` in `mode` and of which the rules say `ruled`, given what a person
/// has allowed for good.
#[must_use]
pub fn judge(mode: Mode, wanted: &Always, ruled: &Ruled, always: &[Remembered]) -> Ruling {
    let tool = wanted.tool();
    // Asking the person is no act that they could be asked about first.
    let reads = matches!(
        tool,
        "read" | "list" | "glob" | "grep" | "todo" | "skill" | "ask_user" | "tool_search"
    );
    let edits = matches!(tool, "write" | "edit" | "notebook_edit");
    let by_mode = || {
        Ruling::Allow(Grounds {
            mode: Some(mode.name().to_owned()),
            ..Grounds::default()
        })
    };
    match (ruled, mode) {
        (Ruled::Deny(why), _) => return Ruling::Deny(why.clone()),
        // A sub-agent has the mode of who calls it, and so only reads.
        (Ruled::Silent | Ruled::Ask(_) | Ruled::Protected(_) | Ruled::Allow(_), Mode::Plan)
            if !reads && tool != "task" =>
        {
            let why = "The session is in plan mode, which only reads.";
            return Ruling::Deny(why.to_owned());
        }
        (Ruled::Ask(_), _) => return Ruling::Ask(Memory::None),
        (Ruled::Silent | Ruled::Protected(_) | Ruled::Allow(_), Mode::Bypass) => return by_mode(),
        // That a tool was allowed says nothing about files that other programs execute. A command
        // that was allowed is always the same one.
        (Ruled::Protected(_), _) if edits => return Ruling::Ask(Memory::None),
        (
            Ruled::Silent | Ruled::Protected(_) | Ruled::Allow(_),
            Mode::Default | Mode::AcceptEdits | Mode::Plan,
        ) => {}
    }
    if reads || edits && mode == Mode::AcceptEdits {
        return by_mode();
    }
    if let Ruled::Allow(rules) = ruled {
        let rules = rules.iter().map(|named| GroundRule {
            rule: named.rule.clone(),
            from: named.from.name().to_owned(),
        });
        return Ruling::Allow(Grounds {
            rules: rules.collect(),
            ..Grounds::default()
        });
    }
    if !wanted.is_fixed() {
        return Ruling::Ask(Memory::None);
    }
    let remembered = always.iter().find(|remembered| remembered.what == *wanted);
    match remembered {
        Some(remembered) => Ruling::Allow(Grounds {
            event: Some(remembered.answer),
            ..Grounds::default()
        }),
        None => Ruling::Ask(Memory::Kept),
    }
}

/// The ways to answer a question about a call that is `wanted`.
#[must_use]
pub fn options(wanted: &Always, memory: Memory) -> Vec<PermissionOption> {
    let always = match wanted {
        Always::Tool(tool) => format!("Allow {tool} for this session"),
        Always::Command { .. } => "Allow this exact command for this session".to_owned(),
    };
    let option = |id: &str, name: &str, kind| PermissionOption {
        option_id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    let once = option("allow_once", "Allow once", PermissionOptionKind::AllowOnce);
    let always = option("allow_always", &always, PermissionOptionKind::AllowAlways);
    let reject = option("reject_once", "Reject", PermissionOptionKind::RejectOnce);
    match memory {
        Memory::Kept => vec![once, always, reject],
        Memory::None => vec![once, reject],
    }
}

#[cfg(test)]
mod tests;
