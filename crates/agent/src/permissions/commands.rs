//! The parts of a shell command, each as rules see it.
//!
//! [`Judged::of`] reads a command twice. A rule that allows must cover every [`Part`], and there are
//! none unless every word is known exactly ([`coverage`]). A rule that denies or asks is about the
//! whole command as soon as it may be about one [`Line`] of it. Programs that start others
//! ([`starters`]) and shells within are looked into.

pub(super) mod coverage;
mod hidden;
mod options;
mod pattern;
mod starters;

use domain::limits::{COMMAND_DEPTH_MAX, COMMAND_JUDGED_BYTES_MAX, COMMAND_PARTS_MAX};

pub(super) use pattern::CommandPattern;

use super::shell::exact::Unknown;
use super::shell::{self, Script, Word};
use starters::Starts;

/// A command as rules see it.
#[derive(Debug)]
pub(super) struct Judged {
    /// Everything that it runs or may run, for rules that deny or ask.
    pub(super) lines: Vec<Line>,
    /// Why it may run anything.
    pub(super) unseen: Option<&'static str>,
    /// What rules that allow must cover, unless it is not known exactly what it runs.
    pub(super) to_cover: Result<Vec<Part>, Unknown>,
    /// How much has been looked at, the same text again and again for what stands inside it.
    looked_at: usize,
}

/// A command that a rule must allow; each of its words is known.
#[derive(Debug)]
pub(super) struct Part {
    /// In one line without quotes.
    pub(super) line: String,
    /// How much of the line a rule must spell out before its first star.
    pub(super) spelled: usize,
    /// Where the shell may put names of files, from here on.
    pub(super) glob: Option<usize>,
}

impl Part {
    /// The narrowest pattern that covers it.
    pub(super) fn pattern(&self) -> String {
        let (line, star) = match self.glob {
            Some(at) => (&self.line[..at], "*"),
            None => (self.line.as_str(), ""),
        };
        let words = line.split(' ').map(|word| {
            let outer = |c: char| INNER_BLANKS.iter().find(|(_, inner)| *inner == c);
            let blank = |c: char| outer(c).map_or(c, |(blank, _)| *blank);
            let word: String = word.chars().map(blank).collect();
            let is_plain = |c: char| c.is_alphanumeric() || "-_./:,+@%^=*?[]".contains(c);
            let is_open_end = word.is_empty() && self.glob.is_some();
            match is_open_end || !word.is_empty() && word.chars().all(is_plain) {
                true => word,
                false => format!("'{}'", word.replace('\'', "'\\''")),
            }
        });
        words.collect::<Vec<_>>().join(" ") + star
    }
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

/// Lines that are kept of one command: each part may be several.
const LINES_MAX: usize = 3 * COMMAND_PARTS_MAX;

/// What stands for a blank within a word, so that no word is taken for two.
/// Options of one letter in one word, behind each of which a command may begin: programs have few that
/// take no value.
const CLUSTER_LETTERS_MAX: usize = 8;

const INNER_BLANKS: [(char, char); 3] = [(' ', '\u{1f}'), ('\t', '\u{1e}'), ('\n', '\u{1d}')];

impl Judged {
    /// Takes `command` apart, which runs in `cwd` if that is not the session's directory.
    pub(super) fn of(command: &str, cwd: Option<&str>) -> Self {
        let mut judged = Self {
            lines: Vec::new(),
            unseen: None,
            to_cover: coverage::parts(command),
            looked_at: 0,
        };
        if let Some(cwd) = cwd {
            // The same as going there first.
            let line = Line::of(&[], &[Word::of("cd"), Word::of(cwd)]);
            if let Ok(parts) = &mut judged.to_cover {
                let line = line.text.clone();
                parts.insert(
                    0,
                    Part {
                        line,
                        spelled: 0,
                        glob: None,
                    },
                );
            }
            judged.lines.push(line);
        }
        judged.add_script(shell::read(command, 0), 0);
        judged
    }

