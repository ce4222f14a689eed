//! What rules that deny or ask cannot see into: programs that are given code, variables and builtins that
//! change what commands mean.
//!
//! [`look`] errs on the side of the rule. Code in another language may run anything; a text that a program or a
//! variable carries is read like any command.

mod sed;

use super::super::shell::Word;

/// What a command may run beside itself.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Why it may be anything.
    pub(super) why: Option<&'static str>,
    /// Texts that may be run.
    pub(super) texts: Vec<String>,
}

impl Hidden {
    fn hide(&mut self, why: &'static str) {
        self.why.get_or_insert(why);
    }

    fn hide_if(&mut self, is_hidden: bool, why: &'static str) {
        if is_hidden {
            self.hide(why);
        }
    }
}

/// Programs that run code in a language of their own: options of one letter that bring it, and those that take
/// another value.
const INTERPRETERS: &[(&str, &str, &str)] = &[
    ("python", "c", "WXQ"),
    ("pypy", "c", "WXQ"),
    ("perl", "eE", "IMm"),
    ("ruby", "e", "IrCEW"),
    ("node", "ep", "rC"),
    ("bun", "ep", "r"),
    ("deno", "", ""),
    ("php", "rBRE", "dcz"),
    ("lua", "e", "l"),
    ("luajit", "e", "l"),
    ("Rscript", "e", ""),
    ("julia", "eE", "LJ"),
    ("guile", "ce", "Ll"),
    ("racket", "e", "lt"),
    ("tclsh", "", ""),
    ("wish", "", ""),
    ("expect", "c", ""),
    ("groovy", "e", "cp"),
    ("scala", "e", ""),
    ("elixir", "e", "r"),
    ("pwsh", "cC", ""),
    ("osascript", "e", "l"),
    ("ghc", "e", ""),
    ("swift", "e", ""),
    ("octave", "", ""),
    ("R", "e", ""),
    ("gnuplot", "e", ""),
    ("clojure", "e", ""),
    ("jrunscript", "e", "f"),
];

/// Programs that do what they read, and can run anything.
const READERS: &[&str] = &[
    "at", "batch", "bc", "cron", "crontab", "dc", "ed", "emacs", "erl", "ex", "ftp", "gdb", "irb",
    "lftp", "lldb", "m4", "mysql", "nc", "ncat", "nvim", "parallel", "psql", "rvim", "sbcl",
    "screen", "sftp", "socat", "sqlite3", "telnet", "tmux", "vi", "view", "vim", "vimdiff",
];

/// Builtins that change what commands mean, or run what they are told in a way of their own.
const CHANGING: &[&str] = &[
    "alias", "bind", "compgen", "complete", "compopt", "enable", "fc", "history", "let",
];

/// Modules of Python that run code from their arguments or their input.
const CODE_MODULES: &[&str] = &["asyncio", "code", "pdb", "timeit"];

/// Variables that name programs or change how they are found and read.
const VARIABLES: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "COMPILER_PATH",
    "EDITOR",
    "ENV",
    "EXINIT",
    "FCEDIT",
    "GCC_EXEC_PREFIX",
    "GLOBIGNORE",
    "GNUMAKEFLAGS",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "LESS",
    "LESSCLOSE",
    "LESSOPEN",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANPAGER",
    "MFLAGS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PAGER",
    "PATH",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "RSYNC_RSH",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "SHELL",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "TAR_OPTIONS",
    "VIMINIT",
    "VISUAL",
    "_JAVA_OPTIONS",
];

/// How such variables may also begin.
const VARIABLE_STARTS: &[&str] = &[
    "BASH_FUNC_",
    "CARGO_",
    "DYLD_",
    "GIT_",
    "LD_",
    "PERL5",
    "PYTHON",
    "npm_config_",
    "NPM_CONFIG_",
];

/// Those of them that are harmless.
const HARMLESS_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TARGET_DIR",
    "CARGO_TERM_COLOR",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_TERMINAL_PROMPT",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
];

/// Places in a variable's value where a command may begin; more are not looked at.
const VALUE_WORDS_MAX: usize = 32;

