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

/// Whether `words` give `program` a command to run.
pub(super) fn run_a_command(program: &str, words: &[Word]) -> bool {
    let arguments = words.get(1..).unwrap_or_default();
    let texts = || arguments.iter().map(|word| word.text.as_str());
    let of = |table: &'static [(&str, &'static [&str])]| {
        let entry = table.iter().find(|(name, _)| *name == program);
        entry.map_or(&[][..], |(_, options)| *options)
    };
    let (options, subcommands) = (of(OPTIONS), of(SUBCOMMANDS));
    let has_option = |text: &str| options.iter().any(|option| is_option(text, option));
    let is_transport = program == "git" && texts().any(|text| text.contains("ext::"));
    texts().any(has_option) || texts().any(|text| subcommands.contains(&text)) || is_transport
}

/// Whether `text` is the option, perhaps shortened, or with its value.
fn is_option(text: &str, option: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default();
    match option.strip_prefix("--") {
        Some(_) => name.len() > 2 && option.starts_with(name),
        None if option.len() == 2 => {
            let is_cluster = text.starts_with('-') && !text.starts_with("--");
            is_cluster
                && (text.starts_with(option) || text.len() < 5 && text.ends_with(&option[1..]))
        }
        None => name == option || name == format!("-{option}"),
    }
}
