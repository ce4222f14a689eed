//! One rule as people write it: a tool's name, or `tool(pattern)`.

use std::fmt;
use std::str::FromStr;

use domain::limits::{RULE_BYTES_MAX, edit_distance};
use serde::Deserialize;
use serde_json::Value;
use tools::agents::GENERAL;
use tools::client_side::discovery::PREFIX;

use super::Call;
use super::commands::{CommandPattern, Judged};
use super::paths::PathPattern;
use super::sites::SitePattern;
use domain::stars::is_like;

/// A rule about calls of tools.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Rule {
    text: String,
    /// Which tools; `*` stands for anything.
    tool: String,
    about: About,
}

/// Which calls of a tool a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum About {
    /// All.
    All,
    /// Those that run these commands.
    Commands(CommandPattern),
    /// Those that touch these files.
    Files(PathPattern),
    /// Those that begin at or above these files.
    Searches(PathPattern),
    /// Those that go there.
    Sites(SitePattern),
    /// Those with such a text in this field.
    Texts(&'static str, String),
}

/// The text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{rule}` is not a rule: {problem}; the nearest one is `{nearest}`")]
pub struct RuleError {
    rule: String,
    problem: String,
    nearest: String,
}

/// What a tool's pattern is about.
#[derive(Clone, Copy)]
enum Takes {
    Nothing,
    Commands,
    Files,
    Searches,
    Sites,
    Text(&'static str),
}

/// The tools there are, also those that a session may not have. Two are none: `network` is what commands
/// may reach, `mcp_network` what the programs of tool servers may.
const TOOLS: &[(&str, Takes)] = &[
    ("ask_user", Takes::Nothing),
    ("bash", Takes::Commands),
    ("edit", Takes::Files),
    ("glob", Takes::Searches),
    ("grep", Takes::Searches),
    ("list", Takes::Files),
    ("lsp", Takes::Files),
    (SERVERS_NETWORK, Takes::Text("server")),
    ("mcp_read_resource", Takes::Text("server")),
    ("network", Takes::Nothing),
    ("notebook_edit", Takes::Files),
    ("read", Takes::Files),
    ("skill", Takes::Text("name")),
    ("slash_command", Takes::Text("name")),
    ("task", Takes::Text("agent")),
    ("todo", Takes::Nothing),
    ("tool_search", Takes::Nothing),
    ("web_fetch", Takes::Sites),
    ("web_search", Takes::Text("query")),
    ("write", Takes::Files),
];

/// What a rule is called about the network of tool servers.
const SERVERS_NETWORK: &str = "mcp_network";

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let wrong = |problem: &str, nearest: String| RuleError {
            rule: text.chars().take(100).collect(),
            problem: problem.to_owned(),
            nearest,
        };
        if text.len() > RULE_BYTES_MAX || text.chars().any(char::is_control) {
            let problem = "it is too long, or not in one line";
            return Err(wrong(problem, "bash(git status*)".to_owned()));
        }
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(pattern) => (tool, Some(pattern)),
                None => return Err(wrong("its bracket is not closed", format!("{text})"))),
            },
            None => (text, None),
        };
        let takes = takes(tool).map_err(|(problem, nearest)| {
            let pattern = pattern.map(|pattern| format!("({pattern})"));
            wrong(problem, format!("{nearest}{}", pattern.unwrap_or_default()))
        })?;
        let about = match pattern {
            None | Some("*") => About::All,
            Some(pattern) => {
                let read = read_pattern(takes, pattern);
                read.map_err(|problem| wrong(problem, nearest(tool, takes, pattern)))?
            }
        };
        Ok(Self {
            text: text.to_owned(),
            tool: tool.to_owned(),
            about,
        })
    }
}

