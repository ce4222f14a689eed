//! Programs that start others, and where in their arguments the other one stands.

use super::super::shell::Word;

/// What a program starts.
#[derive(Debug)]
pub(super) enum Starts<'a> {
    /// Only itself, as far as its name tells.
    Nothing,
    /// Something that cannot be seen.
    Unseen(&'static str),
    /// Only itself, but what it does reaches beyond it.
    More(&'static str),
    /// This text as commands of a shell, and nothing else.
    Script(String),
    /// This text as commands, later or elsewhere.
    Hint(String, &'static str),
    /// The command that begins at this word, just as it is.
    Plainly(usize),
    /// The command that begins at this word, with more words or in other circumstances.
    Otherwise(usize, Option<Word>),
    /// One of these commands, or something of which it is not known where it begins.
    Somewhere(Vec<&'a [Word]>),
}

/// A program whose arguments are options, then a few operands, then a command.
struct Starter {
    name: &'static str,
    /// Options of one letter that take a value.
    values: &'static str,
    /// Options of one letter that take none.
    flags: &'static str,
    /// Long options that take no value. One with `=` in it brings its own.
    long: &'static [&'static str],
    operands: usize,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The command runs as if it stood alone.
    Plain,
    /// It runs in other circumstances.
    Other,
    /// Variables may be set before it.
    Setting,
    /// It is given more arguments.
    Adding,
}

const fn starter(name: &'static str, values: &'static str, flags: &'static str) -> Starter {
    Starter {
        name,
        values,
        flags,
        long: &[],
        operands: 0,
        form: Form::Other,
    }
}

const STARTERS: &[Starter] = &[
    Starter {
        form: Form::Plain,
        ..starter("nohup", "", "")
    },
    Starter {
        form: Form::Plain,
        ..starter("nice", "n", "0123456789")
    },
    Starter {
        form: Form::Plain,
        operands: 1,
        long: &["--foreground", "--preserve-status", "--verbose"],
        ..starter("timeout", "ks", "v")
    },
    Starter {
        form: Form::Plain,
        ..starter("command", "", "p")
    },
    Starter {
        form: Form::Plain,
        ..starter("builtin", "", "")
    },
    Starter {
        form: Form::Plain,
        ..starter("exec", "a", "cl")
    },
    Starter {
        form: Form::Plain,
        ..starter("stdbuf", "ioe", "")
    },
    Starter {
        form: Form::Setting,
        long: &["--ignore-environment"],
        ..starter("env", "uC", "i0v")
    },
    Starter {
        form: Form::Setting,
        ..starter("sudo", "ughpCrtTUDR", "nEHSkKbAP")
    },
    starter("doas", "uC", "nL"),
    Starter {
        form: Form::Adding,
        long: &["--null", "--no-run-if-empty", "--verbose"],
        ..starter("xargs", "nPILdasE", "0rtpx")
    },
    starter("busybox", "", ""),
    starter("toybox", "", ""),
    starter("setsid", "", "wfc"),
    starter("ionice", "cn", "t"),
    starter("time", "fo", "pvaq"),
];

/// Programs that start others in ways too many to tell where.
const SOMEHOW: &[&str] = &[
    "bwrap",
    "chroot",
    "chrt",
    "coproc",
    "dbus-run-session",
    "entr",
    "fakeroot",
    "fd",
    "fdfind",
    "firejail",
    "flock",
    "gdb",
    "hyperfine",
    "ltrace",
    "nsenter",
    "parallel",
    "perf",
    "proxychains",
    "runuser",
    "rlwrap",
    "script",
    "ssh",
    "strace",
    "su",
    "systemd-run",
    "taskset",
    "torsocks",
    "unbuffer",
    "unshare",
    "valgrind",
    "watch",
    "xvfb-run",
];

const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash", "fish",
];

/// Builtins that evaluate their arguments once more.
const EVALUATING: &[&str] = &[
    "let",
    "test",
    "[",
    "printf",
    "unset",
    "read",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "mapfile",
    "readarray",
    "wait",
    "getopts",
];

/// Actions of `find` that run something, and those that change something.
const FIND_RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];
const FIND_CHANGES: &[&str] = &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"];

/// Most words that are taken for the beginning of a command, where it is not known.
const GUESSES_MAX: usize = 64;

/// Most actions of one `find` that are looked into.
const FIND_RUNS_MAX: usize = 16;

/// What `program` starts, which was called with `words`, its own name first.
pub(super) fn starts<'a>(program: &str, words: &'a [Word]) -> Starts<'a> {
    let second = words.get(1).map_or("", |word| word.text.as_str());
    if let Some(starter) = STARTERS.iter().find(|starter| starter.name == program) {
        if program == "command" && matches!(second, "-v" | "-V") {
            return Starts::Nothing;
        }
        return starter.starts(words);
    }
    match program {
        _ if SHELLS.contains(&program) => shell(words),
        _ if SOMEHOW.contains(&program) => somewhere(words),
        _ if EVALUATING.contains(&program) => evaluating(program, words),
        "eval" => match known(&words[1..]) {
            Some(text) => Starts::Script(text),
            None => Starts::Unseen("it evaluates a text that is known only when it runs"),
        },
        "trap" | "alias" => match known(&words[1..]) {
            Some(_) if words.len() < 2 => Starts::Nothing,
            Some(text) => {
                let later = match program {
                    "alias" => text
                        .split_once('=')
                        .map_or("", |(_, value)| value)
                        .to_owned(),
                    _ => second.to_owned(),
                };
                Starts::Hint(later, "it says what runs later")
            }
            None => Starts::Unseen("it says what runs later, in a way that is not known yet"),
        },
        "source" | "." | "enable" | "hash" | "shopt" | "unalias" => {
            Starts::More("it changes what later commands mean")
        }
        "find" => find(words),
        _ => Starts::Nothing,
    }
}

