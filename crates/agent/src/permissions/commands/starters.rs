//! Programs that start others, and where in their arguments the other one stands.

use super::super::shell::Word;
use super::{hidden, options};

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
    /// All of these commands, with names of files in them.
    Found(Vec<&'a [Word]>),
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
    "aa-exec",
    "abduco",
    "alacritty",
    "ansible",
    "arch",
    "asciinema",
    "autossh",
    "bear",
    "bunx",
    "bwrap",
    "caffeinate",
    "capsh",
    "catchsegv",
    "ccache",
    "cgexec",
    "choom",
    "chpst",
    "chronic",
    "chroot",
    "chrt",
    "concurrently",
    "coproc",
    "cpulimit",
    "cross-env",
    "daemonize",
    "dbus-launch",
    "dbus-run-session",
    "debconf",
    "distcc",
    "distrobox-enter",
    "dotenv",
    "dtach",
    "dumb-init",
    "eatmydata",
    "emacsclient",
    "entr",
    "env-cmd",
    "envdir",
    "fakechroot",
    "fakeroot",
    "faketime",
    "fd",
    "fdfind",
    "firejail",
    "flatpak-spawn",
    "flock",
    "foot",
    "foreman",
    "gdb",
    "gnome-terminal",
    "gosu",
    "heaptrack",
    "honcho",
    "hyperfine",
    "i386",
    "i486",
    "i586",
    "i686",
    "ifne",
    "kitty",
    "konsole",
    "lckdo",
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "ld.so",
    "linux32",
    "linux64",
    "logsave",
    "ltrace",
    "lxc-attach",
    "minijail0",
    "mispipe",
    "mosh",
    "mpiexec",
    "mpirun",
    "newgrp",
    "nodemon",
    "npx",
    "nq",
    "nsenter",
    "numactl",
    "pee",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "qemu-x86_64",
    "rlwrap",
    "rpm",
    "rr",
    "rsh",
    "run-parts",
    "run0",
    "runcon",
    "runuser",
    "s6-setuidgid",
    "sccache",
    "schroot",
    "script",
    "scriptreplay",
    "sem",
    "setarch",
    "setlock",
    "setpriv",
    "setuidgid",
    "sg",
    "softlimit",
    "srun",
    "ssh",
    "ssh-agent",
    "sshpass",
    "start-stop-daemon",
    "strace",
    "su",
    "su-exec",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-nspawn",
    "systemd-run",
    "taskset",
    "tini",
    "torify",
    "torsocks",
    "trickle",
    "tsocks",
    "tsp",
    "ttyrec",
    "uname26",
    "unbuffer",
    "unshare",
    "urxvt",
    "uvx",
    "valgrind",
    "watch",
    "watchexec",
    "wine",
    "winpty",
    "x86_64",
    "xterm",
    "xvfb-run",
];

/// Shells that read what this reader reads.
const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "ash", "ksh", "lksh", "mksh", "oksh", "posh", "rbash", "yash",
];

/// Shells with a language of their own: `=rm` is a program to `zsh`, and `and rm` to `fish`.
const OTHER_SHELLS: &[&str] = &[
    "csh", "elvish", "fish", "nu", "osh", "rc", "tcsh", "xonsh", "ysh", "zsh",
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
        _ if OTHER_SHELLS.contains(&program) => {
            let started = shell(words);
            if matches!(started, Starts::Script(_)) {
                return Starts::Unseen("it runs commands of another shell");
            }
            started
        }
        _ if SOMEHOW.contains(&program) => somewhere(words),
        "eval" => match known(after_options(words)) {
            Some(text) => Starts::Script(text),
            None => Starts::Unseen("it evaluates a text that is known only when it runs"),
        },
        "trap" => match after_options(words) {
            [] => Starts::Nothing,
            [text, ..] if !text.is_open && matches!(text.text.as_str(), "" | "-") => {
                Starts::Nothing
            }
            [text, ..] if text.is_open => {
                Starts::Unseen("it says what runs later, in a way that is not known yet")
            }
            [text, ..] => Starts::Hint(text.text.clone(), "it says what runs later"),
        },
        "source" | "." | "enable" | "hash" | "shopt" | "unalias" | "alias" => {
            Starts::More("it changes what later commands mean")
        }
        _ if options::run_a_command(program, words) => somewhere(words),
        "find" => find(words),
        _ => Starts::Nothing,
    }
}