/// What the pattern of `tool` is about; or what is wrong with the name, and the nearest one.
fn takes(tool: &str) -> Result<Takes, (&'static str, String)> {
    if let Some((_, takes)) = TOOLS.iter().find(|(name, _)| *name == tool) {
        return Ok(*takes);
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-*.".contains(&byte);
    let is_written = !tool.is_empty() && tool.bytes().all(is_name);
    if let (true, Some(rest)) = (is_written, tool.strip_prefix("mcp__")) {
        return match rest.contains("__") || rest.contains('*') {
            true => Ok(Takes::Nothing),
            false => Err(("it names a server and no tool", format!("{tool}__*"))),
        };
    }
    if is_written && tool.strip_prefix(PREFIX).is_some_and(|own| !own.is_empty()) {
        return Ok(Takes::Nothing);
    }
    let is_some = is_written && TOOLS.iter().any(|(name, _)| is_like(name, tool));
    if is_some && tool.contains('*') {
        return Ok(Takes::Nothing);
    }
    let start: String = tool.to_lowercase().chars().take(32).collect();
    let nearest = TOOLS.iter().map(|(name, _)| *name);
    let nearest = nearest.min_by_key(|name| edit_distance(&start, name));
    Err((
        "there is no such tool",
        nearest.unwrap_or_default().to_owned(),
    ))
}

fn read_pattern(takes: Takes, pattern: &str) -> Result<About, &'static str> {
    if pattern.trim().is_empty() {
        return Err("its pattern is empty");
    }
    match takes {
        Takes::Nothing => Err("a pattern means nothing here"),
        Takes::Commands if pattern.ends_with(":*") => Err("a star needs no colon"),
        Takes::Commands => CommandPattern::parse(pattern).map(About::Commands),
        Takes::Files => PathPattern::parse(pattern).map(About::Files),
        Takes::Searches => PathPattern::parse(pattern).map(About::Searches),
        Takes::Sites => SitePattern::parse(pattern).map(About::Sites),
        Takes::Text(field) => Ok(About::Texts(field, pattern.to_owned())),
    }
}

/// The rule that whoever wrote `tool(pattern)` may have meant.
fn nearest(tool: &str, takes: Takes, pattern: &str) -> String {
    let meant = match takes {
        Takes::Nothing | Takes::Text(_) => return tool.to_owned(),
        _ if pattern.trim().is_empty() => return tool.to_owned(),
        Takes::Commands => match pattern.strip_suffix(":*") {
            Some(command) => format!("{command} *"),
            None => {
                let end = pattern.find([';', '|', '&', '<', '>', '$', '`', '(', '#', '\n']);
                let first = pattern[..end.unwrap_or(pattern.len())].trim_end();
                match first {
                    "" => "git status*".to_owned(),
                    first => first.to_owned(),
                }
            }
        },
        Takes::Files | Takes::Searches => {
            let names = pattern
                .split(['/', '{', ','])
                .filter(|name| !name.is_empty());
            let mut names = names.filter(|name| !matches!(*name, "~" | ".." | "."));
            format!("{}/**", names.next().unwrap_or("src"))
        }
        Takes::Sites => {
            let bare = pattern.rsplit("//").next().unwrap_or_default();
            let host = bare.split(['/', '*', ':']).find(|part| part.contains('.'));
            format!(
                "domain:{}",
                host.map_or("example.org", |host| host.trim_matches('.'))
            )
        }
    };
    format!("{tool}({meant})")
}

