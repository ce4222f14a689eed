//! The keys there are, and what each needs when a project sets it.

use domain::limits::edit_distance;
use toml::{Table, Value};

use super::{SettingsError, wrong};

/// What a setting needs to take effect when it stands in a project's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nothing: it can only narrow what happens, or say something to the model.
    Free,
    /// The person's approval of the file as it is.
    Approval,
    /// It never does: it is the operator's.
    Operator,
}

/// A table of the file, and the keys in it.
struct Known {
    table: &'static str,
    form: Form,
    keys: &'static [&'static str],
    trust: Trust,
}

#[derive(PartialEq, Eq)]
enum Form {
    /// `[table]`
    One,
    /// `[table.NAME]`, each with the keys.
    Named,
    /// `[[table]]`, each with the keys.
    List,
    /// `[table]` whose keys somebody else knows.
    Open,
}

const KNOWN: &[Known] = &[
    Known {
        table: "agents",
        form: Form::Named,
        keys: &[
            "description",
            "model",
            "prompt",
            "steps_max",
            "time_ms",
            "tokens_max",
            "tools",
        ],
        trust: Trust::Approval,
    },
    Known {
        table: "context",
        form: Form::One,
        keys: &["commands", "instructions", "skills", "style"],
        trust: Trust::Free,
    },
    Known {
        table: "hooks",
        form: Form::List,
        keys: &["command", "event", "matcher", "on_failure", "timeout_ms"],
        trust: Trust::Approval,
    },
    Known {
        table: "limits",
        form: Form::Open,
        keys: &[],
        trust: Trust::Operator,
    },
    Known {
        table: "lsp",
        // The languages are known where they are read.
        form: Form::Open,
        keys: &[],
        trust: Trust::Operator,
    },
    Known {
        table: "mcp",
        form: Form::Named,
        keys: super::mcp::KEYS,
        trust: Trust::Approval,
    },
    Known {
        table: "models",
        form: Form::One,
        keys: &[
            "anthropic_base_url",
            "ca_file",
            "context_window",
            "default",
            "model",
            "ollama_host",
            "openai_base_url",
        ],
        trust: Trust::Approval,
    },
    Known {
        table: "network",
        form: Form::One,
        keys: &["allow", "allow_private_networks", "no_proxy", "proxy"],
        trust: Trust::Approval,
    },
    Known {
        table: "permissions",
        form: Form::One,
        keys: &["allow", "ask", "deny"],
        // Those that narrow; `allow` is told apart below.
        trust: Trust::Free,
    },
    Known {
        table: "sandbox",
        form: Form::One,
        keys: &["hide", "mode", "network", "read", "write"],
        // What hides more is told apart below.
        trust: Trust::Approval,
    },
    Known {
        table: "search",
        form: Form::One,
        keys: &["key", "provider", "url"],
        trust: Trust::Operator,
    },
];

/// What `table.key` needs in a project's file.
#[must_use]
pub fn trust(table: &str, key: &str) -> Trust {
    match (table, key) {
        ("permissions", "allow") => Trust::Approval,
        ("sandbox", "hide") => Trust::Free,
        _ => KNOWN
            .iter()
            .find(|known| known.table == table)
            .map_or(Trust::Operator, |known| known.trust),
    }
}

/// Checks that every key of a file is known, and stands where it belongs.
pub(super) fn check(file: &Table) -> Result<(), SettingsError> {
    for (name, value) in file {
        let Some(known) = KNOWN.iter().find(|known| known.table == name) else {
            let tables = KNOWN.iter().map(|known| known.table);
            return Err(unknown(&format!("[{name}]"), name, tables));
        };
        let (tables, form) = match known.form {
            Form::One | Form::Open => (value.as_table().map(|table| vec![table]), "[NAME]"),
            Form::Named => (named(value), "[NAME.SOMETHING]"),
            Form::List => (listed(value), "[[NAME]]"),
        };
        let tables = tables.ok_or_else(|| {
            let form = form.replace("NAME", name);
            wrong(&format!("`{name}` is a table: write {form}"))
        })?;
        if known.form == Form::Open {
            continue;
        }
        let mut keys = tables.iter().flat_map(|table| table.keys());
        if let Some(key) = keys.find(|key| !known.keys.contains(&key.as_str())) {
            let place = format!("{name}.{key}");
            return Err(unknown(&place, key, known.keys.iter().copied()));
        }
    }
    Ok(())
}

fn named(value: &Value) -> Option<Vec<&Table>> {
    value.as_table()?.values().map(Value::as_table).collect()
}

fn listed(value: &Value) -> Option<Vec<&Table>> {
    value.as_array()?.iter().map(Value::as_table).collect()
}

fn unknown(place: &str, key: &str, known: impl Iterator<Item = &'static str>) -> SettingsError {
    // What was written may be as long as the file; what is known is short.
    let start = key
        .char_indices()
        .nth(64)
        .map_or(key, |(end, _)| &key[..end]);
    let nearest = known.min_by_key(|known| edit_distance(start, known));
    let place: String = place.chars().take(100).collect();
    SettingsError::Unknown {
        place,
        nearest: nearest.unwrap_or_default(),
    }
}
