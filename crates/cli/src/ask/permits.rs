//! What `--allow` permits: the same rules as in the settings, answered by us instead of a person.

use std::path::Path;

use agent::permissions::{Call, Rule, Ruled, Rules, narrow_rules};
use agent::settings::PermissionSettings;
use client::ToolCall;
use serde_json::Value;
use tools::roots::Roots;
use tools::touched::Touched;

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

    /// The narrowest rule that would permit `call`, as it is written in a shell; several for a command of
    /// several parts.
    pub(super) fn rule_for(&self, call: &ToolCall) -> Option<String> {
        let tool = call.name.as_deref()?;
        let input = call.input.as_ref();
        if let ("bash", Some(rules)) = (tool, self.rules_for_command(call)) {
            let rules = rules.iter().map(|rule| quoted(&rule.to_string()));
            return Some(rules.collect::<Vec<_>>().join(" --allow "));
        }
        let text = |field: &str| input?.get(field)?.as_str().map(str::trim);
        let narrow = match tool {
            "bash" => None,
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

    /// The rules that a call of `bash` needs, if there are narrower ones than `bash`.
    fn rules_for_command(&self, call: &ToolCall) -> Option<Vec<Rule>> {
        let input = call.input.as_ref()?;
        let touched = self.touched("bash", input);
        narrow_rules(&Call {
            tool: "bash",
            input,
            touched: touched.as_ref(),
        })
    }

    fn touched(&self, tool: &str, input: &Value) -> Option<Touched> {
        let path = tools::touched::path(tool, input);
        path.map(|path| self.roots.touched(path))
    }

    fn allowed_by(&self, rules: &Rules, call: &ToolCall) -> bool {
        let (Some(tool), Some(input)) = (call.name.as_deref(), &call.input) else {
            return false;
        };
        let touched = self.touched(tool, input);
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
        assert_eq!(run("a\nb"), "'bash(a)' --allow 'bash(b)'");
        assert_eq!(
            run("cd src && make | tail -n 3"),
            "'bash(cd src)' --allow 'bash(make)' --allow 'bash(tail -n 3)'"
        );
        assert_eq!(run("ls src/*.rs"), "'bash(ls src/*)'");
        assert_eq!(run("ls $x"), "bash");
        let cwd = place.path().to_str().unwrap();
        let there =
            |command: &str, cwd: &str| rule("bash", json!({"command": command, "cwd": cwd}));
        assert_eq!(there("python3 a.py", cwd), "'bash(python3 a.py)'");
        assert_eq!(
            there("make", "sub dir"),
            r"'bash(cd '\''sub dir'\'')' --allow 'bash(make)'"
        );
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
    fn d_04_the_sessions_own_directory_needs_no_rule() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("sub")).unwrap();
        std::os::unix::fs::symlink("sub", place.path().join("link")).unwrap();
        let own = place.path().to_str().unwrap();
        let permits = Permits::new(&["bash(python3 *)".parse().unwrap()], place.path());
        let is_covered = |cwd: &str| {
            permits.cover(&ToolCall {
                id: "c".to_owned(),
                name: Some("bash".to_owned()),
                input: Some(json!({"command": "python3 a.py", "cwd": cwd})),
                ..ToolCall::default()
            })
        };
        for cwd in [
            own,
            &format!("{own}/"),
            &format!("{own}/sub/.."),
            ".",
            "./",
            "sub/..",
            "",
        ] {
            assert!(is_covered(cwd), "{cwd}");
        }
        for cwd in ["sub", "link", "..", "/", "sub/../..", &format!("{own}/sub")] {
            assert!(!is_covered(cwd), "{cwd}");
        }
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
