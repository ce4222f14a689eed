//! Programs that fetch other programs and run them, such as `npx`: they need the network, and a place to put what
//! they fetch. In the sandbox a person's own caches can only be read, for what lies there runs elsewhere too; so
//! a server that is added gets one of its own.

use std::path::{Path, PathBuf};

use crate::args::McpAddArgs;
use crate::settings::Settings;

/// Such programs, and the variable that names their cache, where one suffices.
const FETCHING: &[(&str, Option<&str>)] = &[
    ("bun", None),
    ("bunx", None),
    ("deno", None),
    ("npm", Some("npm_config_cache")),
    ("npx", Some("npm_config_cache")),
    ("pipx", None),
    ("pnpm", None),
    ("pnpx", None),
    ("uv", Some("UV_CACHE_DIR")),
    ("uvx", Some("UV_CACHE_DIR")),
    ("yarn", None),
];

/// A cache of a server's own.
pub(super) struct Cache {
    /// The variable that names it.
    pub(super) variable: &'static str,
    /// Where it is.
    pub(super) place: PathBuf,
}

/// Whether the program that is added may reach the network.
pub(super) fn has_network(args: &McpAddArgs) -> bool {
    args.network || !args.no_network && found(args).is_some()
}

/// The cache that the program which is added is to have, if it needs one and nobody has named another. A
/// project's file has no place of one person's in it.
pub(super) fn cache(args: &McpAddArgs, settings: &Settings) -> Option<Cache> {
    let (_, variable) = found(args).filter(|_| !args.project && has_network(args))?;
    let variable = (*variable)?;
    if args.env.iter().any(|(name, _)| name == variable) {
        return None;
    }
    let value = |name| settings.environment.value(name).map(PathBuf::from);
    let own = value("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let caches = own.or_else(|| Some(value("HOME")?.join(".cache")))?;
    let place = caches.join("fastness/mcp").join(&args.name);
    Some(Cache { variable, place })
}

fn found(args: &McpAddArgs) -> Option<&'static (&'static str, Option<&'static str>)> {
    let name = Path::new(args.command.first()?).file_name()?.to_str()?;
    FETCHING.iter().find(|(fetching, _)| *fetching == name)
}
