//! What a rule that allows must cover: the commands of a text that is known exactly.
//!
//! [`parts`] reads with [`exact`], and looks through programs that run another one just as it is
//! written (`timeout 5 git status`, `sh -c 'git status'`). A builtin that changes what later commands
//! mean, or evaluates text once more, makes the whole text unknown.

use domain::limits::{COMMAND_DEPTH_MAX, COMMAND_PARTS_MAX};

use super::super::shell::Word;
use super::super::shell::exact::{self, Dialect, ExactWord, Unknown};
use super::hidden;
use super::starters::{self, Starts};
use super::{Line, Part};

/// Builtins that do nothing but what their name says, if the check of its arguments finds nothing odd.
const PLAIN_BUILTINS: &[&str] = &[
    ":", "[", "cd", "echo", "false", "kill", "printf", "pwd", "set", "test", "true", "type",
];

/// All others of bash and its relatives, but for `command` and `exec`, which are looked into.
const OTHER_BUILTINS: &[&str] = &[
    ".",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exit",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "shift",
    "shopt",
    "source",
    "suspend",
    "times",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Where programs lie that are what their name says.
const SYSTEM_DIRECTORIES: &[&str] = &["", "/bin/", "/usr/bin/"];

/// Shells that read the language of [`exact`] as bash does.
const KNOWN_SHELLS: &[&str] = &["ash", "bash", "dash", "sh"];

/// The commands of `text` that rules must allow.
///
/// # Errors
/// If it is not known exactly what it runs.
pub(in super::super) fn parts(text: &str) -> Result<Vec<Part>, Unknown> {
    let mut parts = Vec::new();
    add_text(text, Dialect::Bash, 0, &mut parts)?;
    Ok(parts)
}

fn add_text(
    text: &str,
    dialect: Dialect,
    depth: usize,
    parts: &mut Vec<Part>,
) -> Result<(), Unknown> {
    let list = exact::read(text, dialect)?;
    for command in list.commands() {
        let words: Vec<Word> = command.words.iter().map(word).collect();
        let set: Vec<Word> = command.set.iter().map(|set| Word::of(set)).collect();
        add(&set, &words, depth, parts)?;
    }
    Ok(())
}

/// A word that is known exactly.
pub(in super::super) fn word(exact: &ExactWord) -> Word {
    let mut word = Word::of(&exact.text);
    word.glob = exact.glob;
    word.is_pattern = exact.glob.is_some();
    word
}

/// What a command runs.
pub(in super::super) enum Inner {
    /// The program or builtin that it names.
    Itself,
    /// The command that begins at this word, just as it is.
    Command(usize),
    /// This text, in a shell.
    Text { text: String, dialect: Dialect },
}

/// Looks through a program that runs another one without changing anything for it.
///
/// # Errors
/// If it is not known exactly what it runs.
pub(in super::super) fn look_through(words: &[Word]) -> Result<Inner, Unknown> {
    let Some(name) = words.first().filter(|name| name.glob.is_none()) else {
        return Err(Unknown("the name of a program in it is not plain"));
    };
    if !is_known_builtin(&name.text, words) {
        return Err(Unknown("a builtin in it changes what commands mean"));
    }
    let (directory, program) = split(&name.text);
    let is_system = SYSTEM_DIRECTORIES.contains(&directory);
    let is_bare = |end: usize| words[..end].iter().all(|word| word.glob.is_none());
    match starters::starts(program, words) {
        Starts::Nothing | Starts::Somewhere(_) | Starts::Found(_) => Ok(Inner::Itself),
        Starts::Unseen(why) | Starts::More(why) | Starts::Hint(_, why) => Err(Unknown(why)),
        Starts::Script(text) if is_system && is_plain_shell(program, words) => {
            let dialect = match program {
                "bash" => Dialect::Bash,
                _ => Dialect::Posix,
            };
            Ok(Inner::Text { text, dialect })
        }
        Starts::Plainly(at) if is_system && is_bare(at) && is_plain_start(program, words, at) => {
            Ok(Inner::Command(at))
        }
        Starts::Otherwise(at, _) if is_bare(at + 1) => Ok(Inner::Itself),
        Starts::Script(_) | Starts::Plainly(_) | Starts::Otherwise(..) => {
            Err(Unknown("it runs a command in a way that is not plain"))
        }
    }
}

fn add(set: &[Word], words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Result<(), Unknown> {
    if depth >= COMMAND_DEPTH_MAX || parts.len() >= COMMAND_PARTS_MAX {
        return Err(Unknown("it has too many parts"));
    }
    match look_through(words)? {
        Inner::Itself => {}
        _ if !set.is_empty() => return Err(Unknown("it sets a variable")),
        Inner::Command(at) => return add(&[], &words[at..], depth + 1, parts),
        Inner::Text { text, dialect } => return add_text(&text, dialect, depth + 1, parts),
    }
    let program = words.first().map_or("", |name| split(&name.text).1);
    let end = match starters::starts(program, words) {
        Starts::Otherwise(at, _) => Some(at + 1),
        Starts::Somewhere(_) | Starts::Found(_) => None,
        Starts::Nothing
        | Starts::Unseen(_)
        | Starts::More(_)
        | Starts::Script(_)
        | Starts::Hint(..)
        | Starts::Plainly(_) => Some(usize::from(!set.is_empty())),
    };
    let spelled = |end: usize| Line::of(set, &words[..end]).text.len();
    parts.push(Part {
        line: Line::of(set, words).text,
        spelled: end.map_or(usize::MAX, spelled),
        glob: glob_at(set, words),
    });
    Ok(())
}

/// A name as its directory and the program in it.
fn split(name: &str) -> (&str, &str) {
    name.split_at(name.rfind('/').map_or(0, |slash| slash + 1))
}

/// The line of a command that a rule is compared with.
#[cfg(any(test, feature = "test-support"))]
pub(in super::super) fn line_of(set: &[Word], words: &[Word]) -> String {
    Line::of(set, words).text
}

/// Where in the line of these words the first glob stands.
fn glob_at(set: &[Word], words: &[Word]) -> Option<usize> {
    let first = words.iter().position(|word| word.glob.is_some())?;
    let before = Line::of(set, &words[..first]).text.len();
    Some(before + 1 + words[first].glob.unwrap_or_default())
}

/// Whether it is no builtin, or a builtin that runs nothing else.
fn is_known_builtin(name: &str, words: &[Word]) -> bool {
    if OTHER_BUILTINS.contains(&name) {
        return false;
    }
    if !PLAIN_BUILTINS.contains(&name) {
        return true;
    }
    let arguments = || words.iter().skip(1).map(|word| word.text.as_str());
    // Some evaluate an index once more.
    let may_run = |text: &str| text.contains("$(") || text.contains('`');
    let is_set = |text: &str| {
        let letters = text.strip_prefix('-').unwrap_or_default();
        text == "pipefail" || !letters.is_empty() && letters.chars().all(|c| "euxo".contains(c))
    };
    match name {
        "test" | "[" => arguments().all(|text| !matches!(text, "-v" | "-R") && !may_run(text)),
        "printf" => {
            let is_format = |text: &str| !text.starts_with("-v");
            words.get(1).is_none_or(|word| is_format(&word.text))
                && !arguments().any(|text| may_run(text) || hidden::counts_into_a_variable(text))
        }
        "set" => arguments().all(is_set),
        _ => true,
    }
}

/// Whether a shell is started in the plainest way: `-c`, and options that change no meaning.
fn is_plain_shell(program: &str, words: &[Word]) -> bool {
    let is_plain = |word: &Word| {
        let letters = word.text.strip_prefix('-').unwrap_or_default();
        word.glob.is_none() && !letters.is_empty() && letters.chars().all(|c| "ceux".contains(c))
    };
    let options = words.iter().skip(1).take_while(|word| is_plain(word));
    let options: Vec<_> = options.collect();
    let has_text = options.last().is_some_and(|word| word.text.contains('c'));
    let before = options.iter().rev().skip(1);
    let is_last = before.clone().all(|word| !word.text.contains('c'));
    let text = words.get(options.len() + 1);
    let is_text =
        text.is_some_and(|word| word.glob.is_none() && !word.text.starts_with(['-', '+']));
    KNOWN_SHELLS.contains(&program) && has_text && is_last && is_text
}

/// Whether the words before the command at `at` only say how long or how nicely it runs.
fn is_plain_start(program: &str, words: &[Word], at: usize) -> bool {
    let options = words.get(1..at).unwrap_or_default();
    let options: Vec<&str> = options.iter().map(|word| word.text.as_str()).collect();
    let is_number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.len() < 6 && digits.chars().all(|c| c.is_ascii_digit())
    };
    let is_time = |text: &str| is_number(text.trim_end_matches(['s', 'm', 'h', 'd']));
    let is_buffer = |text: &str| {
        let mode = text.strip_prefix("-i").or(text.strip_prefix("-o"));
        mode.is_some_and(|mode| matches!(mode, "0" | "L"))
    };
    match (program, options.as_slice()) {
        (_, []) | ("command" | "exec" | "nohup", ["--"]) => true,
        ("timeout", [time]) => is_time(time),
        ("timeout", ["-k", wait, time]) => is_time(wait) && is_time(time),
        ("timeout", ["--foreground" | "--preserve-status" | "-v", time]) => is_time(time),
        ("nice", ["-n", number]) => is_number(number),
        ("nice", [option]) => option.starts_with('-') && is_number(&option[1..]),
        ("stdbuf", options) => options.iter().all(|option| is_buffer(option)),
        _ => false,
    }
}
