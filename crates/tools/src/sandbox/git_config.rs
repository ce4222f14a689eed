//! Reads git's settings, strictly: whether a file names anything that git would run must be certain.

use std::io::Read as _;
use std::path::Path;

use domain::limits::SETTINGS_FILE_BYTES_MAX;

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Section, subsection and name, joined by dots. In lower case but for the subsection.
    pub(super) key: String,
    /// Its value; empty if it has none.
    pub(super) value: String,
}

/// Settings of a repository that git itself writes when it makes or clones one, and plain ones that
/// people set: they run nothing, and lead nowhere. `*` stands for a subsection.
const HARMLESS: &[&str] = &[
    "advice.*",
    "author.email",
    "author.name",
    "branch.*.merge",
    "branch.*.rebase",
    "branch.*.remote",
    "color.ui",
    "commit.gpgsign",
    "committer.email",
    "committer.name",
    "core.abbrev",
    "core.autocrlf",
    "core.bare",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.longpaths",
    "core.precomposeunicode",
    "core.quotepath",
    "core.repositoryformatversion",
    "core.safecrlf",
    "core.sharedrepository",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "core.worktree",
    "extensions.compatobjectformat",
    "extensions.objectformat",
    "extensions.partialclone",
    "extensions.preciousobjects",
    "extensions.refstorage",
    "extensions.relativeworktrees",
    "extensions.worktreeconfig",
    "fetch.prune",
    "gc.auto",
    "init.defaultbranch",
    "maintenance.auto",
    "merge.conflictstyle",
    "pull.ff",
    "pull.rebase",
    "push.default",
    "remote.*.fetch",
    "remote.*.mirror",
    "remote.*.partialclonefilter",
    "remote.*.promisor",
    "remote.*.prune",
    "remote.*.tagopt",
    "remote.*.url",
    "submodule.*.active",
    "submodule.*.branch",
    "submodule.*.ignore",
    "submodule.*.update",
    "submodule.*.url",
    "submodule.active",
    "tag.gpgsign",
    "user.email",
    "user.name",
];

impl Setting {
    /// Whether git runs nothing because of it, in a repository that is new.
    pub(super) fn is_harmless(&self) -> bool {
        let is_known = HARMLESS.iter().any(|known| is_key(&self.key, known));
        // `ext::COMMAND` is an address, and `!COMMAND` a way to update.
        let is_plain = !self.value.starts_with(['!', '-']) && !self.value.contains("::");
        is_known && is_plain
    }

    /// Whether it is about submodules: what git adds to a repository that gets one.
    pub(super) fn is_of_submodule(&self) -> bool {
        self.key.starts_with("submodule.") && self.is_harmless()
    }
}

/// Whether `key` is `known`, whose star stands for any subsection.
fn is_key(key: &str, known: &str) -> bool {
    match known.split_once('*') {
        Some((start, end)) => {
            let rest = key
                .strip_prefix(start)
                .and_then(|rest| rest.strip_suffix(end));
            rest.is_some_and(|middle| !middle.is_empty())
        }
        None => key == known,
    }
}

/// The settings in the file `path`; none if it cannot be read to its end.
pub(super) fn read(path: &Path) -> Option<Vec<Setting>> {
    let most = SETTINGS_FILE_BYTES_MAX as u64;
    let mut text = Vec::new();
    // A pipe would keep us waiting.
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let file = std::fs::File::open(path).ok()?;
    file.take(most + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= most).then_some(())?;
    // Git does not care whether it is Unicode.
    parse(&String::from_utf8_lossy(&text))
}

/// The settings in `text`; none if git would not read it like this.
pub(super) fn parse(text: &str) -> Option<Vec<Setting>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n");
    let mut rest = text.as_str();
    let mut section = String::new();
    let mut settings = Vec::new();
    loop {
        rest = rest.trim_start();
        match rest.chars().next() {
            None => return Some(settings),
            Some('#' | ';') => rest = rest.split_once('\n').map_or("", |(_, rest)| rest),
            Some('[') => (section, rest) = header(&rest[1..])?,
            Some(c) if c.is_ascii_alphabetic() && !section.is_empty() => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
                let after = after.trim_start_matches([' ', '\t']);
                let (value, left) = match after.strip_prefix('=') {
                    Some(after) => value(after)?,
                    None => (String::new(), nothing(after)?),
                };
                rest = left;
                settings.push(Setting {
                    key: format!("{section}.{}", name.to_ascii_lowercase()),
                    value,
                });
            }
            Some(_) => return None,
        }
    }
}

