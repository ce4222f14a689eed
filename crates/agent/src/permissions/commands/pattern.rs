//! What a rule says of commands: one command, in which `*` stands for anything.

use domain::stars::is_like;

use super::super::shell;
use super::{Line, Part};

/// A pattern for one simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct CommandPattern {
    text: String,
}

impl CommandPattern {
    /// Reads a pattern, in which quotes mean what they mean in a shell.
    pub(in super::super) fn parse(text: &str) -> Result<Self, &'static str> {
        let script = shell::read(text, 0);
        let what = "a pattern is about one command, without `;`, `|`, `&`, `<`, `>`, `$` and \
                    brackets; write one rule for each";
        let [command] = script.commands.as_slice() else {
            return Err(what);
        };
        let line = Line::of(&[], &command.words);
        let is_one = script.unseen.is_none() && script.uncovered.is_none();
        let has_more = text.contains(['\n', ';', '|', '&', '`', '#', '(', ')']);
        // Words such as `time` hold commands together and are none.
        let first = text.split_whitespace().next().unwrap_or_default();
        let is_first = first.contains(['\'', '"', '\\']) || line.text.starts_with(first);
        if !is_one || !is_first || !line.is_whole || has_more {
            return Err(what);
        }
        Ok(Self { text: line.text })
    }

    /// Whether a rule with it allows `part`: all of it, whatever names of files it gets.
    pub(in super::super) fn covers(&self, part: &Part) -> bool {
        let (head, has_star) = self.head();
        if has_star && head.len() < part.spelled {
            return false;
        }
        let has_one_star = has_star && head.len() + 1 == self.text.len();
        let is_fixed = part.glob.is_none_or(|at| has_one_star && head.len() <= at);
        is_fixed && self.is(&part.line)
    }

    /// Whether it may match a command whose known part is `line`.
    pub(in super::super) fn may_be(&self, line: &Line) -> bool {
        let (head, _) = self.head();
        match line.is_whole {
            true => self.is(&line.text),
            false => head.starts_with(&line.text) || line.text.starts_with(head),
        }
    }

    /// What stands before the first star, and whether there is one.
    fn head(&self) -> (&str, bool) {
        match self.text.split_once('*') {
            Some((head, _)) => (head, true),
            None => (&self.text, false),
        }
    }

    /// Whether `line` is like the pattern; with ` *` at its end also if nothing follows.
    fn is(&self, line: &str) -> bool {
        is_like(line, &self.text)
            || self
                .text
                .strip_suffix(" *")
                .is_some_and(|short| !short.is_empty() && is_like(line, short))
    }
}
