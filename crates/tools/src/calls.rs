//! Calls as models write them, and the calls that are meant.
//!
//! Models know the tools of other agents and are careless with JSON. [`Toolbox::resolve`] turns a
//! call into the call that will run: the real tool and its input by the schema. It comes before hooks,
//! rules, permission requests and the journal, so that all of them see what runs. [`written`] finds
//! calls that a model wrote as text.

pub(crate) mod input;
mod json;
mod names;
pub mod written;

use domain::limits::edit_distance;
use serde_json::Value;

use crate::builtin::{self, Tool};
use crate::toolbox::Toolbox;
use written::Written;

/// Characters of a tool's name: more than any provider lets one have.
const NAME_CHARS_MAX: usize = 128;

/// How far a name may be from that of a tool to be taken for a slip.
const TYPO_DISTANCE_MAX: usize = 2;

/// Bytes of a list of tools in an answer to the model; MCP servers may offer hundreds.
const LIST_BYTES_MAX: usize = 1_500;

/// A call as it will run.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedCall {
    /// The tool; as the model wrote it if there is none like it.
    pub name: String,
    /// Its input.
    pub input: Value,
}

impl Toolbox {
    /// The call that is meant by `name` and `input`. Resolving a resolved call changes nothing.
    #[must_use]
    pub fn resolve(&self, name: &str, input: Value) -> ResolvedCall {
        let mut input = json::decoded(input);
        let Some(found) = self.find_name(name, &mut input) else {
            let name = name.to_owned();
            return ResolvedCall { name, input };
        };
        match builtin::find(&found).filter(|_| !self.has_client_tool(&found)) {
            Some(tool) => input::fit_builtin(tool, &mut input),
            None => {
                let schema = self.foreign_schema(&found);
                schema.inspect(|schema| input::fit_foreign(schema, &mut input));
            }
        }
        ResolvedCall { name: found, input }
    }

    /// What is wrong with the input of a resolved call, in words for the model. Only built-in tools
    /// are checked: MCP servers and clients check their own.
    #[must_use]
    pub fn invalid(&self, name: &str, input: &Value) -> Option<String> {
        if self.has_client_tool(name) {
            return None;
        }
        input::problem(builtin::find(name)?, input)
    }

    /// The calls that a model wrote as the text of its answer, if it names tools that are here.
    #[must_use]
    pub fn written_calls(&self, text: &str) -> Written {
        written::find(text, |name| {
            self.find_name(name, &mut Value::Null).is_some()
        })
    }

    /// The tool that is meant by `name`. A tool with exactly this name comes first, then names that
    /// differ in case or separators, then names that other agents use.
    fn find_name(&self, name: &str, input: &mut Value) -> Option<String> {
        if name.len() > NAME_CHARS_MAX {
            return None;
        }
        let bare = names::bare(name);
        for name in [name, bare] {
            if self.can_run(name) {
                return Some(name.to_owned());
            }
        }
        let plain = names::plain(bare);
        let known = self.known_names();
        let mut alike = known.iter().filter(|known| names::plain(known) == plain);
        if let (Some(only), None) = (alike.next(), alike.next()) {
            return Some((*only).to_owned());
        }
        // `fs__read_file` is more likely meant by `read_file` than our own `read`.
        let is_foreign = |known: &&&str| builtin::find(known).is_none();
        let ends_alike = |known: &&str| names::plain(known).ends_with(&plain);
        if known.iter().filter(is_foreign).any(ends_alike) {
            return None;
        }
        let alias = names::alias(&plain, input)?;
        self.can_run(alias).then(|| alias.to_owned())
    }

    /// What to say of a call of `name` if there is no such tool, and so nothing to ask about.
    #[must_use]
    pub fn missing(&self, name: &str) -> Option<String> {
        if self.can_run(name) {
            return None;
        }
        let known = self.known_names();
        let hint = nearest(name, &known).map(|near| format!(" Did you mean {near}?"));
        let mut list = String::new();
        for (at, known) in known.iter().enumerate() {
            if list.len() + known.len() > LIST_BYTES_MAX {
                list.push_str(", …");
                break;
            }
            list.push_str(if at == 0 { " The tools are: " } else { ", " });
            list.push_str(known);
        }
        let list = if list.is_empty() { list } else { list + "." };
        Some(no_such_tool(name, &(hint.unwrap_or_default() + &list)))
    }

    /// The names of all tools that a model is told of.
    fn known_names(&self) -> Vec<&str> {
        let mut known: Vec<&str> = self.tools().map(Tool::name).collect();
        known.extend(self.client_tools().map(|tool| tool.name.as_str()));
        known.extend(self.remote_tools().map(|tool| tool.name.as_str()));
        known
    }
}

/// The known name that is most like `name`, if one is.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // A name that no tool could have is no slip.
    if name.len() > NAME_CHARS_MAX {
        return None;
    }
    let near = known
        .iter()
        .map(|known| (edit_distance(name, known), *known));
    let near = near
        .filter(|(distance, _)| *distance <= TYPO_DISTANCE_MAX)
        .min();
    if let Some((_, near)) = near {
        return Some(near);
    }
    let plain = names::plain(names::bare(name));
    if let Some(hint) = names::hint(&plain).filter(|hint| known.contains(hint)) {
        return Some(hint);
    }
    let has_part = |known: &&&str| {
        let other = names::plain(known);
        let (short, long) = if other.len() < plain.len() {
            (&other, &plain)
        } else {
            (&plain, &other)
        };
        short.len() >= 4 && long.contains(short.as_str())
    };
    known.iter().find(has_part).copied()
}

pub(crate) fn no_such_tool(name: &str, hint: &str) -> String {
    let name = builtin::one_line(&name.chars().take(NAME_CHARS_MAX).collect::<String>());
    format!("There is no tool called {name}.{hint}")
}

#[cfg(test)]
mod tests;
