//! The parts of a shell command, each as rules see it.
//!
//! [`Judged::of`] takes a command apart. A rule that allows must cover every [`Part`]; one that
//! denies or asks is about the whole command as soon as it may be about one of them. Programs that
//! start others ([`starters`]) and shells within are looked into.

mod pattern;
mod starters;

use domain::limits::{COMMAND_DEPTH_MAX, COMMAND_JUDGED_BYTES_MAX, COMMAND_PARTS_MAX};

pub(super) use pattern::CommandPattern;

use super::shell::{self, Script, Word};
use starters::Starts;

/// A command as rules see it.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) parts: Vec<Part>,
    /// Why rules that allow do not cover it, whatever they say.
    pub(super) uncovered: Option<&'static str>,
    /// Why it may run anything.
    pub(super) unseen: Option<&'static str>,
    /// How much has been looked at, the same text again and again for what stands inside it.
    looked_at: usize,
}

/// Something that a command runs.
#[derive(Debug)]
pub(super) struct Part {
    /// Whether a rule must allow it; it does not if what it starts is a part of its own.
    pub(super) needs_rule: bool,
    /// As it was written, in one line without quotes.
    pub(super) line: Line,
    /// How much of the line a rule must spell out before its first star.
    pub(super) spelled: usize,
    /// What else it may be.
    pub(super) guises: Vec<Line>,
}

/// Words in a line, as far as they are known before they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    /// Whether that is all.
    pub(super) is_whole: bool,
}

/// Bytes that are looked at for one command: one with programs that start programs is read once
/// for each.
const LOOKED_AT_MAX: usize = 4 * COMMAND_JUDGED_BYTES_MAX;

/// Stands for a blank within a word, so that no word is taken for two.
const INNER_BLANK: char = '\u{1f}';

impl Judged {
    /// Takes `command` apart, which runs in `cwd`.
    pub(super) fn of(command: &str, cwd: Option<&str>) -> Self {
        let mut judged = Self::default();
        if let Some(cwd) = cwd.filter(|cwd| !matches!(*cwd, "" | "." | "./")) {
            // The same as going there first.
            let mut text = "cd ".to_owned();
            push_word(&mut text, cwd);
            judged.parts.push(Part {
                needs_rule: true,
                spelled: 0,
                guises: Vec::new(),
                line: Line {
                    text,
                    is_whole: true,
                },
            });
        }
        judged.add_script(shell::read(command, 0), Need::Rule, 0);
        judged
    }

    fn hide(&mut self, why: &'static str) {
        self.unseen.get_or_insert(why);
    }

    fn uncover(&mut self, why: &'static str) {
        self.uncovered.get_or_insert(why);
    }

    fn add_script(&mut self, script: Script, need: Need, depth: usize) {
        if let Some(why) = script.uncovered {
            self.uncover(why);
        }
        if let Some(why) = script.unseen {
            self.hide(why);
        }
        for command in script.commands {
            let (set, words) = command.words.split_at(command.assignments);
            self.add(set, words, need, depth);
        }
    }

    /// Adds the command `words`, before which the variables `set` are set.
    fn add(&mut self, set: &[Word], words: &[Word], need: Need, depth: usize) {
        let Some(name) = words.first() else {
            return self.uncover("it sets a variable");
        };
        if name.is_open || name.is_pattern && name.text != "[" {
            return self.hide("the name of a program in it is known only when it runs");
        }
        self.looked_at += words.iter().map(|word| word.text.len() + 1).sum::<usize>();
        let is_too_much = self.looked_at > LOOKED_AT_MAX || self.parts.len() >= COMMAND_PARTS_MAX;
        if is_too_much || depth >= COMMAND_DEPTH_MAX {
            return self.hide("it has too many parts");
        }
        let program = name.text.rsplit('/').next().unwrap_or_default();
        let written = Line::of(set, words);
        let head = match set {
            [] => 0,
            _ => Line::of(set, &words[..1]).text.len(),
        };
        let mut part = Part {
            needs_rule: need == Need::Rule,
            spelled: head,
            guises: guises(set, words, program),
            line: written,
        };
        match starters::starts(program, words) {
            Starts::Nothing => {}
            Starts::Unseen(why) => self.hide(why),
            Starts::More(why) => self.uncover(why),
            Starts::Script(text) => {
                part.needs_rule &= !set.is_empty();
                self.add_script(shell::read(&text, depth + 1), need, depth + 1);
            }
            Starts::Hint(text, why) => {
                self.uncover(why);
                self.add_script(shell::read(&text, depth + 1), Need::Nothing, depth + 1);
            }
            Starts::Plainly(at) => {
                part.needs_rule &= !set.is_empty();
                self.add(&[], &words[at..], need, depth + 1);
            }
            Starts::Otherwise(at, more) => {
                let name = &words[..=at];
                part.spelled = Line::of(set, name).text.len();
                let inside: Vec<Word> = words[at..].iter().cloned().chain(more).collect();
                self.add(&[], &inside, Need::Nothing, depth + 1);
            }
            Starts::Somewhere(commands) => {
                part.spelled = usize::MAX;
                for words in commands {
                    self.add(&[], words, Need::Nothing, depth + 1);
                }
                // Some take the whole command as one word.
                let texts = words.iter().skip(1).filter(|word| word.text.contains(' '));
                for word in texts {
                    let script = shell::read(&word.text, depth + 1);
                    self.add_script(script, Need::Nothing, depth + 1);
                }
            }
        }
        self.parts.push(part);
    }
}

/// Whether a rule must allow a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Rule,
    /// What starts it is covered by one that spells it out, or by none.
    Nothing,
}

/// What else a command may be: without what is set before it, by the last part of its name, and
/// with the names of files in place of patterns.
fn guises(set: &[Word], words: &[Word], program: &str) -> Vec<Line> {
    let name = words.first().into_iter().map(|_| Word::of(program));
    let opened = || words.iter().skip(1).map(Word::opened);
    let own = words.first().into_iter().cloned().chain(opened());
    let lines = [own.collect::<Vec<_>>(), name.chain(opened()).collect()];
    let mut guises: Vec<Line> = lines.iter().map(|words| Line::of(&[], words)).collect();
    guises.dedup();
    let written = Line::of(set, words);
    guises.retain(|guise| *guise != written);
    guises
}

impl Line {
    /// Two lists of words as one line, up to what is not known.
    fn of(set: &[Word], words: &[Word]) -> Self {
        let mut text = String::new();
        for (index, word) in set.iter().chain(words).enumerate() {
            if index > 0 {
                text.push(' ');
            }
            push_word(&mut text, &word.text);
            if word.is_open {
                return Self {
                    text,
                    is_whole: false,
                };
            }
        }
        Self {
            text,
            is_whole: true,
        }
    }
}

fn push_word(line: &mut String, word: &str) {
    match word.contains(char::is_whitespace) {
        true => line.push_str(&word.replace(char::is_whitespace, &INNER_BLANK.to_string())),
        false => line.push_str(word),
    }
}

#[cfg(test)]
mod tests;
