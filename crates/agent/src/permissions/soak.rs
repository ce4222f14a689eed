//! What the strict reader says of commands, compared with what a real bash runs.
//!
//! [`check`] makes a command by a grammar that favours odd ones. If the reader says that it knows all of it, bash
//! runs it in a [`Jail`], where every program only writes down its arguments. They must be those that the
//! reader named, in that order, and nothing else may have changed. A command that the reader does not know
//! is not run.

mod grammar;
mod jail;

use super::commands::coverage::{self, Inner};
use super::shell::Word;
use super::shell::exact::{self, Dialect, Joint, List, Pipeline, SimpleCommand, Step, Unknown};

pub use grammar::Choices;
pub use jail::Jail;

/// What became of a command that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reader does not know it.
    Unknown,
    /// It ran, and did what the reader said: it started so many programs.
    Agreed(u64),
}

/// How many commands were made, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Commands that were made.
    pub generated: u64,
    /// Commands that the reader knew, so that bash ran them.
    pub run: u64,
    /// Programs that they started.
    pub programs: u64,
}

/// Makes and checks `commands` commands, always the same ones for one seed.
///
/// # Errors
/// The first command that did something else than the reader said.
pub fn run(seed: u64, commands: u64, jail: &Jail) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for number in 0..commands {
        let mut choices = Choices::from_seed(seed, number);
        let again = |why| {
            format!(
                "seed {seed}, command {number}: {why}\nrepeat: cargo xtask soak bash --seed {seed}"
            )
        };
        tally.generated += 1;
        if let Outcome::Agreed(programs) = check(&mut choices, jail).map_err(again)? {
            tally.run += 1;
            tally.programs += programs;
        }
    }
    Ok(tally)
}

/// Makes one command of `choices` and checks it.
///
/// # Errors
/// If it did something else than the reader said.
pub fn check(choices: &mut Choices, jail: &Jail) -> Result<Outcome, String> {
    check_text(&grammar::command(choices), jail)
}

/// Checks `text`, which is run only if the reader knows it.
///
/// # Errors
/// If it did something else than the reader said.
pub fn check_text(text: &str, jail: &Jail) -> Result<Outcome, String> {
    let Ok(parts) = coverage::parts(text) else {
        return Ok(Outcome::Unknown);
    };
    let mut expected = Expected::default();
    let Ok(_) = expected.text(text, Dialect::Bash) else {
        return Ok(Outcome::Unknown);
    };
    if expected.is_concurrent && expected.prints {
        // A builtin that prints ends its shell if nothing reads that any more.
        return Ok(Outcome::Unknown);
    }
    // Builtins start nothing. All else that runs must be a part that rules were asked about.
    let is_asked = |line: &&String| !parts.iter().any(|part| part.line == **line);
    if let Some(line) = expected.lines.iter().find(is_asked) {
        return Err(format!(
            "{text:?}: {line:?} runs, and no rule was asked about it"
        ));
    }
    let ran = jail.run(text)?;
    if let Some(change) = ran.change {
        return Err(format!("{text:?}: the reader knew it, and it {change}"));
    }
    let is_same = match expected.is_concurrent {
        true => is_same_set(&expected.runs, &ran.programs, jail),
        false => is_same_list(&expected.runs, &ran.programs, jail),
    };
    match is_same {
        true => Ok(Outcome::Agreed(
            ran.programs.len().try_into().unwrap_or(u64::MAX),
        )),
        false => Err(format!(
            "{text:?}: bash ran {:?}, but the reader said {:?}",
            ran.programs, expected.lines
        )),
    }
}

/// What a text runs, by what the reader says of it and the exit statuses that programs have in the jail.
#[derive(Default)]
struct Expected {
    runs: Vec<Vec<Word>>,
    /// The same, and what is set for each, as rules are asked about them.
    lines: Vec<String>,
    /// Whether some run at the same time.
    is_concurrent: bool,
    /// Whether a builtin prints something.
    prints: bool,
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ended {
    is_success: bool,
    /// The shell that ran it is gone, too.
    is_last: bool,
}

impl Ended {
    fn with(is_success: bool) -> Self {
        Self {
            is_success,
            is_last: false,
        }
    }
}

impl Expected {
    fn text(&mut self, text: &str, dialect: Dialect) -> Result<Ended, Unknown> {
        self.list(&exact::read(text, dialect)?)
    }