const CODE: &str = "it runs code that is not a shell command";
const LATER: &str = "a builtin in it changes what commands mean";
const AGAIN: &str = "a builtin in it evaluates a text once more";
const VARIABLE: &str = "it sets a variable that changes what runs";

/// What the command `words` may run beside itself; `set` are the variables that are set for it.
pub(super) fn look(set: &[Word], program: &str, words: &[Word]) -> Hidden {
    let mut hidden = Hidden::default();
    for word in set {
        variable(word, &mut hidden);
    }
    let Some((name, arguments)) = words.split_first() else {
        return hidden;
    };
    hidden.hide_if(is_stream(&name.text), "a program in it has no fixed name");
    if let Some((_, code, values)) = INTERPRETERS
        .iter()
        .find(|(name, ..)| is_version_of(program, name))
    {
        hidden.hide_if(runs_code(arguments, code, values), CODE);
    }
    hidden.hide_if(READERS.contains(&program), CODE);
    match program {
        _ if CHANGING.contains(&program) => hidden.hide_if(!arguments.is_empty(), LATER),
        "awk" | "gawk" | "mawk" | "nawk" => hidden.hide_if(!is_harmless_awk(arguments), CODE),
        "sed" | "gsed" => hidden.hide_if(!sed::is_harmless(arguments), CODE),
        "git" => {
            let moves = |word: &Word| word.text.starts_with("--exec-path=");
            hidden.hide_if(arguments.iter().any(moves), CODE);
        }
        "make" | "gmake" => make(arguments, &mut hidden),
        "env" | "sudo" | "doas" => {
            let sets = arguments
                .iter()
                .filter(|word| word.text.contains('=') && !word.text.starts_with('-'));
            sets.for_each(|word| variable(word, &mut hidden));
        }
        "export" | "declare" | "typeset" | "local" | "readonly" => {
            declaration(arguments, &mut hidden)
        }
        "less" | "more" | "most" => hidden.hide_if(
            arguments.iter().any(|word| word.text.starts_with('+')),
            CODE,
        ),
        _ => builtin(program, arguments, &mut hidden),
    }
    hidden
}

/// Builtins that evaluate an index in a name, or call back.
fn builtin(program: &str, arguments: &[Word], hidden: &mut Hidden) {
    let texts = || arguments.iter().map(|word| word.text.as_str());
    let is_odd = |word: &Word| word.is_open || word.text.contains(['[', '$', '`']);
    match program {
        "read" | "unset" | "getopts" | "wait" => {
            hidden.hide_if(arguments.iter().any(is_odd), AGAIN);
            hidden.hide_if(texts().any(is_changing), VARIABLE);
        }
        "mapfile" | "readarray" => {
            let calls_back = texts().any(|text| text.starts_with('-') && text.contains('C'));
            hidden.hide_if(calls_back || arguments.iter().any(is_odd), AGAIN);
            hidden.hide_if(texts().any(is_changing), VARIABLE);
        }
        "printf" => {
            // A format that is not known may count into a variable, too.
            let is_open_format = arguments.len() > 1 && arguments[0].is_open;
            let counts = is_open_format || texts().any(counts_into_a_variable);
            let names = texts().take(2).map(|text| text.trim_start_matches("-v"));
            let sets = texts().next().is_some_and(|text| text.starts_with("-v"));
            let is_listed = texts().any(is_changing);
            let is_set = sets && names.clone().any(is_changing);
            hidden.hide_if(is_set || counts && (is_listed || is_open_format), VARIABLE);
            let is_setting = arguments.first().is_some_and(|word| {
                word.text.starts_with("-v") || word.is_open && word.text.is_empty()
            });
            let name = texts().take(2).collect::<String>();
            let is_name = |c: char| c == '-' || c == '_' || c.is_ascii_alphanumeric();
            let is_plain =
                name.chars().all(is_name) && !arguments.iter().take(2).any(|word| word.is_open);
            hidden.hide_if(is_setting && !is_plain, AGAIN);
        }
        "test" | "[" => hidden.hide_if(!is_harmless_test(arguments), AGAIN),
        "jobs" => hidden.hide_if(texts().any(|text| text.starts_with("-x")), AGAIN),
        "hash" => hidden.hide_if(texts().any(|text| text != "-r"), LATER),
        "shopt" => {
            let harmless = [
                "-s",
                "-u",
                "-q",
                "-p",
                "nullglob",
                "globstar",
                "failglob",
                "dotglob",
                "inherit_errexit",
                "nocaseglob",
            ];
            hidden.hide_if(texts().any(|text| !harmless.contains(&text)), LATER);
        }
        "set" => {
            let is_harmless =
                |text: &str| !text.starts_with(['-', '+']) || !text.contains(['k', 'a', 'H']);
            hidden.hide_if(!texts().all(is_harmless), LATER);
        }
        "source" | "." => {
            let file = arguments.iter().find(|word| word.text != "--");
            hidden.hide_if(
                file.is_none_or(|file| file.is_open || is_stream(&file.text)),
                AGAIN,
            );
        }
        _ => {}
    }
}