impl TryFrom<String> for Rule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// Whether it is about the tool called `name`, or about some calls of it.
    pub(super) fn names(&self, name: &str) -> bool {
        is_like(name, &self.tool)
    }

    /// Whether it gives the network to the tool server called `server`. One about all tools does not, for this
    /// is none.
    pub(super) fn gives_network_to(&self, server: &str) -> bool {
        self.tool == SERVERS_NETWORK && self.may_be_about_network_of(server)
    }

    /// Whether, as one that denies or asks, it is about the network of that tool server.
    pub(super) fn may_be_about_network_of(&self, server: &str) -> bool {
        self.names(SERVERS_NETWORK)
            && match &self.about {
                About::All => true,
                About::Texts(_, pattern) => is_like(server, pattern),
                About::Commands(_) | About::Files(_) | About::Searches(_) | About::Sites(_) => {
                    false
                }
            }
    }

    /// Whether it needs to know what files a call touches.
    pub(super) fn is_about_files(&self) -> bool {
        matches!(self.about, About::Files(_) | About::Searches(_))
    }

    /// Whether it is about commands of a certain kind.
    pub(super) fn is_about_commands(&self) -> bool {
        matches!(self.about, About::Commands(_))
    }

    /// Whether, as one that allows, it allows all of `call`. Commands are allowed part by part: see
    /// [`Rule::commands`].
    pub(super) fn allows(&self, call: &Call<'_>) -> bool {
        self.names(call.tool)
            && match &self.about {
                About::All => true,
                About::Commands(_) => false,
                About::Files(pattern) | About::Searches(pattern) => {
                    call.touched.is_some_and(|touched| pattern.covers(touched))
                }
                About::Sites(pattern) => text(call.input, "url").is_some_and(|url| pattern.is(url)),
                About::Texts(field, pattern) => is_text(call, field, pattern),
            }
    }

    /// Whether it is about files and writes out the name `part`.
    pub(super) fn names_file(&self, part: &str) -> bool {
        matches!(&self.about, About::Files(pattern) if pattern.writes_out(part))
    }

    /// Whether it is about commands and writes out one of these words.
    pub(super) fn names_command(&self, words: &[&str]) -> bool {
        let mut written = self.text.split(|c: char| !c.is_ascii_alphanumeric());
        matches!(self.about, About::Commands(_)) && written.any(|word| words.contains(&word))
    }

    /// Its pattern for commands, if it has one.
    pub(super) fn commands(&self) -> Option<&CommandPattern> {
        match &self.about {
            About::Commands(pattern) => Some(pattern),
            About::All
            | About::Files(_)
            | About::Searches(_)
            | About::Sites(_)
            | About::Texts(..) => None,
        }
    }

    /// Whether, as one that denies or asks, it is or may be about `call`.
    pub(super) fn may_be_about(&self, call: &Call<'_>, judged: Option<&Judged>) -> Hit {
        if !self.names(call.tool) {
            return Hit::No;
        }
        let is_hit = match &self.about {
            About::All => true,
            About::Commands(pattern) => {
                let Some(judged) = judged else {
                    return Hit::No;
                };
                let is_seen = judged.lines.iter().any(|line| pattern.may_be(line));
                return match (is_seen, judged.unseen) {
                    (true, _) => Hit::Yes,
                    (false, Some(why)) => Hit::Perhaps(why),
                    (false, None) => Hit::No,
                };
            }
            About::Files(pattern) => call.touched.is_none_or(|touched| pattern.may_be(touched)),
            About::Searches(pattern) => call
                .touched
                .is_none_or(|touched| pattern.may_be_within(touched)),
            About::Sites(pattern) => text(call.input, "url").is_some_and(|url| pattern.is(url)),
            About::Texts(field, pattern) => is_text(call, field, pattern),
        };
        match is_hit {
            true => Hit::Yes,
            false => Hit::No,
        }
    }
}

/// Whether a rule is about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    Yes,
    /// It cannot be told, and why.
    Perhaps(&'static str),
    No,
}

/// Whether `call` has such a text in `field`, as its tool reads it.
fn is_text(call: &Call<'_>, field: &str, pattern: &str) -> bool {
    let said = text(call.input, field);
    match call.tool {
        "slash_command" => said.is_some_and(|name| {
            let plain = |name: &str| name.trim_start_matches('/').to_owned();
            is_like(&plain(name), &plain(pattern))
        }),
        "task" => {
            let agent = said.map(str::trim).filter(|name| !name.is_empty());
            is_like(agent.unwrap_or(GENERAL), pattern)
        }
        _ => said.is_some_and(|text| is_like(text, pattern)),
    }
}

fn text<'a>(input: &'a Value, field: &str) -> Option<&'a str> {
    input.get(field)?.as_str()
}

#[cfg(test)]
mod tests;
