//! What servers of all kinds answer, and what hostile ones might.

use super::{Abilities, Answer, Operation, Position};
use crate::lsp::position::Encoding;

const RANGE: &str = r#"{"start":{"line":3,"character":7},"end":{"line":3,"character":9}}"#;

fn read(operation: Operation, answer: &str) -> Option<Answer> {
    operation.read(&answer.replace("RANGE", RANGE))
}

#[test]
fn places_come_alone_in_lists_as_links_or_not_at_all() {
    let location = r#"{"uri":"file:///a","range":RANGE}"#;
    let link = r#"{"targetUri":"file:///a","targetRange":RANGE,"targetSelectionRange":RANGE}"#;
    for (answer, count) in [
        (location.to_owned(), 1),
        (format!("[{location},{location}]"), 2),
        (format!("[{link}]"), 1),
        ("[]".to_owned(), 0),
        ("null".to_owned(), 0),
    ] {
        let Some(Answer::Places(places)) = read(Operation::Definitions, &answer) else {
            panic!("{answer}");
        };
        assert_eq!(places.len(), count, "{answer}");
        for place in places {
            assert_eq!((place.uri.as_str(), place.start.line), ("file:///a", 3));
            assert_eq!(place.start.character, 7);
        }
    }
    for wrong in [
        "1",
        r#""x""#,
        "[[]]",
        r#"{"uri":1,"range":RANGE}"#,
        r#"[{"uri":"file:///a","range":{"start":{"line":-1}}}]"#,
        r#"[{"uri":"file:///a","range":{"start":{"line":99999999999}}}]"#,
    ] {
        assert_eq!(read(Operation::References, wrong), None, "{wrong}");
    }
}

#[test]
fn symbols_come_as_a_tree_or_as_a_list() {
    let tree = r#"[{"name":"A","kind":5,"range":RANGE,"selectionRange":RANGE,"children":
        [{"name":"b","kind":6,"range":RANGE,"selectionRange":RANGE}]},{"name":"C","kind":5}]"#;
    let Some(Answer::Symbols(symbols)) = read(Operation::Symbols, tree) else {
        panic!("{tree}");
    };
    let told: Vec<_> = symbols
        .iter()
        .map(|symbol| (symbol.name.as_str(), symbol.depth, symbol.start.line))
        .collect();
    assert_eq!(told, [("A", 0, 3), ("b", 1, 3), ("C", 0, 0)]);
    let list = r#"[{"name":"f","kind":12,"location":{"uri":"file:///a","range":RANGE}}]"#;
    let Some(Answer::Symbols(symbols)) = read(Operation::Symbols, list) else {
        panic!("{list}");
    };
    let start = Position {
        line: 3,
        character: 7,
    };
    assert_eq!(symbols[0].start, start);
    let deep = r#"[{"name":"x","children":"#.repeat(500) + "[]" + &"}]".repeat(500);
    assert_eq!(read(Operation::Symbols, &deep), None, "too deep to be code");
}

#[test]
fn what_is_said_comes_in_many_forms() {
    for (contents, expected) in [
        (r#""x""#, "x"),
        (r#"{"kind":"markdown","value":"x"}"#, "x"),
        (r#"["x",{"language":"rust","value":"y"}]"#, "x\n\ny"),
    ] {
        let answer = format!(r#"{{"contents":{contents}}}"#);
        let said = read(Operation::Hover, &answer);
        assert_eq!(said, Some(Answer::Said(expected.to_owned())));
    }
    let nothing = read(Operation::Hover, "null");
    assert_eq!(nothing, Some(Answer::Said(String::new())));
}

#[test]
fn a_server_is_asked_only_for_what_it_offers() {
    let said = r#"{"capabilities":{"positionEncoding":"utf-8","definitionProvider":{},
        "referencesProvider":false,"hoverProvider":true,"diagnosticProvider":{"x":[1]}}}"#;
    let abilities = Abilities::read(said).unwrap();
    assert_eq!(abilities.encoding, Encoding::Utf8);
    assert!(abilities.has(Operation::Definitions) && abilities.has(Operation::Hover));
    assert!(!abilities.has(Operation::References) && !abilities.has(Operation::Symbols));
    assert!(abilities.answers_diagnostics && abilities.has(Operation::Diagnostics));
    let bare = Abilities::read(r#"{"capabilities":{}}"#).unwrap();
    assert_eq!(bare.encoding, Encoding::Utf16);
    assert!(!bare.answers_diagnostics);
    for wrong in [
        "{}",
        "null",
        r#"{"capabilities":{"positionEncoding":"latin-1"}}"#,
    ] {
        assert!(Abilities::read(wrong).is_none(), "{wrong}");
    }
}