    fn list(&mut self, list: &List) -> Result<Ended, Unknown> {
        let mut ended = Ended::with(true);
        for chain in list
            .0
            .split_inclusive(|(_, joint)| matches!(joint, Joint::Then | Joint::Background))
        {
            let is_background = matches!(chain.last(), Some((_, Joint::Background)));
            self.is_concurrent |= is_background;
            let mut joint = Joint::Then;
            for (pipeline, next) in chain {
                let is_due = match joint {
                    Joint::And => ended.is_success,
                    Joint::Or => !ended.is_success,
                    Joint::Then | Joint::Background => true,
                };
                joint = *next;
                if is_due {
                    ended = self.pipeline(pipeline)?;
                }
                if ended.is_last {
                    break;
                }
            }
            if is_background {
                ended = Ended::with(true);
            }
            if ended.is_last {
                return Ok(ended);
            }
        }
        Ok(ended)
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<Ended, Unknown> {
        let is_alone = pipeline.steps.len() == 1;
        self.is_concurrent |= !is_alone;
        let mut ended = Ended::with(true);
        for step in &pipeline.steps {
            ended = match step {
                Step::Simple(command) => self.simple(command)?,
                Step::Group(list) => self.list(list)?,
                Step::Subshell(list) => Ended::with(self.list(list)?.is_success),
            };
        }
        ended.is_last &= is_alone;
        ended.is_success ^= pipeline.is_negated;
        Ok(ended)
    }

    fn simple(&mut self, command: &SimpleCommand) -> Result<Ended, Unknown> {
        let words: Vec<Word> = command.words.iter().map(coverage::word).collect();
        let set: Vec<Word> = command.set.iter().map(|set| Word::of(set)).collect();
        if command.set.iter().any(|set| set.starts_with("PATH=")) {
            return Err(Unknown("it finds programs elsewhere"));
        }
        let is_exec = words.first().is_some_and(|word| word.text == "exec");
        let ended = self.words(&set, &words)?;
        Ok(Ended {
            is_last: is_exec,
            ..ended
        })
    }

    fn words(&mut self, set: &[Word], words: &[Word]) -> Result<Ended, Unknown> {
        let name = words.first().map_or("", |word| word.text.as_str());
        match coverage::look_through(words)? {
            Inner::Command(at) => {
                let is_builtin = name == "command";
                let inner = words.get(at).map_or("", |word| word.text.as_str());
                if !is_builtin && jail::BUILTINS.contains(&inner) {
                    // Another program cannot run a builtin of the shell.
                    return Err(Unknown("a builtin is not a program here"));
                }
                self.words(&[], &words[at..])
            }
            Inner::Text { text, dialect } => {
                if words
                    .iter()
                    .any(|word| word.text.starts_with('-') && word.text.contains('e'))
                {
                    return Err(Unknown("it may end early"));
                }
                let ended = self.text(&text, dialect)?;
                Ok(Ended::with(ended.is_success))
            }
            Inner::Itself => {
                self.prints |= matches!(name, "echo" | "pwd" | "printf");
                if !jail::BUILTINS.contains(&name) {
                    self.runs.push(words.to_vec());
                    self.lines.push(coverage::line_of(set, words));
                }
                jail::is_success(words)
                    .map(Ended::with)
                    .ok_or(Unknown("its exit status is not known"))
            }
        }
    }
}

/// Whether the programs ran in this order.
fn is_same_list(expected: &[Vec<Word>], ran: &[Vec<String>], jail: &Jail) -> bool {
    let pairs = expected.iter().zip(ran);
    expected.len() == ran.len()
        && pairs
            .into_iter()
            .all(|(words, ran)| is_run(words, ran, jail))
}

/// Whether the same programs ran, in any order.
fn is_same_set(expected: &[Vec<Word>], ran: &[Vec<String>], jail: &Jail) -> bool {
    let mut left: Vec<&Vec<String>> = ran.iter().collect();
    let (open, fixed): (Vec<_>, Vec<_>) = expected
        .iter()
        .partition(|words| words.iter().any(|word| word.glob.is_some()));
    let found = fixed.into_iter().chain(open).all(|words| {
        let at = left.iter().position(|ran| is_run(words, ran, jail));
        at.map(|at| left.swap_remove(at)).is_some()
    });
    found && left.is_empty()
}

/// Whether `ran` is the program and the arguments of `words`.
fn is_run(words: &[Word], ran: &[String], jail: &Jail) -> bool {
    let (Some(name), Some(program)) = (words.first(), ran.first()) else {
        return false;
    };
    let is_program = match name.text.strip_prefix("./") {
        // `exec` tells a program its whole path.
        Some(file) => *program == name.text || jail.is_own(program, file),
        None => *program == jail.program(&name.text),
    };
    is_program && is_arguments(&words[1..], &ran[1..])
}

/// Whether the arguments are these words; a glob is itself, or names that begin as it does.
fn is_arguments(words: &[Word], ran: &[String]) -> bool {
    match (words, ran) {
        ([], []) => true,
        ([word, words @ ..], [first, rest @ ..]) => match word.glob {
            None => word.text == *first && is_arguments(words, rest),
            Some(at) => {
                let begins =
                    |text: &String| text.starts_with(&word.text[..at]) && !text.starts_with('-');
                let most = ran.iter().take_while(|text| begins(text)).count();
                (1..=most).any(|count| is_arguments(words, &ran[count..]))
            }
        },
        ([], [..]) | ([..], []) => false,
    }
}

#[cfg(test)]
mod tests;