impl Starter {
    fn starts<'a>(&self, words: &'a [Word]) -> Starts<'a> {
        if words.len() < 2 {
            return Starts::Nothing;
        }
        let Some(at) = self.command_at(words) else {
            return somewhere(words);
        };
        match (self.form, words.get(at)) {
            (_, None) => Starts::Nothing,
            (Form::Plain, Some(_)) => Starts::Plainly(at),
            (Form::Other | Form::Setting, Some(_)) => Starts::Otherwise(at, None),
            (Form::Adding, Some(_)) => Starts::Otherwise(at, Some(Word::unknown())),
        }
    }

    /// Where the command begins, if all that stands before it is understood.
    fn command_at(&self, words: &[Word]) -> Option<usize> {
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let text = word.text.as_str();
            if text == "--" {
                at += 1;
                break;
            }
            if !text.starts_with('-') {
                break;
            }
            if word.is_open {
                return None;
            }
            at += self.option(text)?;
        }
        while self.form == Form::Setting
            && words.get(at).is_some_and(|word| word.text.contains('='))
        {
            at += 1;
        }
        Some(at + self.operands)
    }

    /// How many words an option takes, if it is known.
    fn option(&self, text: &str) -> Option<usize> {
        if text.starts_with("--") {
            let is_known = self.long.contains(&text) || text.contains('=');
            return is_known.then_some(1);
        }
        for (at, letter) in text.char_indices().skip(1) {
            if self.values.contains(letter) {
                let brings_it = at + letter.len_utf8() < text.len();
                return Some(if brings_it { 1 } else { 2 });
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        // A lone `-` is an option of `env`.
        (text.len() > 1 || self.name == "env").then_some(1)
    }
}

/// The text of words that are all known.
fn known(words: &[Word]) -> Option<String> {
    let texts = words
        .iter()
        .map(|word| (!word.is_open).then_some(word.text.as_str()));
    texts
        .collect::<Option<Vec<_>>>()
        .map(|texts| texts.join(" "))
}

/// Any word may be the beginning of what it starts.
fn somewhere(words: &[Word]) -> Starts<'_> {
    if words.len() > GUESSES_MAX {
        return Starts::Unseen("it starts a command, and it is not known which");
    }
    let rest = words.iter().enumerate().skip(1);
    let names = rest.filter(|(_, word)| !word.is_open && !word.text.starts_with('-'));
    Starts::Somewhere(names.map(|(at, _)| &words[at..]).collect())
}

fn shell(words: &[Word]) -> Starts<'_> {
    let unseen = "a shell in it reads commands that are not seen";
    let (mut is_text, mut at) = (false, 1);
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        let is_option = text.len() > 1 && text.starts_with(['-', '+']);
        match text {
            _ if word.is_open => return Starts::Unseen(unseen),
            "--" | "-" => {
                at += 1;
                break;
            }
            _ if !is_option => break,
            "--posix" | "--norc" | "--noprofile" => {}
            _ if text[1..].chars().all(|letter| "ceuxvfC".contains(letter)) => {
                is_text |= text.starts_with('-') && text.contains('c');
            }
            "-o" | "+o" => at += 1,
            _ => return Starts::Unseen(unseen),
        }
        at += 1;
    }
    match words.get(at) {
        Some(word) if word.is_open => Starts::Unseen(unseen),
        Some(word) if is_text => Starts::Script(word.text.clone()),
        // A script in a file, like any other program.
        Some(_) => Starts::Nothing,
        None => Starts::Unseen(unseen),
    }
}

fn evaluating(program: &str, words: &[Word]) -> Starts<'static> {
    let runs = |word: &Word| word.text.contains("$(") || word.text.contains('`');
    let is_printing =
        program == "printf" && words.get(1).is_none_or(|word| !word.text.starts_with("-v"));
    match words {
        words if !is_printing && words.iter().any(runs) => {
            Starts::Unseen("a builtin in it evaluates a text once more")
        }
        _ if is_printing || matches!(program, "test" | "[" | "wait") => Starts::Nothing,
        _ => Starts::More("it sets a variable"),
    }
}

fn find(words: &[Word]) -> Starts<'_> {
    let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.text.as_str()));
    if !has(FIND_RUNS) && !has(FIND_CHANGES) {
        return Starts::Nothing;
    }
    let mut commands = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if commands.len() >= FIND_RUNS_MAX {
            return Starts::Unseen("it starts too many commands");
        }
        if FIND_RUNS.contains(&word.text.as_str()) {
            let rest = &words[at + 1..];
            let is_end = |word: &Word| matches!(word.text.as_str(), ";" | "+");
            let end = rest.iter().position(is_end).unwrap_or(rest.len());
            commands.push(&rest[..end]);
        }
    }
    Starts::Somewhere(commands)
}