/// Whether a format of `printf` has `%n`, which sets the variable that is named for it.
pub(super) fn counts_into_a_variable(format: &str) -> bool {
    let is_between = |c: char| c.is_ascii_digit() || "-+ #'.*hjlqtzL".contains(c);
    let directives = format.replace("%%", "");
    let mut directives = directives.split('%').skip(1);
    directives.any(|directive| {
        let conversion = directive.trim_start_matches(is_between);
        conversion.starts_with(['n', '\\'])
    })
}

/// Whether `[ … ]` cannot evaluate a name: it has none, or only plain ones.
fn is_harmless_test(arguments: &[Word]) -> bool {
    let arguments = match arguments.split_last() {
        Some((last, rest)) if last.text == "]" => rest,
        _ => arguments,
    };
    let is_name = |word: &Word| !word.is_open && !word.text.contains(['[', '$', '`']);
    let asks = |word: &Word| matches!(word.text.as_str(), "-v" | "-R");
    let names = arguments
        .windows(2)
        .all(|pair| !asks(&pair[0]) || is_name(&pair[1]));
    // A word that may become several, or an operator, where one may stand.
    let open = arguments.iter().filter(|word| word.is_open);
    let is_split = open.clone().any(|word| word.may_split);
    let is_operator = match arguments {
        [first, _] | [first, _, _] if arguments.len() == 2 || first.text == "!" => {
            first.is_open && first.text.is_empty()
        }
        _ => false,
    };
    names
        && !is_operator
        && (!is_split
            || arguments.len() <= 4 && arguments.first().is_some_and(|word| !word.is_open))
}

/// A variable that is set, as `NAME=value`.
fn variable(word: &Word, hidden: &mut Hidden) {
    let Some((name, value)) = word.text.split_once('=') else {
        return hidden.hide_if(word.is_open || word.text.contains('['), VARIABLE);
    };
    let name = name.trim_end_matches('+');
    hidden.hide_if(is_changing(name) || name.contains('['), VARIABLE);
    hidden.hide_if(value.contains("$(") || value.contains('`'), VARIABLE);
    hidden.texts.push(value.to_owned());
    // Programs also take options from variables, and some options name a command.
    let starts = value.match_indices([' ', '=', '!']).map(|(at, _)| at + 1);
    let rests = starts
        .take(VALUE_WORDS_MAX)
        .map(|at| value[at..].to_owned());
    hidden.texts.extend(rests);
}

/// Whether a variable of this name changes what runs.
pub(super) fn is_changing(name: &str) -> bool {
    let is_listed =
        VARIABLES.contains(&name) || VARIABLE_STARTS.iter().any(|start| name.starts_with(start));
    is_listed && !HARMLESS_VARIABLES.contains(&name)
}

fn declaration(arguments: &[Word], hidden: &mut Hidden) {
    for word in arguments {
        match word.text.strip_prefix('-') {
            Some(letters) => hidden.hide_if(letters.contains(['i', 'n']) || word.is_open, AGAIN),
            None => variable(word, hidden),
        }
    }
}

/// Whether one of the letters is `m`, and none before it brings code.
fn is_module(letters: &str, code: &str) -> bool {
    let before = letters.split_once('m').map(|(before, _)| before);
    before.is_some_and(|before| {
        before
            .chars()
            .all(|c| c.is_ascii_alphabetic() && !code.contains(c))
    })
}

