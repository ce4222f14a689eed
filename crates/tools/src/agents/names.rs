//! What tools are called by those who write agents.

use crate::builtin;

/// Names that other programs have for tools like ours, whose agents are to work here too.
const ALIASES: &[(&str, &str)] = &[
    ("Bash", "bash"),
    ("Edit", "edit"),
    ("Glob", "glob"),
    ("Grep", "grep"),
    ("LS", "list"),
    ("MultiEdit", "edit"),
    ("NotebookEdit", "notebook_edit"),
    ("NotebookRead", "read"),
    ("Read", "read"),
    ("Skill", "skill"),
    ("SlashCommand", "slash_command"),
    ("TodoRead", "todo"),
    ("TodoWrite", "todo"),
    ("WebFetch", "web_fetch"),
    ("WebSearch", "web_search"),
    ("Write", "write"),
];

/// What we call the tool that somebody calls `name`; `None` if we have no such tool.
///
/// One with a pattern, as `Bash(git *)`, is none: giving the whole tool would give more.
#[must_use]
pub fn tool_name(name: &str) -> Option<&str> {
    let ours = builtin::find(name).map(|_| name);
    let foreign = name.starts_with("mcp__").then_some(name);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    ours.or(foreign).or(alias.map(|(_, ours)| *ours))
}

/// The names in a list as people write it in front matter: between commas, or a line each.
pub(super) fn listed(list: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_u32;
    for letter in list.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_gap = letter == ',' || letter.is_whitespace();
        match names.last_mut() {
            Some(last) if depth > 0 || !is_gap => last.push(letter),
            Some(_) | None => names.push(String::new()),
        }
    }
    let trimmed = names
        .iter()
        .map(|name| name.trim_matches(|letter: char| "-[]\"'".contains(letter)));
    trimmed
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}
