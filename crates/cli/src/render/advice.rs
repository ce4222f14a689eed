//! Commands that we advise: `fastness …` in backticks gets the options that this program was started with, so
//! that it means the same data directory when it is copied.

use std::path::Path;
use std::sync::OnceLock;

use crate::args::{Cli, Command};

/// The options that a copied command needs, ready to be inserted.
static OPTIONS: OnceLock<Options> = OnceLock::new();

/// Commands that take `--server`; of `sessions`, only `tail` does.
const TAKE_SERVER: &[&str] = &["acp", "ask", "chat", "init"];

/// What was named on the command line and is not known to a new process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Options {
    /// For every command.
    common: String,
    /// For those that can go through a server.
    server: String,
}

/// Remembers what this program was started with.
pub(crate) fn remember(cli: &Cli) {
    let common = cli.command.common();
    let paths = [
        ("--data-dir", common.data_dir.as_deref()),
        ("--cwd", common.cwd.as_deref()),
    ];
    let named = paths.into_iter().filter_map(|(flag, path)| {
        let path = path.map(Path::to_string_lossy)?;
        Some(format!(" {flag} {}", quoted(&path)))
    });
    let server = cli.command.server();
    let server = server.and_then(|server| server.server.as_deref());
    let options = Options {
        common: named.collect(),
        server: server.map_or_else(String::new, |url| format!(" --server {}", quoted(url))),
    };
    // `init` writes its options into an editor's file, where they are complete already.
    if !matches!(cli.command, Command::Init(_)) {
        let _ = OPTIONS.set(options);
    }
}

/// Inserts those options into each command of ours that `text` advises.
pub(crate) fn advise(text: &str) -> String {
    match OPTIONS.get() {
        Some(options) if *options != Options::default() => with_options(text, options),
        Some(_) | None => text.to_owned(),
    }
}

fn with_options(text: &str, options: &Options) -> String {
    let mut parts = text.split('`');
    let mut advised = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        advised.push('`');
        match name_of(part) {
            Some(name) => {
                // What comes after `--` is another program's.
                let (ours, theirs) = part.split_at(part.find(" -- ").unwrap_or(part.len()));
                advised += ours;
                advised += &options.common;
                if TAKE_SERVER.contains(&name) && !part.contains("--server") {
                    advised += &options.server;
                }
                advised += theirs;
            }
            None => advised += part,
        }
    }
    advised
}

/// The name of a command of ours. None if it is no such command, or names its own data directory.
fn name_of(part: &str) -> Option<&str> {
    let rest = part.strip_prefix("fastness ")?;
    let name = rest.split(' ').next()?;
    let is_name = !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_lowercase());
    (is_name && !part.contains("--data-dir")).then_some(name)
}

/// A command of ours with those options, to be copied.
pub(crate) fn command(words: &str) -> String {
    advise(&format!("`{words}`")).trim_matches('`').to_owned()
}

/// A word as a shell reads it as one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, quoted, with_options};

    #[test]
    fn advised_commands_carry_the_options_of_this_process() {
        let options = Options {
            common: " --data-dir /d".to_owned(),
            server: " --server local".to_owned(),
        };
        for (text, expected) in [
            (
                "`fastness serve` starts one",
                "`fastness serve --data-dir /d` starts one",
            ),
            (
                "try `fastness mcp login x`",
                "try `fastness mcp login x --data-dir /d`",
            ),
            (
                "`fastness mcp add x -- y`",
                "`fastness mcp add x --data-dir /d -- y`",
            ),
            (
                "`fastness chat -c`",
                "`fastness chat -c --data-dir /d --server local`",
            ),
            (
                "`fastness` and `x fastness serve`",
                "`fastness` and `x fastness serve`",
            ),
            ("`network = true`", "`network = true`"),
            (
                "`fastness serve --data-dir /e`",
                "`fastness serve --data-dir /e`",
            ),
        ] {
            assert_eq!(with_options(text, &options), expected);
        }
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!(quoted("/a/b-1"), "/a/b-1");
    }
}