/// Whether an interpreter is given code, or reads it from somewhere that is not a file.
fn runs_code(arguments: &[Word], code: &str, values: &str) -> bool {
    let mut is_asking = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        let letters = text.strip_prefix('-').unwrap_or_default();
        if word.is_open && text.is_empty() {
            return true;
        }
        match text {
            "--version" | "-V" | "-v" | "--help" | "-h" => is_asking = true,
            // An address that is code itself, and an option that ends early and goes on as code.
            _ if text.contains("data:") => return true,
            _ if text.starts_with('-') && text.contains([';', '(']) => return true,
            // The subcommand of `deno`; what it runs comes next.
            "run" => {}
            "--" => {}
            _ if !text.starts_with('-') => {
                return is_stream(text) || text == "eval" || text == "repl";
            }
            // `-m MODULE`, also behind other letters and without a space.
            _ if !letters.starts_with('-') && is_module(letters, code) => {
                let behind = letters.split_once('m').map_or("", |(_, behind)| behind);
                let is_code = |module: &str| CODE_MODULES.contains(&module);
                return match behind {
                    "" => words
                        .next()
                        .is_none_or(|module| module.is_open || is_code(&module.text)),
                    module => is_code(module),
                };
            }
            _ if letters.is_empty()
                || letters.chars().any(|c| code.contains(c)) && !letters.starts_with('-') =>
            {
                return true;
            }
            _ if letters.starts_with('-') => {
                // A long option may bring code, or take the next word.
                let brings = [
                    "--eval",
                    "--print",
                    "--run",
                    "--exec",
                    "--command",
                    "--code",
                ];
                if brings.iter().any(|option| text.starts_with(option)) {
                    return true;
                }
            }
            _ if letters.len() == 1 && letters.chars().all(|c| values.contains(c)) => {
                words.next();
            }
            _ => {}
        }
    }
    !is_asking
}

/// Whether an `awk` program starts nothing.
fn is_harmless_awk(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        match text {
            "-F" | "-v" => {
                words.next();
            }
            "-f" => {
                return words
                    .next()
                    .is_some_and(|file| !file.is_open && !is_stream(&file.text));
            }
            "--" => {}
            "--version" | "-V" => return true,
            _ if text.starts_with("-F") || text.starts_with("-v") => {}
            _ if word.is_open || text.starts_with('-') => return false,
            _ => {
                return !["system", "|", "getline", "@", "print >"]
                    .iter()
                    .any(|call| text.contains(call));
            }
        }
    }
    false
}

fn make(arguments: &[Word], hidden: &mut Hidden) {
    for word in arguments {
        let text = word.text.as_str();
        hidden.hide_if(
            text.starts_with("--ev") || text.contains("$(") || text.contains("!="),
            CODE,
        );
        hidden.hide_if(
            text.starts_with('-') && !text.starts_with("--") && text.contains('E'),
            CODE,
        );
        hidden.hide_if(
            text.starts_with(".SHELLFLAGS") || is_stream(text.trim_start_matches("-f")),
            CODE,
        );
        if text.contains('=') && !text.starts_with('-') {
            variable(word, hidden);
        }
    }
    let has_input = arguments
        .windows(2)
        .any(|pair| pair[0].text == "-f" && (pair[1].text == "-" || pair[1].is_open));
    hidden.hide_if(
        has_input || arguments.iter().any(|word| word.text == "-f-"),
        CODE,
    );
}

/// Whether `path` is not a file but what a process has open.
pub(super) fn is_stream(path: &str) -> bool {
    let plain = path.replace("//", "/").replace("/./", "/");
    path == "-"
        || plain.starts_with("/dev/")
        || plain.starts_with("/proc/")
        || plain.contains("../dev/")
        || plain.contains("../proc/")
}

/// Whether a program is one of these, perhaps with a version behind its name.
fn is_version_of(program: &str, name: &str) -> bool {
    let version = program.strip_prefix(name);
    version.is_some_and(|version| {
        version
            .chars()
            .all(|c| c.is_ascii_digit() || c == '.' || c == '-')
    })
}
