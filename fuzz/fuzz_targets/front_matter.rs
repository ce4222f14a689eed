//! Any text as a skill or an agent with front matter: it is split, and its fields are read or are not.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tools/src/library/front_matter.rs"]
#[allow(dead_code, reason = "the library uses all of it")]
mod front_matter;
#[path = "../../crates/tools/src/library/yaml.rs"]
mod yaml;

use front_matter::split;
use yaml::Field;

fuzz_target!(|text: &str| {
    let (fields, body) = split(text);
    assert!(text.ends_with(body), "the body is not the end of the text");
    for key in ["name", "tools", "description"] {
        let plain = fields.field(key);
        let yaml = fields.yaml(key);
        let _ = fields.text(key);
        // A list of tools that cannot be read must not mean all tools.
        if plain.is_some() && !text.contains(['"', '\'', '|', '>', '{', '[', '%']) {
            assert_ne!(yaml, Field::Absent, "{key} is there");
        }
    }
    // Line endings are no part of a field.
    let other = text.replace("\r\n", "\n").replace('\r', "");
    let with_returns = other.replace('\n', "\r\n");
    let (unix, dos) = (split(&other), split(&with_returns));
    if !unix.1.is_empty() && other.len() < 4_096 {
        assert_eq!(unix.0, dos.0);
    }
});
