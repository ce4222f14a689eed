//! What our own commands answer.

use agent::project::Project;
use client::SessionSummary;

use super::commands::{KEYS, OURS};
use super::face::Face;
use super::text::{Line, Style};
use crate::render::one_line;

/// Sessions that are listed; `fastness sessions list` shows all.
const SESSIONS_SHOWN: usize = 15;

/// `/help`
pub(super) fn help(face: &mut Face) {
    let theirs: Vec<(String, String)> = face
        .status
        .commands
        .iter()
        .map(|command| (command.name.clone(), command.description.clone()))
        .collect();
    let ours = OURS
        .iter()
        .map(|&(name, what)| (name.to_owned(), what.to_owned()));
    for (name, what) in ours.chain(theirs) {
        entry(face, &format!("/{name}"), &what);
    }
    for (key, what) in KEYS {
        entry(face, key, what);
    }
}

/// `/model` and `/mode`
pub(super) fn choices(face: &mut Face, option: &str) {
    let current = match option {
        "model" => face.status.model.clone(),
        _ => face.status.mode.clone(),
    };
    let choices = face.status.choices(option).to_vec();
    if choices.is_empty() {
        return face.transcript.note("there is nothing to choose from");
    }
    for choice in choices {
        let is_current = current.as_ref() == Some(&choice.value);
        let mark = if is_current { "● " } else { "  " };
        let name = match choice.name == choice.value {
            true => String::new(),
            false => format!("  {}", choice.name),
        };
        let line = Line::of(Style::Accent, mark).with(Style::Plain, &choice.value);
        face.transcript
            .line(line.with(Style::Dim, &name).hanging(4));
    }
}

/// `/sessions`
pub(super) fn sessions(face: &mut Face, sessions: &[SessionSummary]) {
    if sessions.is_empty() {
        return face
            .transcript
            .note("there is no session in this directory");
    }
    for one in sessions.iter().take(SESSIONS_SHOWN) {
        let id: String = one.session.to_string().chars().take(8).collect();
        let title = one.title.as_deref().map(one_line).unwrap_or_default();
        let line = Line::of(Style::Accent, &id).with(Style::Plain, &format!("  {title}"));
        let time = one.updated_at.as_deref().unwrap_or_default();
        let time = time.get(..16).unwrap_or(time).replace('T', " ");
        face.transcript
            .line(line.with(Style::Dim, &format!("  {time}")).hanging(10));
    }
    face.transcript.note("go on with one by /resume ID");
}

/// `/mcp`
pub(super) fn servers(face: &mut Face, project: &Project) {
    if project.servers.is_empty() {
        face.transcript.note("no tool servers are set here");
    }
    for server in &project.servers {
        face.transcript.note(&one_line(&server.name));
    }
    for notice in project.notices() {
        face.transcript.warn(&notice);
    }
    face.transcript.note(&crate::render::advise(
        "`fastness mcp list` starts them and shows their tools",
    ));
}

fn entry(face: &mut Face, name: &str, what: &str) {
    let line = Line::of(Style::Accent, &format!("{name:<18}"));
    face.transcript
        .line(line.with(Style::Plain, &one_line(what)).hanging(18));
}
