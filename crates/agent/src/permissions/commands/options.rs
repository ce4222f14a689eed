//! Options and subcommands by which programs run a command that they are told.
//!
//! A rule with a star does not cover them, and a rule that denies looks at what they are told.

use super::super::shell::Word;

/// Options that bring a command: long ones also in part, short ones with or without a value behind them.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "tar",
        &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
            "-I",
            "-F",
        ],
    ),
    ("bsdtar", &["--use-compress-program"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("man", &["--pager", "--html", "-P", "-H"]),
    ("rsync", &["--rsh", "--rsync-path", "-e"]),
    ("scp", &["-S", "-o", "-D"]),
    ("sshfs", &["-o"]),
    ("zip", &["--unzip-command", "-TT"]),
    ("cpio", &["--rsh-command"]),
    ("tcpdump", &["-z"]),
    ("wget", &["--use-askpass"]),
    ("go", &["-exec", "-toolexec", "-vettool"]),
    ("cargo", &["--config"]),
    ("apt", &["-o"]),
    ("apt-get", &["-o"]),
    ("gcc", &["-wrapper", "-B"]),
    ("g++", &["-wrapper", "-B"]),
    ("cc", &["-wrapper", "-B"]),
    ("c++", &["-wrapper", "-B"]),
    ("clang", &["-B"]),
    ("clang++", &["-B"]),
    ("fzf", &["--preview", "--bind", "--become"]),
    (
        "svn",
        &[
            "--diff-cmd",
            "--diff3-cmd",
            "--editor-cmd",
            "--config-option",
        ],
    ),
    ("hg", &["--config"]),
    ("install", &["--strip-program"]),
    ("bat", &["--pager"]),
    ("delta", &["--pager"]),
    ("nmap", &["--script"]),
    ("xz", &[]),
    (
        "git",
        &[
            "-c",
            "--config-env",
            "--exec-path",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "-x",
            "--extcmd",
            "--open-files-in-pager",
            "-O",
            "-u",
            "--config",
            "--template",
            "--tree-filter",
            "--index-filter",
            "--env-filter",
            "--msg-filter",
            "--commit-filter",
            "--ext-diff",
            "--sendmail-cmd",
            "--smtp-server",
            "--textconv",
        ],
    ),
];

/// Subcommands that run a command.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "bisect",
            "foreach",
            "filter-branch",
            "difftool",
            "mergetool",
            "config",
            "hook",
            "for-each-repo",
            "daemon",
            "shell",
        ],
    ),
    ("docker", &["exec", "run", "compose"]),
    ("podman", &["exec", "run"]),
    ("kubectl", &["exec", "run", "debug"]),
    ("npm", &["exec", "x"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("bun", &["x", "exec"]),
    ("uv", &["run", "tool"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("pdm", &["run"]),
    ("bundle", &["exec"]),
    ("conda", &["run"]),
    ("direnv", &["exec"]),
    ("mise", &["exec", "x"]),
    ("nix", &["run", "shell", "develop"]),
    ("nix-shell", &["--run", "--command"]),
    ("vagrant", &["ssh"]),
    ("ip", &["exec"]),
    ("lxc", &["exec", "shell"]),
    ("incus", &["exec", "shell"]),
    ("machinectl", &["shell"]),
    ("flatpak", &["run"]),
    ("op", &["run"]),
];

/// Programs whose options of one letter have their value right behind them, as in `-DNAME`: no
/// further letter of such a word is an option.
const COMPILERS: &[&str] = &["gcc", "g++", "cc", "c++", "clang", "clang++"];

/// Whether `words` give `program` a command to run.
pub(super) fn run_a_command(program: &str, words: &[Word]) -> bool {
    let arguments = words.get(1..).unwrap_or_default();
    let texts = || arguments.iter().map(|word| word.text.as_str());
    let of = |table: &'static [(&str, &'static [&str])]| {
        let entry = table.iter().find(|(name, _)| *name == program);
        entry.map_or(&[][..], |(_, options)| *options)
    };
    let (options, subcommands) = (of(OPTIONS), of(SUBCOMMANDS));
    let clusters = !COMPILERS.contains(&program);
    let has_option = |text: &str| {
        options
            .iter()
            .any(|option| is_option(text, option) || clusters && is_in_cluster(text, option))
    };
    // The first word of `tar` is a cluster without a dash, as in `tar cIf`.
    let old_style = texts()
        .next()
        .filter(|text| program == "tar" && !text.starts_with('-'));
    let is_old_style = old_style.is_some_and(|text| has_option(&format!("-{text}")));
    let is_transport = program == "git" && texts().any(|text| text.contains("ext::"));
    texts().any(has_option)
        || is_old_style
        || texts().any(|text| subcommands.contains(&text))
        || is_transport
}

/// Whether `text` is the option, perhaps shortened, or with its value.
fn is_option(text: &str, option: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default();
    match option.strip_prefix("--") {
        Some(_) => name.len() > 2 && option.starts_with(name),
        None if option.len() == 2 => text.starts_with(option),
        None => name == option || name == format!("-{option}"),
    }
}

/// Whether `text` may be several options of one letter with this one among them, as in `-nO`. The
/// letters before it may take a value that begins here; that errs on the side of asking.
fn is_in_cluster(text: &str, option: &str) -> bool {
    let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let (Some(letters), Some(letter)) = (letters, option.strip_prefix('-')) else {
        return false;
    };
    let end = letters.find(|c: char| !c.is_ascii_alphanumeric());
    letter.len() == 1 && letters[..end.unwrap_or(letters.len())].contains(letter)
}
