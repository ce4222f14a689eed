//! What the model calls a server's tool: `mcp__server__tool`.
//!
//! A name depends on nothing but the names of server and tool, so it is the same whatever else is
//! there and in whatever order it comes. Two tools never share one: wherever something had to be
//! changed or cut, a digest of both names follows.

use domain::limits::{MCP_NAME_BYTES_MAX, MCP_SERVER_NAME_BYTES_MAX};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "mcp__";

/// The name of a server within the names of its tools, and in rules about them.
#[must_use]
pub fn server_key(server: &str) -> String {
    let plain = plain(server);
    let is_clear = plain == server
        && !plain.is_empty()
        && plain.len() <= MCP_SERVER_NAME_BYTES_MAX
        // The two underscores that follow it must be the first two.
        && !plain.contains("__")
        && !plain.ends_with('_');
    match is_clear {
        true => plain,
        false => {
            let folded = plain.split('_').filter(|part| !part.is_empty());
            let folded = folded.collect::<Vec<_>>().join("_");
            with_digest(&folded, MCP_SERVER_NAME_BYTES_MAX, &[server])
        }
    }
}

/// The name that a model uses for `tool` of `server`.
#[must_use]
pub fn offered_name(server: &str, tool: &str) -> String {
    let key = server_key(server);
    let plain = plain(tool);
    let name = format!("{PREFIX}{key}__{plain}");
    match plain == tool && name.len() <= MCP_NAME_BYTES_MAX {
        true => name,
        false => with_digest(&name, MCP_NAME_BYTES_MAX, &[server, tool]),
    }
}

/// Letters that every model accepts in a name.
fn plain(name: &str) -> String {
    let plain = name.chars().map(|letter| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => letter,
        _ => '_',
    });
    plain.collect()
}

/// `name`, cut so that it and a digest of `of` are no longer than `bytes_max`.
fn with_digest(name: &str, bytes_max: usize, of: &[&str]) -> String {
    let mut sha256 = Sha256::new();
    for part in of {
        sha256.update(part.len().to_le_bytes());
        sha256.update(part);
    }
    let digest = sha256.finalize();
    let digest: String = digest[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let room = bytes_max - digest.len() - 1;
    let start = &name[..name.len().min(room)];
    format!("{start}-{digest}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{offered_name, server_key};

    #[test]
    fn plain_names_are_used_as_they_are() {
        assert_eq!(
            offered_name("github", "create_issue"),
            "mcp__github__create_issue"
        );
        assert_eq!(offered_name("a-b", "_x"), "mcp__a-b___x");
    }

    #[test]
    fn every_name_fits_and_no_two_tools_share_one() {
        let long = "x".repeat(200);
        let longer = format!("{long}y");
        let servers = ["a", "a_", "a__b", "_", "", "ä", "My Server", &long, &longer];
        let tools = [
            "b", "_b", "b__c", "c", "", "a.b", "a_b", "a/b", &long, &longer,
        ];
        let mut seen = BTreeSet::new();
        for server in servers {
            for tool in tools {
                let name = offered_name(server, tool);
                assert!(name.len() <= 64, "{name}");
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                assert!(name.bytes().all(is_plain), "{name}");
                let key = server_key(server);
                assert!(
                    name.starts_with(&format!("mcp__{key}__")),
                    "{name} is not of {key}"
                );
                assert!(seen.insert(name.clone()), "{name} twice");
            }
        }
    }
}
