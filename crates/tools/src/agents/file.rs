//! Agents as files: `.claude/agents/NAME.md`, a role with a few fields above it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::limits::{
    AGENT_FILE_BYTES_MAX, AGENTS_MAX, DESCRIPTION_CHARS_MAX, DIRECTORY_NAMES_MAX,
};

use super::Agent;
use super::names::{listed, tool_name};
use crate::builtin::one_line;
use crate::library::yaml::Field;
use crate::library::{front_matter, is_name};
use crate::roots::Roots;
use crate::stamps::Stamps;

/// Where they lie.
const FOLDER: &str = ".claude/agents";

/// A file that describes an agent.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// Where it is.
    pub path: String,
    /// All of it.
    pub text: String,
    /// What it says; or what is wrong with it.
    pub agent: Result<Agent, String>,
    /// What of it has no effect.
    pub problems: Vec<String>,
}

/// The agents in `directories`, the one that counts most first, each with what may be read there.
/// Notes in `stamps` what was looked at. Blocks.
#[must_use]
pub fn files(directories: &[(PathBuf, Arc<Roots>)], stamps: &mut Stamps) -> Vec<AgentFile> {
    let mut found = Vec::new();
    for (directory, roots) in directories {
        let folder = directory.join(FOLDER);
        stamps.note(folder.clone());
        let names = folder
            .to_str()
            .map(|path| roots.names(path, DIRECTORY_NAMES_MAX));
        let Some(Ok(names)) = names else {
            continue;
        };
        let names = names.names.into_iter();
        for name in names.filter(|name| name.ends_with(".md")) {
            if found.len() >= AGENTS_MAX {
                return found;
            }
            let file = folder.join(&name);
            stamps.note(file.clone());
            found.extend(read(&file, &name, roots));
        }
    }
    found
}

fn read(file: &Path, name: &str, roots: &Roots) -> Option<AgentFile> {
    let path = file.to_str()?.to_owned();
    let (text, is_cut, problem) = match roots.read_text(&path, AGENT_FILE_BYTES_MAX) {
        Ok(read) => (read.text, read.is_cut, None),
        Err(error) => (String::new(), false, Some(error.to_string())),
    };
    let mut problems = Vec::new();
    let agent = match (problem, is_cut) {
        (Some(problem), _) => Err(problem),
        (None, true) => Err(format!("it is longer than {AGENT_FILE_BYTES_MAX} bytes")),
        (None, false) => parse(name.trim_end_matches(".md"), &text, &mut problems),
    };
    Some(AgentFile {
        path,
        text,
        agent,
        problems,
    })
}

fn parse(stem: &str, text: &str, problems: &mut Vec<String>) -> Result<Agent, String> {
    let (fields, body) = front_matter::split(text);
    // No name has a space, so what follows one is a comment.
    let own = fields
        .field("name")
        .map(|name| name.split(" #").next().unwrap_or(name).trim());
    let name = own.unwrap_or(stem);
    if !is_name(name) {
        return Err("its name cannot be used".to_owned());
    }
    let description = fields.field("description").unwrap_or_default();
    let description = one_line(description);
    let tools = tools(&fields.yaml("tools"), problems);
    // Another program's word for the session's own model.
    let model = fields.text("model").filter(|model| model != "inherit");
    Ok(Agent {
        name: name.to_owned(),
        description: description.chars().take(DESCRIPTION_CHARS_MAX).collect(),
        prompt: body.trim().into(),
        model,
        tools: tools.map(|tools| known(&tools, problems)),
        ..Agent::default()
    })
}

/// The tools that a file names; `None` for all. What cannot be read names none.
fn tools(field: &Field, problems: &mut Vec<String>) -> Option<Vec<String>> {
    match field {
        Field::Absent => None,
        Field::Text(text) if text.trim() == "*" => None,
        Field::Text(text) => Some(listed(text)),
        Field::List(names) if matches!(names.as_slice(), [name] if name.trim() == "*") => None,
        Field::List(names) => Some(names.iter().flat_map(|names| listed(names)).collect()),
        Field::Null => {
            problems.push("`tools` is empty, so it has no tools; leave it out for all".to_owned());
            Some(Vec::new())
        }
        Field::Unreadable => {
            let problem = "`tools` cannot be read, so it has no tools; write `tools: Read, Grep` or a \
                           list of names";
            problems.push(problem.to_owned());
            Some(Vec::new())
        }
    }
}

/// Those of the tools that there are. The others are no tools of the agent's: never more than its
/// file says.
pub(super) fn known(tools: &[String], problems: &mut Vec<String>) -> Arc<[String]> {
    let mut known = Vec::new();
    for tool in tools {
        match tool_name(tool) {
            Some(tool) => known.push(tool.to_owned()),
            None => problems.push(format!("there is no tool {}", one_line(tool))),
        }
    }
    known.into()
}
