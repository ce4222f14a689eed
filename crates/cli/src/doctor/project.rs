//! What `doctor` says of the project: its file, instructions, skills, commands and hooks.

use agent::project::Project;

use super::{Check, State};

/// Most names in one line: a look, not a catalogue.
const NAMES_MAX: usize = 12;

/// A line for each kind of thing that is there.
pub(super) fn checks(project: &Project) -> Vec<Check> {
    let library = &project.library;
    let instructions = project.instructions.files.iter();
    let instructions: Vec<_> = instructions
        .map(|file| (file.path.as_str(), file.bytes))
        .collect();
    let named = |entries: &'static str, listed: &[agent::library::Entry]| {
        let listed: Vec<_> = listed
            .iter()
            .map(|entry| (entry.name.as_str(), entry.bytes))
            .collect();
        list(entries, &listed)
    };
    let lines = [
        file(project),
        list("instructions", &instructions),
        named("skills", library.skills()),
        named("commands", library.commands()),
        hooks(project),
    ];
    let mut checks: Vec<Check> = lines.into_iter().flatten().collect();
    let problems = project.instructions.problems.iter();
    let problems = problems.chain(library.problems()).take(NAMES_MAX);
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

fn list(name: &'static str, listed: &[(&str, u64)]) -> Option<Check> {
    if listed.is_empty() {
        return None;
    }
    let shown = listed.iter().take(NAMES_MAX);
    let shown: Vec<String> = shown
        .map(|(name, bytes)| format!("{name} ({bytes} bytes)"))
        .collect();
    let more = match listed.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let finding = format!("{}: {}{more}", listed.len(), shown.join(", "));
    Some(Check::new(name, State::Fine, finding))
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
