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
        self.allowed_by(&self.rules, call)
    }

    /// The narrowest rule that would permit `call`, as it is written in a shell.
    pub(super) fn rule_for(&self, call: &ToolCall) -> Option<String> {
        let tool = call.name.as_deref()?;
        let input = call.input.as_ref();
        let text = |field: &str| input?.get(field)?.as_str().map(str::trim);
        let narrow = match tool {
            "bash" => text("command").map(str::to_owned),
            "web_fetch" => text("url").and_then(|url| {
                let (_, rest) = url.split_once("://")?;
                let host = rest.split(['/', '?', '#', ':']).next()?;
                Some(format!("domain:{host}"))
            }),
            "task" => text("agent").map(str::to_owned),
            _ => tools::touched::path(tool, input?).map(str::to_owned),
        };
        let narrow = narrow.map(|narrow| format!("{tool}({narrow})"));
        let rules = narrow.into_iter().chain([tool.to_owned()]);
        let mut rules = rules.filter_map(|rule| rule.parse::<Rule>().ok());
        let found = rules.find(|rule| {
            let own = PermissionSettings {
                allow: vec![rule.clone()],
                ..PermissionSettings::default()
            };
            self.allowed_by(&Rules::new(&own, &PermissionSettings::default()), call)
        });
        Some(quoted(&found?.to_string()))
    }

    fn allowed_by(&self, rules: &Rules, call: &ToolCall) -> bool {
        let (Some(tool), Some(input)) = (call.name.as_deref(), &call.input) else {
            return false;
        };
        let path = tools::touched::path(tool, input);
        let touched = path.map(|path| self.roots.touched(path));
        let ruled = rules.judge(&Call {
            tool,
            input,
            touched: touched.as_ref(),
        });
        matches!(ruled, Ruled::Allow(_))
    }
}

/// A word as a shell reads it as one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
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
    fn d_04_the_rule_that_would_permit_a_call_is_as_narrow_as_it_can_be() {
        let place = tempfile::tempdir().unwrap();
        let rule = |tool: &str, input: Value| {
            let call = ToolCall {
                id: "c".to_owned(),
                name: Some(tool.to_owned()),
                input: Some(input),
                ..ToolCall::default()
            };
            Permits::new(&[], place.path()).rule_for(&call).unwrap()
        };
        let run = |command: &str| rule("bash", json!({ "command": command }));
        assert_eq!(run("make test"), "'bash(make test)'");
        assert_eq!(run("echo 'a b'"), r"'bash(echo '\''a b'\'')'");
        assert_eq!(run("make > y; rm x"), "bash", "no narrower one covers it");
        assert_eq!(run("a\nb"), "bash");
        assert_eq!(
            rule("write", json!({"path": "src/a.rs"})),
            "'write(src/a.rs)'"
        );
        assert_eq!(
            rule("web_fetch", json!({"url": "https://docs.rs/x"})),
            "'web_fetch(domain:docs.rs)'"
        );
        assert_eq!(rule("write", json!({})), "write");
        assert_eq!(rule("mcp__a__b", json!({"x": 1})), "mcp__a__b");
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