/// The words after a builtin's name and its options.
fn after_options(words: &[Word]) -> &[Word] {
    let rest = words.get(1..).unwrap_or_default();
    let is_option =
        |word: &Word| !word.is_open && word.text.len() > 1 && word.text.starts_with('-');
    let end = rest
        .iter()
        .position(|word| !is_option(word) || word.text == "--");
    let end = end.unwrap_or(rest.len());
    let skip = usize::from(rest.get(end).is_some_and(|word| word.text == "--"));
    &rest[end + skip..]
}

impl Starter {
    fn starts<'a>(&self, words: &'a [Word]) -> Starts<'a> {
        if words.len() < 2 {
            return Starts::Nothing;
        }
        let Some(at) = self.command_at(words) else {
            return somewhere(words);
        };
        let before = words.get(1..at).unwrap_or(words);
        if before.iter().any(|word| word.may_split || word.is_pattern) {
            return Starts::Unseen("it is not known where the command begins that it starts");
        }
        match (self.form, words.get(at)) {
            // It may start a shell.
            (_, None) if matches!(self.name, "sudo" | "doas") => {
                Starts::Unseen("it starts a command, and it is not known which")
            }
            (_, None) => Starts::Nothing,
            (Form::Plain, Some(_)) => Starts::Plainly(at),
            (Form::Other | Form::Setting, Some(_)) => Starts::Otherwise(at, None),
            (Form::Adding, Some(_)) if words[1..at].iter().any(|word| replaces(&word.text)) => {
                Starts::Unseen("it puts what it reads into a command")
            }
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
            let is_splitting = self.name == "env" && text.starts_with("--s");
            let is_known = self.long.contains(&text) || text.contains('=');
            return (is_known && !is_splitting).then_some(1);
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

/// Whether an option of `xargs` puts what it reads into the middle of the command.
fn replaces(option: &str) -> bool {
    let is_short = !option.starts_with("--") && option.starts_with('-');
    is_short && option.contains(['I', 'i']) || option.starts_with("--rep")
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
    let rest = words.iter().enumerate().skip(1);
    let names = rest.filter(|(_, word)| !word.text.starts_with('-'));
    let commands: Vec<_> = names.map(|(at, _)| &words[at..]).collect();
    let is_known = words.iter().all(|word| !word.is_open && !word.is_pattern);
    // Without a command, the other side reads its input.
    let is_remote = words
        .first()
        .is_some_and(|name| name.text.ends_with("ssh") || name.text.ends_with("rsh"));
    let is_known = is_known && !(is_remote && commands.len() < 2);
    match is_known && words.len() <= GUESSES_MAX && !commands.is_empty() {
        true => Starts::Somewhere(commands),
        false => Starts::Unseen("it starts a command, and it is not known which"),
    }
}

fn shell(words: &[Word]) -> Starts<'_> {
    let unseen = Starts::Unseen("a shell in it reads commands that are not seen");
    let (mut is_text, mut at) = (false, 1);
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if word.is_open || word.is_pattern {
            return unseen;
        }
        at += 1;
        match text {
            "--" | "-" => break,
            "--posix" | "--norc" | "--noprofile" | "--login" => {}
            _ if text.len() < 2 || !text.starts_with(['-', '+']) => {
                at -= 1;
                break;
            }
            _ if text.starts_with("--") => return unseen,
            _ => {
                for letter in text.chars().skip(1) {
                    match letter {
                        // `+c` means the same.
                        'c' => is_text = true,
                        'e' | 'u' | 'x' | 'v' | 'f' | 'C' | 'l' => {}
                        'o' | 'O' if words.get(at).is_some_and(|word| !word.is_open) => at += 1,
                        _ => return unseen,
                    }
                }
            }
        }
    }
    match words.get(at) {
        Some(word) if word.is_open || word.is_pattern => unseen,
        Some(word) if is_text => Starts::Script(word.text.clone()),
        Some(word) if hidden::is_stream(&word.text) => unseen,
        // A script in a file, like any other program.
        Some(_) => Starts::Nothing,
        None => unseen,
    }
}

fn find(words: &[Word]) -> Starts<'_> {
    let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.text.as_str()));
    if words.iter().any(|word| word.may_split) {
        return Starts::Unseen("it may start a command, and it is not known which");
    }
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
            // Names of files are put into any word.
            let has_name = |word: &Word| word.text.contains("{}") && word.text != "{}";
            if rest[..end].iter().any(has_name)
                || rest.first().is_some_and(|word| word.text == "{}")
            {
                return Starts::Unseen("it puts names of files into a command");
            }
            commands.push(&rest[..end]);
        }
    }
    Starts::Found(commands)
}
