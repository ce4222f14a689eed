//! Any text as an editor's settings: our entry is put in and taken out, and all else keeps its value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

#[path = "../../crates/cli/src/init/merge.rs"]
mod merge;

use merge::{Entry, Found, find, insert, remove, value};

fuzz_target!(|text: &str| {
    let entry = Entry {
        table: "agents",
        name: "Ours",
        value: json!({"command": "/bin/x", "args": ["acp"], "env": {}}),
    };
    let Ok(found) = find(text, &entry) else {
        assert!(insert(text, &entry).is_err() && remove(text, &entry).is_err());
        return;
    };
    let after = insert(text, &entry).expect("it was understood");
    match found {
        Found::Missing => assert_eq!(find(&after, &entry), Ok(Found::Same), "{after}"),
        Found::Same | Found::Other => assert_eq!(after, text),
    }
    assert_eq!(others(&after), others(text), "{after}");
    let removed = remove(&after, &entry).expect("it is still understood");
    assert_eq!(value(&removed, &entry), Ok(None), "{removed}");
    assert_eq!(others(&removed), others(text), "{removed}");
});

/// All settings but ours; none if there is nothing else.
fn others(text: &str) -> Value {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default());
    let tree = tree.expect("it was understood").value;
    let mut value = tree.map_or(json!({}), Value::from);
    let table = value.get_mut("agents").and_then(Value::as_object_mut);
    if let Some(table) = table {
        table.remove("Ours");
        if table.is_empty() {
            value.as_object_mut().map(|root| root.remove("agents"));
        }
    }
    value
}