    fn hide(&mut self, why: &'static str) {
        self.unseen.get_or_insert(why);
    }

    fn add_script(&mut self, script: Script, depth: usize) {
        if let Some(why) = script.unseen {
            self.hide(why);
        }
        for command in script.commands {
            let (set, words) = command.words.split_at(command.assignments);
            self.add(set, words, depth);
        }
    }

    fn add_text(&mut self, text: &str, depth: usize) {
        self.add_script(shell::read(text, depth + 1), depth + 1);
    }

    /// Adds the command `words`, before which the variables `set` are set.
    fn add(&mut self, set: &[Word], words: &[Word], depth: usize) {
        let program = words
            .first()
            .map_or("", |name| name.text.rsplit('/').next().unwrap_or_default());
        let hidden = hidden::look(set, program, words);
        if let Some(why) = hidden.why {
            self.hide(why);
        }
        for text in hidden.texts {
            self.add_text(&text, depth);
        }
        let Some(name) = words.first() else {
            return;
        };
        if name.is_open || name.is_pattern && name.text != "[" {
            return self.hide("the name of a program in it is known only when it runs");
        }
        self.looked_at += words.iter().map(|word| word.text.len() + 1).sum::<usize>();
        let is_too_much = self.looked_at > LOOKED_AT_MAX || self.lines.len() >= LINES_MAX;
        if is_too_much || depth >= COMMAND_DEPTH_MAX {
            return self.hide("it has too many parts");
        }
        self.lines.push(Line::of(set, words));
        self.lines.extend(guises(set, words, program));
        match starters::starts(program, words) {
            Starts::Nothing | Starts::More(_) => {}
            Starts::Unseen(why) => self.hide(why),
            Starts::Script(text) | Starts::Hint(text, _) => self.add_text(&text, depth),
            Starts::Plainly(at) => self.add(&[], &words[at..], depth + 1),
            Starts::Otherwise(at, more) => {
                let inside: Vec<Word> = words[at..].iter().cloned().chain(more).collect();
                self.add(&[], &inside, depth + 1);
            }
            Starts::Found(commands) => {
                let found = |word: &Word| match word.text.as_str() {
                    "{}" => Word::unknown(),
                    _ => word.clone(),
                };
                for words in commands {
                    let words: Vec<Word> = words.iter().map(found).collect();
                    self.add(&[], &words, depth + 1);
                }
            }
            Starts::Somewhere(commands) => {
                for words in commands {
                    self.add(&[], words, depth + 1);
                }
                for word in words.iter().skip(1) {
                    self.add_told(&word.text, depth);
                }
            }
        }
    }

    /// Adds what a word may tell a program to run: all of it, its value, or what follows one of its
    /// first letters, each of which may be an option.
    fn add_told(&mut self, text: &str, depth: usize) {
        let value = text.split_once('=').map(|(_, value)| value);
        let letters = text.strip_prefix('-').unwrap_or_default();
        let options = letters.bytes().take_while(u8::is_ascii_alphanumeric);
        let behind = (1..=options.take(CLUSTER_LETTERS_MAX).count()).map(|at| &letters[at..]);
        let transport = text.split_once("::").map(|(_, address)| address);
        let whole = [Some(text), value, transport];
        for told in whole.into_iter().flatten().chain(behind) {
            let told = told.trim_start_matches(['!', ' ']);
            let is_name =
                told.starts_with(|c: char| c.is_ascii_alphanumeric() || "/.\\'\"$({`_".contains(c));
            if is_name && told != text
                || text.contains(|c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c))
            {
                self.add_text(told, depth);
            }
        }
    }
}

/// Whether a variable of this name changes what commands mean, or which are found.
pub(super) fn changes_what_runs(name: &str) -> bool {
    hidden::is_changing(name)
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
    for c in word.chars() {
        let inner = INNER_BLANKS.iter().find(|(blank, _)| *blank == c);
        line.push(inner.map_or(c, |(_, inner)| *inner));
    }
}

#[cfg(test)]
mod tests;