/// What follows on a line that must hold no more, but for a comment.
fn nothing(text: &str) -> Option<&str> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let is_over = line.trim().is_empty() || line.trim_start().starts_with(['#', ';']);
    is_over.then_some(rest)
}

/// A section's name after its bracket, and what follows.
fn header(text: &str) -> Option<(String, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let end = text.find(|c| !is_name(c))?;
    let (name, rest) = text.split_at(end);
    let name = name.to_ascii_lowercase();
    if let Some(rest) = rest.strip_prefix(']') {
        return (!name.is_empty()).then_some((name, rest));
    }
    let mut chars = rest
        .trim_start_matches([' ', '\t'])
        .strip_prefix('"')?
        .chars();
    let mut sub = String::new();
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => sub.push(chars.next().filter(|c| *c != '\n')?),
            '\n' => return None,
            c => sub.push(c),
        }
    }
    let rest = chars.as_str().strip_prefix(']')?;
    Some((format!("{name}.{sub}"), rest))
}

/// A value up to the end of its line, which a backslash carries on to the next one.
fn value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut kept = 0;
    let mut is_quoted = false;
    let mut chars = text.trim_start_matches([' ', '\t']).chars();
    loop {
        match chars.next() {
            None | Some('\n') if !is_quoted => break,
            None | Some('\n') => return None,
            Some('"') => {
                is_quoted = !is_quoted;
                kept = value.len();
            }
            Some('#' | ';') if !is_quoted => {
                let rest = chars.as_str();
                let rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
                value.truncate(kept);
                return Some((value, rest));
            }
            Some('\\') => {
                match chars.next()? {
                    '\n' => {}
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    c @ ('\\' | '"') => value.push(c),
                    _ => return None,
                }
                kept = value.len();
            }
            Some(c) => {
                value.push(c);
                if is_quoted || !c.is_whitespace() {
                    kept = value.len();
                }
            }
        }
    }
    value.truncate(kept);
    Some((value, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn keys(text: &str) -> Option<Vec<(String, String)>> {
        let settings = parse(text)?.into_iter();
        Some(settings.map(|one| (one.key, one.value)).collect())
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "\u{feff}[core]\n\tbare = false\n[Core] fsMonitor=evil # x\n\
                    [remote \"My.Origin\"]\r\n\turl = \"a \\\"b\\\" # c\" ; d\n\
                    [branch.Main]\nrebase\n[x \"y\"] a = b \\\n  c  \n";
        let expected = [
            ("core.bare", "false"),
            ("core.fsmonitor", "evil"),
            ("remote.My.Origin.url", "a \"b\" # c"),
            ("branch.main.rebase", ""),
            ("x.y.a", "b   c"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(keys(text).unwrap(), expected);
        for broken in [
            "core",
            "[core",
            "[core]\n= x",
            "a = b\n",
            "[a]\nb = \"c\n",
            "[a]\nb = \\q",
        ] {
            assert_eq!(keys(broken), None, "{broken}");
        }
    }

    #[test]
    fn settings_that_git_writes_by_itself_are_harmless_and_programs_are_not() {
        let is_harmless = |text: &str| {
            parse(text).is_some_and(|settings| settings.iter().all(super::Setting::is_harmless))
        };
        assert!(is_harmless(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
             \tlogallrefupdates = true\n[remote \"origin\"]\n\turl = https://example.org/a.git\n\
             \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\
             \tmerge = refs/heads/main\n"
        ));
        for text in [
            "[core]\nfsmonitor = ./evil\n",
            "[core] hooksPath = x\n",
            "[include]\npath = x\n",
            "[alias]\nst = !evil\n",
            "[filter \"x\"]\nclean = evil\n",
            "[remote \"origin\"]\nurl = ext::evil\n",
            "[remote \"origin\"]\nuploadpack = evil\n",
            "[submodule \"x\"]\nupdate = !evil\n",
            "[gc]\nrecentObjectsHook = evil\n",
            "[credential]\nhelper = evil\n",
        ] {
            assert!(!is_harmless(text), "{text}");
        }
    }
}
