//! `fastness mcp add` and `remove`: one section of a file of settings, written at its end or cut out.
//! Everything else in the file stays as it was, to the byte.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent::project::FILE_NAME;
use agent::settings::{FileSettings, SettingsError};
use anyhow::Context;
use serde_json::json;

use super::fetching::{self, Cache, has_network};
use crate::args::McpAddArgs;
use crate::render::{Exit, Failure};
use crate::settings::Settings;

/// Writes a server into a file.
///
/// # Errors
/// If it is there already or is not described right, or the file cannot be written.
pub(super) fn add(args: &McpAddArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let path = file(args.project, settings)?;
    let text = read(&path)?;
    if has(&text, &args.name)? {
        let failure = Failure::new(format!("{} has a server {}", path.display(), args.name));
        return Err(failure
            .hint(format!("`fastness mcp remove {}` takes it out", args.name))
            .into());
    }
    let cache = fetching::cache(args, settings);
    let added = added(&text, &section(args, cache.as_ref())?);
    check(&added)?;
    store(&path, &added)?;
    if let Some(Cache { place, .. }) = &cache {
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(place);
        made.with_context(|| place.display().to_string())?;
    }
    let mut said = format!("added {} to {}", args.name, path.display());
    said += match (args.command.first(), has_network(args)) {
        (None, _) => "",
        (Some(_), true) if args.network => "; it may reach the network",
        (Some(_), true) => {
            "; it may reach the network, for it fetches what it runs (`--no-network` keeps it from that)"
        }
        (Some(_), false) => "; it has no network (`--network` gives it one)",
    };
    if args.project {
        said += "; it counts once `fastness approve` has approved the file";
    }
    writeln!(io::stdout(), "{said}")?;
    Ok(Exit::Success.into())
}

/// Takes a server out of a file.
///
/// # Errors
/// If it is not there, or not in a section of its own, or the file cannot be written.
pub(super) fn remove(name: &str, project: bool, settings: &Settings) -> anyhow::Result<ExitCode> {
    let path = file(project, settings)?;
    let text = read(&path)?;
    if !has(&text, name)? {
        let sentence = format!("{} has no server {name}", path.display());
        return Err(Failure::new(sentence)
            .hint("`fastness mcp list` shows which there are")
            .into());
    }
    let removed = removed(&text, name);
    check(&removed)?;
    if has(&removed, name)? {
        let sentence = format!("{name} is not in a section [mcp.{name}] of its own");
        let hint = format!("take it out of {} by hand", path.display());
        return Err(Failure::new(sentence).hint(hint).into());
    }
    store(&path, &removed)?;
    writeln!(io::stdout(), "removed {name} from {}", path.display())?;
    Ok(Exit::Success.into())
}

fn file(project: bool, settings: &Settings) -> anyhow::Result<PathBuf> {
    if project {
        return Ok(settings.cwd.join(FILE_NAME));
    }
    let directory = settings.operator.config_dir.as_ref();
    let directory = directory.context("there is no home to keep your settings in")?;
    Ok(directory.join("config.toml"))
}

