//! What `doctor` says of the project: its file, instructions, skills, commands, agents and hooks.

use agent::project::{AgentSource, Project};
use domain::limits::LIBRARY_FILE_BYTES_MAX;

use super::{Check, State};

/// Most names in one line: a look, not a catalogue.
const NAMES_MAX: usize = 12;

/// A line for each kind of thing that is there.
pub(super) fn checks(project: &Project) -> Vec<Check> {
    let library = &project.library;
    let instructions = project.instructions.files.iter();
    let instructions: Vec<_> = instructions
        .map(|file| format!("{} ({} bytes)", file.path, file.bytes))
        .collect();
    let named = |entries: &'static str, listed: &[agent::library::Entry]| {
        let listed: Vec<_> = listed.iter().map(sized).collect();
        list(entries, &listed)
    };
    let lines = [
        file(project),
        list("instructions", &instructions),
        named("skills", library.skills()),
        named("commands", library.commands()),
        agents(project),
        waiting_agents(project),
        hooks(project),
    ];
    let mut checks: Vec<Check> = lines.into_iter().flatten().collect();
    let problems = project.instructions.problems.iter();
    let problems = problems.chain(library.problems());
    let problems = problems.chain(&project.agent_problems).cloned();
    let problems = problems.chain(project.agent_files.iter().flat_map(agent_problems));
    let problems = problems.take(NAMES_MAX);
    checks.extend(problems.map(|problem| Check::new("left out", State::Noted, problem)));
    checks
}

fn file(project: &Project) -> Option<Check> {
    let file = project.file.as_ref()?;
    let check = |state, finding: &str| {
        Check::new("project file", state, format!("{} {finding}", file.path))
    };
    if let Some(error) = file.error() {
        return Some(check(State::Broken, &format!("is not used: {error}")));
    }
    let (wants, never) = (file.wants(), file.never());
    let note = match never.as_slice() {
        [] => String::new(),
        tables => format!("; a project cannot set {}", tables.join(", ")),
    };
    Some(if wants.is_empty() {
        check(State::Fine, &format!("needs no approval{note}"))
    } else if file.is_approved {
        check(State::Fine, &format!("is approved{note}"))
    } else {
        let finding = format!(
            "is not approved; {} parts of it are not used{note}",
            wants.len()
        );
        let advice = "`fastness approve` shows what they would do";
        check(State::Noted, &finding).advice(advice)
    })
}

/// A skill or command with its length, and how much of it is used if that is not all.
fn sized(entry: &agent::library::Entry) -> String {
    let (name, bytes) = (&entry.name, entry.bytes);
    if bytes > LIBRARY_FILE_BYTES_MAX as u64 {
        return format!("{name} ({bytes} bytes, cut to {LIBRARY_FILE_BYTES_MAX})");
    }
    format!("{name} ({bytes} bytes)")
}

fn list(name: &'static str, listed: &[String]) -> Option<Check> {
    if listed.is_empty() {
        return None;
    }
    let shown = &listed[..listed.len().min(NAMES_MAX)];
    let more = match listed.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let finding = format!("{}: {}{more}", listed.len(), shown.join(", "));
    Some(Check::new(name, State::Fine, finding))
}

/// Who can be given a task.
fn agents(project: &Project) -> Option<Check> {
    let all = project.agents.all();
    let shown = all.iter().take(NAMES_MAX).map(|agent| {
        let tools = match &agent.tools {
            Some(tools) => format!("{} tools", tools.len()),
            None => "all tools".to_owned(),
        };
        let model = agent.model.as_ref();
        let model = model.map_or_else(String::new, |model| format!(", {model}"));
        format!("{} ({tools}{model})", agent.name)
    });
    let shown: Vec<String> = shown.collect();
    let finding = format!("{}: {}", all.len(), shown.join(", "));
    Some(Check::new("agents", State::Fine, finding))
}

fn waiting_agents(project: &Project) -> Option<Check> {
    let waiting = project.agent_files.iter();
    let waiting = waiting.filter(|source| source.wants().is_some()).count();
    (waiting > 0).then(|| {
        let finding = format!("{waiting} of this project are not approved, and not used");
        let advice = "`fastness approve` shows what they are";
        Check::new("agents", State::Noted, finding).advice(advice)
    })
}

fn agent_problems(source: &AgentSource) -> Vec<String> {
    let problems = source.agent.as_ref().err().into_iter();
    let problems = problems.chain(&source.problems);
    problems
        .map(|problem| format!("{}: {problem}", source.path))
        .collect()
}

fn hooks(project: &Project) -> Option<Check> {
    let all = project.hooks.all();
    if all.is_empty() {
        return None;
    }
    let shown = all.iter().take(NAMES_MAX);
    let shown: Vec<String> = shown
        .map(|hook| format!("{}: {}", hook.point.name(), hook.command))
        .collect();
    let finding = format!("{}: {}", all.len(), shown.join("; "));
    Some(Check::new("hooks", State::Fine, finding))
}
