//! Stories of agents: as files, and by name.

use std::path::Path;
use std::sync::Arc;

use domain::limits::{AGENT_FILE_BYTES_MAX, AGENTS_MAX};

use super::{Agent, AgentFile, Agents, files};
use crate::roots::Roots;
use crate::stamps::Stamps;

fn gathered(place: &Path) -> Vec<AgentFile> {
    let roots = Arc::new(Roots::new(place.to_owned(), Vec::new(), Vec::new()));
    files(&[(place.to_owned(), roots)], &mut Stamps::default())
}

fn write(place: &Path, name: &str, text: &str) {
    let folder = place.join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

fn one(text: &str) -> (Result<Agent, String>, Vec<String>) {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "look.md", text);
    let file = gathered(place.path()).remove(0);
    (file.agent, file.problems)
}

#[test]
fn an_agent_s_file_says_what_it_is_for_and_what_it_may_use() {
    let text = "---\nname: explore\ndescription: Finds things\ntools: Read, Grep, mcp__x__y\nmodel: inherit\n---\nYou look, you do not touch.\n";
    let (agent, problems) = one(text);
    let agent = agent.unwrap();
    assert_eq!((agent.name.as_str(), agent.model), ("explore", None));
    assert_eq!(agent.description, "Finds things");
    assert_eq!(&*agent.prompt, "You look, you do not touch.");
    let tools = agent.tools.unwrap();
    assert_eq!(&tools[..], ["read", "grep", "mcp__x__y"]);
    assert!(problems.is_empty());
}

#[test]
fn without_fields_the_file_s_name_counts_and_all_tools_do() {
    let (agent, _) = one("Just look.");
    let agent = agent.unwrap();
    assert_eq!((agent.name.as_str(), agent.tools), ("look", None));
}

#[test]
fn a_tool_that_is_not_known_or_not_whole_is_left_out_and_never_made_up_for() {
    let (agent, problems) =
        one("---\ntools:\n  - Bash(git diff:*, git log)\n  - Read\n  - Fly\n---\n");
    assert_eq!(&agent.unwrap().tools.unwrap()[..], ["read"]);
    assert_eq!(problems.len(), 2, "{problems:?}");
    let (agent, _) = one("---\ntools: Fly\n---\n");
    assert_eq!(agent.unwrap().tools.unwrap().len(), 0, "none is not all");
}

#[test]
fn tools_that_cannot_be_read_are_none_and_a_problem_says_so() {
    let tools = |text: &str| {
        let (agent, problems) = one(&format!("---\n{text}\n---\nbody"));
        let tools = agent.unwrap().tools;
        (tools.map(|tools| tools.to_vec()), problems.len())
    };
    let some = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    // A list at the level of its key gave all tools.
    assert_eq!(
        tools("tools:\n- Read\n- Grep"),
        (some(&["read", "grep"]), 0)
    );
    assert_eq!(tools("tools: Read # only"), (some(&["read"]), 0));
    assert_eq!(
        tools("tools: [Read]\r\nname: x # y\r"),
        (some(&["read"]), 0)
    );
    assert_eq!(tools("tools: []"), (some(&[]), 0));
    assert_eq!(tools("tools: \"*\""), (None, 0));
    assert_eq!(tools("name: x"), (None, 0));
    for unreadable in [
        "tools:",
        "tools: [Read",
        "tools:\n\t- Read",
        "tools:\n  a: b",
        "tools: *",
    ] {
        assert_eq!(tools(unreadable), (some(&[]), 1), "{unreadable}");
    }
    let (agent, _) = one("---\nmodel: small # cheap\n---\n");
    assert_eq!(agent.unwrap().model.as_deref(), Some("small"));
}

#[test]
fn what_is_too_long_or_badly_named_is_no_agent() {
    let long = "x".repeat(AGENT_FILE_BYTES_MAX + 1);
    assert!(one(&long).0.unwrap_err().contains("longer"));
    assert!(one("---\nname: a b\n---\n").0.is_err());
    let place = tempfile::tempdir().unwrap();
    for index in 0..AGENTS_MAX + 5 {
        write(place.path(), &format!("a{index}.md"), "x");
    }
    assert_eq!(gathered(place.path()).len(), AGENTS_MAX);
}

#[test]
fn who_asks_for_an_agent_that_is_not_there_is_told_who_is() {
    let named = |name: &str| Agent {
        name: name.to_owned(),
        description: format!("does {name}"),
        ..Agent::default()
    };
    let agents = Agents::new(vec![named("scout"), named("scout"), named("critic")]);
    assert_eq!(agents.find(None).unwrap().name, "general");
    assert_eq!(agents.find(Some(" ")).unwrap().name, "general");
    assert_eq!(agents.find(Some("scout")).unwrap().name, "scout");
    let told = agents.find(Some("spy")).unwrap_err();
    assert_eq!(
        told,
        "There is no agent called spy. There are: critic, general, scout."
    );
    assert!(
        agents
            .list()
            .contains("\n- critic: does critic\n- general: ")
    );
    let own = Agents::new(vec![named("general")]);
    assert_eq!(own.find(None).unwrap().description, "does general");
}
