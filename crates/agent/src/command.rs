//! What a person can say to the program instead of to the model: a prompt that begins with `/`.

/// A command of the turn itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `/compact`: make the conversation shorter now, minding what is said after it.
    Compact {
        /// What the summary should keep; empty for nothing in particular.
        focus: String,
    },
}

impl Command {
    /// The command that a prompt is, if it is one.
    #[must_use]
    pub fn parse(prompt: &str) -> Option<Self> {
        let (name, rest) = match prompt.trim().split_once(char::is_whitespace) {
            Some((name, rest)) => (name, rest.trim()),
            None => (prompt.trim(), ""),
        };
        (name == "/compact").then(|| Self::Compact {
            focus: rest.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn a_command_is_a_prompt_that_begins_with_its_name() {
        let compact = |focus: &str| {
            let focus = focus.to_owned();
            Some(Command::Compact { focus })
        };
        assert_eq!(Command::parse(" /compact\n"), compact(""));
        assert_eq!(Command::parse("/compact the tests"), compact("the tests"));
        assert_eq!(Command::parse("/compaction"), None);
        assert_eq!(Command::parse("say /compact"), None);
    }
}