fn read(path: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Writes the whole file anew, in one step and with the rights that it had: it may hold secrets.
fn store(path: &Path, text: &str) -> anyhow::Result<()> {
    let named = || path.display().to_string();
    let directory = path.parent().context("the file has no directory")?;
    std::fs::create_dir_all(directory).with_context(named)?;
    // Written where a link leads, so that the link stays.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().context("the file has no directory")?;
    let temporary = directory.join(".fastness.toml.new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&temporary).with_context(named)?;
    file.write_all(text.as_bytes()).with_context(named)?;
    if let Ok(before) = std::fs::metadata(&path) {
        file.set_permissions(before.permissions())?;
    }
    file.sync_all().with_context(named)?;
    std::fs::rename(&temporary, &path).with_context(named)
}

/// The section that describes a server.
fn section(args: &McpAddArgs, cache: Option<&Cache>) -> anyhow::Result<String> {
    // What is a string in JSON is the same string in TOML.
    let mut section = format!("[mcp.{}]\n", args.name);
    match (&args.url, args.command.split_first()) {
        (Some(url), _) => {
            writeln!(section, "url = {}", json!(url))?;
            if let Some(kind) = &args.kind {
                writeln!(section, "type = {}", json!(kind))?;
            }
        }
        (None, Some((command, rest))) => {
            writeln!(section, "command = {}", json!(command))?;
            if !rest.is_empty() {
                writeln!(section, "args = {}", json!(rest))?;
            }
            if has_network(args) {
                writeln!(section, "network = true")?;
            }
        }
        (None, None) => {
            let failure = Failure::usage("a server is a program or has an address");
            let hint = "write `-- COMMAND …` at the end, or `--url URL`";
            return Err(failure.hint(hint).into());
        }
    }
    let mut env = args.env.clone();
    if let Some(Cache { variable, place }) = cache {
        let place = place.display().to_string();
        writeln!(section, "write = {}", json!([place]))?;
        env.push(((*variable).to_owned(), place));
    }
    for (key, pairs) in [("headers", &args.headers), ("env", &env)] {
        if !pairs.is_empty() {
            let pairs = pairs.iter();
            let pairs = pairs.map(|(name, value)| format!("{} = {}", json!(name), json!(value)));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            writeln!(section, "{key} = {{ {pairs} }}")?;
        }
    }
    Ok(section)
}

fn added(text: &str, section: &str) -> String {
    let between = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{between}{section}")
}

/// The file without the sections of a server, and without the comments right above them.
fn removed(text: &str, name: &str) -> String {
    let (mut kept, mut waiting) = (String::new(), String::new());
    let mut is_cut = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if let Some(header) = header(bare) {
            is_cut = is_of(header, name);
            if is_cut {
                kept.push_str(above(&waiting));
                waiting.clear();
                continue;
            }
        }
        if is_cut && !bare.starts_with('#') && !bare.is_empty() {
            waiting.clear();
            continue;
        }
        if bare.is_empty() || bare.starts_with('#') {
            waiting.push_str(line);
            continue;
        }
        kept.push_str(&std::mem::take(&mut waiting));
        kept.push_str(line);
    }
    if !is_cut {
        kept.push_str(&waiting);
    }
    kept
}

/// What of the lines above a section stays when it goes: neither its comments nor the space above them.
fn above(lines: &str) -> &str {
    let mut rest = lines;
    while let Some(last) = rest
        .lines()
        .last()
        .filter(|last| last.trim().starts_with('#'))
    {
        rest = rest.trim_end_matches(['\n', '\r']);
        rest = rest.strip_suffix(last).unwrap_or_default();
    }
    match rest.trim_end() {
        "" => "",
        comments => &rest[..(comments.len() + 1).min(rest.len())],
    }
}

/// The name in a line that begins a section.
fn header(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('[')?;
    // One of several such sections; it is none of ours.
    let inside = inside.strip_prefix('[').unwrap_or(inside);
    let (name, _) = inside.split_once(']')?;
    Some(name.trim())
}

fn is_of(header: &str, name: &str) -> bool {
    let parts: Vec<&str> = header.split('.').collect();
    let bare = |part: &str| part.trim().trim_matches('"').trim_matches('\'').to_owned();
    matches!(parts.as_slice(), [first, second, ..] if bare(first) == "mcp" && bare(second) == name)
}

fn has(text: &str, name: &str) -> anyhow::Result<bool> {
    let table: toml::Table = text.parse().context("the file is not TOML")?;
    let servers = table.get("mcp").and_then(toml::Value::as_table);
    Ok(servers.is_some_and(|servers| servers.contains_key(name)))
}

/// Nothing is written that would not be read.
fn check(text: &str) -> anyhow::Result<()> {
    match FileSettings::parse(text) {
        Ok(_) => Ok(()),
        Err(SettingsError::Unknown { place, .. }) => {
            Err(Failure::usage(format!("{place} is not a setting")).into())
        }
        Err(SettingsError::Wrong(problem)) => Err(Failure::usage(problem).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{added, removed};

    const FILE: &str = "# mine\n[limits]\nsteps_max = 5 # few\n\n# files\n[mcp.files]\ncommand = \"x\"\n\
                        [mcp.files.env]\nA = \"[mcp.other]\"\n\n[mcp.other]\ncommand = \"y\"\n";

    #[test]
    fn a_section_is_added_at_the_end_and_taken_out_again() {
        let section = "[mcp.new]\ncommand = \"z\"\n";
        let file = added(FILE, section);
        assert!(file.starts_with(FILE) && file.ends_with(section));
        assert_eq!(removed(&file, "new"), FILE);
        assert_eq!(added("", section), section);
        assert_eq!(added("a = 1", section), format!("a = 1\n\n{section}"));
    }

    #[test]
    fn only_the_sections_of_that_server_are_cut_out() {
        let file = removed(FILE, "files");
        assert!(!file.contains("files") && !file.contains("A ="), "{file}");
        assert!(
            file.starts_with("# mine\n[limits]\nsteps_max = 5 # few\n"),
            "{file}"
        );
        assert!(file.ends_with("[mcp.other]\ncommand = \"y\"\n"), "{file}");
        assert_eq!(removed(FILE, "none"), FILE);
        let last = removed(FILE, "other");
        assert!(last.contains("A = \"[mcp.other]\""), "{last}");
        assert!(!last.contains("command = \"y\""), "{last}");
    }
}
