//! What a person can type after a slash that is ours: read here, carried out by [`mod@super::talk`].

use super::status::Command as Offered;

/// Our own commands, with what they do, as `/help` and completion show them.
pub(super) const OURS: &[(&str, &str)] = &[
    ("help", "show commands and keys"),
    ("model", "show the models, or choose one: /model NAME"),
    ("mode", "show the modes, or choose one: /mode NAME"),
    ("sessions", "list the sessions of this directory"),
    ("resume", "go on with another session: /resume ID"),
    ("new", "begin a new session"),
    ("undo", "take the last turn out of the conversation"),
    ("mcp", "show the tool servers that are set here"),
    ("quit", "leave; the session stays"),
];

/// The keys, as `/help` shows them.
pub(super) const KEYS: &[(&str, &str)] = &[
    ("Enter", "send"),
    ("Alt-Enter, Ctrl-J", "a line break"),
    ("Tab", "complete a /command or an @file"),
    ("Up, Down", "what you wrote before"),
    ("an arrow, a key", "choose an answer; Enter confirms it"),
    ("Escape", "take the choice back, or stop the turn"),
    ("Ctrl-C", "stop the turn; twice leaves"),
    ("Ctrl-O", "unfold the last tool call"),
    ("Ctrl-L", "draw the screen anew"),
    ("Ctrl-D", "leave"),
];

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Words for the agent, a command of the project among them.
    Prompt,
    Help,
    /// An option, and the choice if one was named.
    Option(&'static str, Option<String>),
    Sessions,
    Resume(Option<String>),
    New,
    Undo,
    Mcp,
    Quit,
    /// No such command.
    Unknown(String),
}

/// Reads a text that is to be sent.
pub(super) fn read(text: &str, offered: &[Offered]) -> Typed {
    let Some(command) = text.trim().strip_prefix('/') else {
        return Typed::Prompt;
    };
    let (name, rest) = command
        .split_once(char::is_whitespace)
        .unwrap_or((command, ""));
    let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    match name {
        "help" => Typed::Help,
        "model" => Typed::Option("model", rest),
        "mode" => Typed::Option("mode", rest),
        "sessions" => Typed::Sessions,
        "resume" => Typed::Resume(rest),
        "new" => Typed::New,
        "undo" => Typed::Undo,
        "mcp" => Typed::Mcp,
        "quit" | "exit" => Typed::Quit,
        // A path, or two slashes of code.
        name if name.is_empty() || name.contains('/') => Typed::Prompt,
        name if offered.iter().any(|command| command.name == name) => Typed::Prompt,
        name => Typed::Unknown(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::Command;
    use super::{Typed, read};

    #[test]
    fn a_slash_begins_a_command_of_ours_or_of_the_project_or_a_path() {
        let offered = [Command {
            name: "compact".to_owned(),
            description: String::new(),
        }];
        let read = |text| read(text, &offered);
        assert_eq!(read("hello"), Typed::Prompt);
        assert_eq!(read("/help"), Typed::Help);
        assert_eq!(read("/model"), Typed::Option("model", None));
        let chosen = Typed::Option("model", Some("a:b".to_owned()));
        assert_eq!(read(" /model  a:b "), chosen);
        assert_eq!(read("/resume 3f2a"), Typed::Resume(Some("3f2a".to_owned())));
        assert_eq!(read("/compact the rest"), Typed::Prompt);
        assert_eq!(read("/etc/hosts is what?"), Typed::Prompt);
        assert_eq!(read("// a comment"), Typed::Prompt);
        assert_eq!(read("/nothing"), Typed::Unknown("nothing".to_owned()));
    }
}
