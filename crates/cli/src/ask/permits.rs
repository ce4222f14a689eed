//! What `--allow` permits: the same rules as in the settings, answered by us instead of a person.

use std::path::Path;

use agent::permissions::{Call, Rule, Ruled, Rules};
use agent::settings::PermissionSettings;
use client::ToolCall;
use tools::roots::Roots;

/// The rules of one `ask`.
#[derive(Debug)]
pub(super) struct Permits {
    rules: Rules,
    roots: Roots,
}

impl Permits {
    /// Those of `allow`, for a session in `cwd`.
    pub(super) fn new(allow: &[Rule], cwd: &Path) -> Self {
        let own = PermissionSettings {
            allow: allow.to_vec(),
            ..PermissionSettings::default()
        };
        Self {
            rules: Rules::new(&own, &PermissionSettings::default()),
            roots: Roots::new(cwd.to_owned(), Vec::new(), Vec::new()),
        }
    }

    /// Whether they permit `call`. One whose tool or input is not known is not permitted. Files are
    /// looked up on this machine, which is the server's unless one elsewhere was named.
    pub(super) fn cover(&self, call: &ToolCall) -> bool {
        let (Some(tool), Some(input)) = (call.name.as_deref(), &call.input) else {
            return false;
        };
        let path = tools::touched::path(tool, input);
        let touched = path.map(|path| self.roots.touched(path));
        let ruled = self.rules.judge(&Call {
            tool,
            input,
            touched: touched.as_ref(),
        });
        matches!(ruled, Ruled::Allow(_))
    }
}

#[cfg(test)]
mod tests {
    use client::ToolCall;
    use serde_json::{Value, json};

    use super::Permits;

    fn covers(rule: &str, tool: &str, input: Value) -> bool {
        let place = tempfile::tempdir().unwrap();
        let call = ToolCall {
            id: "c".to_owned(),
            name: Some(tool.to_owned()),
            input: Some(input),
            ..ToolCall::default()
        };
        Permits::new(&[rule.parse().unwrap()], place.path()).cover(&call)
    }

    #[test]
    fn d_04_a_rule_permits_what_it_says_and_nothing_that_it_hides() {
        let make = |command: &str| json!({ "command": command });
        assert!(covers("bash(make *)", "bash", make("make test")));
        assert!(!covers("bash(make *)", "bash", make("make test; rm x")));
        assert!(!covers("bash(make *)", "bash", make("make > y")));
        assert!(covers("bash", "bash", make("make test; rm x")));
        assert!(covers("write(a*)", "write", json!({"path": "a.txt"})));
        assert!(!covers("write(a*)", "write", json!({"path": "b/../c.txt"})));
        assert!(!covers(
            "write(src/**)",
            "write",
            json!({"path": "src/../b"})
        ));
        assert!(!covers("write", "edit", json!({"path": "a"})));
    }

    #[test]
    fn what_is_not_known_is_not_permitted() {
        let nameless = ToolCall {
            id: "c".to_owned(),
            title: Some("write a.txt".to_owned()),
            ..ToolCall::default()
        };
        let place = tempfile::tempdir().unwrap();
        let all = Permits::new(&["*".parse().unwrap()], place.path());
        assert!(!all.cover(&nameless));
        assert!(!covers("bash(ls*)", "bash", json!({"command": ["ls"]})));
    }
}
