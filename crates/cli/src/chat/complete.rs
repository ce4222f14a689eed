//! Completion: what could stand where a `/command` or an `@file` has been begun.

use std::path::Path;

use super::commands::OURS;
use super::status::Command;
use super::text::{Line, Style};

/// Files of a project that are offered; more are found by writing their path.
const FILES_MAX: usize = 20_000;
/// Proposals that are shown at a time.
const SHOWN_MAX: usize = 6;

/// A menu of proposals.
#[derive(Debug, Default)]
pub(super) struct Menu {
    proposals: Vec<Proposal>,
    chosen: usize,
    /// Where the word begins that a proposal replaces.
    from: usize,
    /// The text that it is for.
    written: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Proposal {
    text: String,
    description: String,
}

impl Menu {
    /// What could complete `written`, the text up to the cursor.
    pub(super) fn of(written: &str, commands: &[Command], files: &[String]) -> Self {
        if let Some(begun) = written.strip_prefix('/')
            && !begun.contains(char::is_whitespace)
        {
            return Self::new(written, 0, command_proposals(begun, commands));
        }
        let from = written.rfind(char::is_whitespace).map_or(0, |at| {
            at + written[at..].chars().next().map_or(1, char::len_utf8)
        });
        match written[from..].strip_prefix('@') {
            Some(begun) => Self::new(written, from, file_proposals(begun, files)),
            None => Self::default(),
        }
    }

    fn new(written: &str, from: usize, proposals: Vec<Proposal>) -> Self {
        Self {
            proposals,
            chosen: 0,
            from,
            written: written.to_owned(),
        }
    }

    /// Whether it is the one for `written`.
    pub(super) fn is_for(&self, written: &str) -> bool {
        self.written == written
    }

    pub(super) fn is_empty(&self) -> bool {
        self.proposals.is_empty()
    }

    /// Chooses another one.
    pub(super) fn turn(&mut self, step: isize) {
        let count = self.proposals.len();
        if count > 0 {
            self.chosen = self
                .chosen
                .saturating_add_signed(step.rem_euclid(count as isize))
                % count;
        }
    }

    /// What is chosen, and where it goes.
    pub(super) fn taken(&self) -> Option<(usize, &str)> {
        let proposal = self.proposals.get(self.chosen)?;
        Some((self.from, &proposal.text))
    }

    pub(super) fn live(&self) -> Vec<Line> {
        let first = (self.chosen + 1).saturating_sub(SHOWN_MAX);
        let shown = self
            .proposals
            .iter()
            .enumerate()
            .skip(first)
            .take(SHOWN_MAX);
        shown
            .map(|(index, proposal)| {
                let style = match index == self.chosen {
                    true => Style::Accent,
                    false => Style::Plain,
                };
                let line = Line::of(style, &format!("  {}", proposal.text.trim_end()));
                match proposal.description.is_empty() {
                    true => line,
                    false => line.with(Style::Dim, &format!("  {}", proposal.description)),
                }
            })
            .collect()
    }
}

fn command_proposals(begun: &str, commands: &[Command]) -> Vec<Proposal> {
    let ours = OURS.iter().copied();
    let theirs = commands
        .iter()
        .map(|command| (command.name.as_str(), command.description.as_str()));
    let fitting = ours
        .chain(theirs)
        .filter(|(name, _)| name.starts_with(begun));
    fitting
        .map(|(name, description)| Proposal {
            text: format!("/{name} "),
            description: description.to_owned(),
        })
        .collect()
}

/// Files whose path contains what was begun; those whose name begins with it come first.
fn file_proposals(begun: &str, files: &[String]) -> Vec<Proposal> {
    let begun = begun.to_lowercase();
    let rank = |path: &String| {
        let lower = path.to_lowercase();
        let name = lower.rsplit('/').next().unwrap_or_default().to_owned();
        if lower.starts_with(&begun) {
            Some(0)
        } else if name.starts_with(&begun) {
            Some(1)
        } else {
            lower.contains(&begun).then_some(2)
        }
    };
    let ranked = files.iter().filter_map(|path| Some((rank(path)?, path)));
    let mut ranked: Vec<(u8, &String)> = ranked.collect();
    ranked.sort();
    let proposals = ranked.into_iter().take(10 * SHOWN_MAX);
    proposals
        .map(|(_, path)| Proposal {
            text: format!("@{path} "),
            description: String::new(),
        })
        .collect()
}

/// The files below `directory`, as `glob` would find them; blocks while it looks.
pub(super) fn files(directory: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(directory)
        .max_filesize(None)
        .build();
    let files = walk.flatten().filter(|entry| {
        let kind = entry.file_type();
        kind.is_some_and(|kind| kind.is_file())
    });
    let paths = files.filter_map(|entry| {
        let path = entry.path().strip_prefix(directory).ok()?;
        path.to_str().map(str::to_owned)
    });
    paths.take(FILES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::super::status::Command;
    use super::Menu;

    fn proposed(written: &str) -> Vec<String> {
        let commands = [Command {
            name: "compact".to_owned(),
            description: "shorter".to_owned(),
        }];
        let files = ["src/main.rs", "main.md", "docs/domain.md"].map(str::to_owned);
        let menu = Menu::of(written, &commands, &files);
        menu.proposals.iter().map(|it| it.text.clone()).collect()
    }

    #[test]
    fn a_slash_at_the_beginning_offers_commands_and_an_at_sign_files() {
        assert_eq!(proposed("/mo"), ["/model ", "/mode "]);
        assert_eq!(proposed("/comp"), ["/compact "]);
        assert_eq!(
            proposed("see @main"),
            ["@main.md ", "@src/main.rs ", "@docs/domain.md "]
        );
        for nothing in ["", "model", "/model x", "a /mo", "mail a@b", "see @zzz"] {
            assert!(proposed(nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn the_choice_goes_round() {
        let mut menu = Menu::of("/mo", &[], &[]);
        assert_eq!(menu.taken(), Some((0, "/model ")));
        menu.turn(-1);
        assert_eq!(menu.taken(), Some((0, "/mode ")));
        menu.turn(1);
        assert_eq!(menu.taken(), Some((0, "/model ")));
    }
}
