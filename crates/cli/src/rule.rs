//! Rules that permit a tool call: a tool's name, or `tool(pattern)` on its main argument.

use std::str::FromStr;

use client::ToolCall;
use serde_json::Value;

/// What one `--allow` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    tool: String,
    /// `*` stands for any characters, everything else for itself.
    pattern: Option<String>,
}

/// The text is not a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rule is a tool's name, or `tool(pattern)` where `*` stands for anything")]
pub(crate) struct NotARule;

impl FromStr for Rule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Self, NotARule> {
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or(NotARule)?)),
            None => (text, None),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-*".contains(&byte);
        if tool.is_empty() || !tool.bytes().all(is_name) {
            return Err(NotARule);
        }
        Ok(Self {
            tool: tool.to_owned(),
            pattern: pattern.map(str::to_owned),
        })
    }
}

impl Rule {
    /// Whether this rule permits `call`. A call whose tool or argument is unknown is not permitted
    /// by a rule that names one.
    pub(crate) fn permits(&self, call: &ToolCall) -> bool {
        let tool = call.name.as_deref().unwrap_or_default();
        if !matches_glob(&self.tool, tool) {
            return false;
        }
        let Some(pattern) = self.pattern.as_deref() else {
            return true;
        };
        let argument = main_argument(tool, call.input.as_ref());
        argument.is_some_and(|argument| {
            let may_hide_more = tool == "bash" && pattern != "*";
            matches_glob(pattern, argument)
                // `make *` speaks of one command, not of `make x; rm y`.
                && (!may_hide_more || shell_operators(pattern).eq(shell_operators(argument)))
        })
    }
}

/// The characters that make one command into several, or into something else.
fn shell_operators(command: &str) -> impl Iterator<Item = char> {
    command.chars().filter(|c| ";|&<>()`$\n\r".contains(*c))
}

/// The argument that says most about what a call does.
fn main_argument<'a>(tool: &str, input: Option<&'a Value>) -> Option<&'a str> {
    let input = input?.as_object()?;
    let key = match tool {
        "bash" => "command",
        "read" | "write" | "edit" | "list" | "notebook_edit" | "lsp" => "path",
        "glob" | "grep" => "pattern",
        "web_fetch" => "url",
        "web_search" => "query",
        "skill" | "slash_command" => "name",
        "task" => "prompt",
        "ask_user" => "question",
        // Of a tool we do not know, only one that takes a single argument has a main one.
        _ if input.len() == 1 => return input.values().next()?.as_str(),
        _ => return None,
    };
    input.get(key)?.as_str()
}

/// Whether all of `text` matches `pattern`. Linear in both for each star: no backtracking tower.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use client::ToolCall;
    use serde_json::{Value, json};

    use super::{NotARule, Rule, matches_glob};

    fn call(tool: &str, input: Value) -> ToolCall {
        ToolCall {
            id: "c".to_owned(),
            name: Some(tool.to_owned()),
            input: Some(input),
            ..ToolCall::default()
        }
    }

    fn permits(rule: &str, call: &ToolCall) -> bool {
        rule.parse::<Rule>().unwrap().permits(call)
    }

    #[test]
    fn a_name_permits_that_tool_and_no_other() {
        let write = call("write", json!({"path": "a.txt", "content": "x"}));
        assert!(permits("write", &write));
        assert!(permits("*", &write));
        for other in ["read", "writ", "writes", "Write"] {
            assert!(!permits(other, &write), "{other}");
        }
    }

    #[test]
    fn a_pattern_must_match_the_whole_main_argument() {
        let make = call("bash", json!({"command": "make test"}));
        for rule in [
            "bash(make *)",
            "bash(*)",
            "bash(make test)",
            "bash(*test)",
            "bash(m*t*t)",
        ] {
            assert!(permits(rule, &make), "{rule}");
        }
        for rule in [
            "bash(make)",
            "bash(test)",
            "bash(ake *)",
            "bash()",
            "write(make *)",
        ] {
            assert!(!permits(rule, &make), "{rule}");
        }
        let sneaky = call("bash", json!({"command": "rm -rf ~ # make test"}));
        assert!(!permits("bash(make *)", &sneaky));
        for hidden in [
            "make x; rm y",
            "make $(rm y)",
            "make x\nrm y",
            "make `rm y`",
            "make > y",
        ] {
            let hidden = call("bash", json!({"command": hidden}));
            assert!(!permits("bash(make *)", &hidden), "{hidden:?}");
            assert!(permits("bash(*)", &hidden));
        }
        let piped = call("bash", json!({"command": "make x | tail"}));
        assert!(permits("bash(make * | tail)", &piped));
    }

    #[test]
    fn what_is_not_known_is_not_permitted() {
        let nameless = ToolCall {
            id: "c".to_owned(),
            title: Some("write a.txt".to_owned()),
            ..ToolCall::default()
        };
        assert!(!permits("write", &nameless));
        assert!(!permits(
            "bash(*)",
            &call("bash", json!({"command": ["ls"]}))
        ));
        assert!(!permits(
            "mcp__x__y(*)",
            &call("mcp__x__y", json!({"a": "1", "b": "2"}))
        ));
        assert!(permits(
            "mcp__x__y(1)",
            &call("mcp__x__y", json!({"a": "1"}))
        ));
    }

    #[test]
    fn only_names_and_closed_patterns_are_rules() {
        for wrong in ["", "(x)", "bash(", "bash(x", "bash(x) ", "ba sh", "bash)"] {
            assert_eq!(wrong.parse::<Rule>(), Err(NotARule), "{wrong}");
        }
    }

    #[test]
    fn stars_match_anything_also_nothing_and_pieces_do_not_overlap() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("a*", "a"),
            ("a*b*c", "a.b.b.c"),
            ("**", "x"),
        ] {
            assert!(matches_glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "x"), ("ab*b", "ab"), ("a*b", "abc"), ("*é", "e")] {
            assert!(!matches_glob(pattern, text), "{pattern} {text}");
        }
    }
}
