//! Files of settings with one entry put in and taken out, in every layout that people write.

use proptest::prelude::{Just, ProptestConfig, Strategy, prop};
use proptest::strategy::Union;
use proptest::{prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::{Entry, Found, find, insert, remove, value};

fn entry() -> Entry {
    Entry {
        table: "agents",
        name: "Ours",
        value: json!({"command": "/bin/x", "args": ["acp"], "env": {}}),
    }
}

#[test]
fn comments_end_where_they_end() {
    let text = "/*/ { */{\n  \"a\": 1 /*/ still */\n}\n";
    let after = insert(text, &entry()).unwrap();
    assert_eq!(find(&after, &entry()), Ok(Found::Same), "{after}");
    assert_eq!(remove(&after, &entry()).unwrap(), text);
    assert!(find("{} /*/", &entry()).is_err());
}

#[test]
fn comments_stay_beside_what_they_describe() {
    for text in [
        "{ // all\n}\n",
        "{\n  // only\n}\n",
        "{\n  \"a\": 1 /* one */ // two\n}\n",
        "{\n  \"a\": 1, /* over\n  lines */\n}\n",
        "{\n  \"a\": 1 /* over\n  lines */\n}\n",
    ] {
        let after = insert(text, &entry()).unwrap();
        let ours = after.find("\"agents\"").unwrap();
        let comment = after.rfind("//").or(after.rfind("*/")).unwrap();
        assert!(comment < ours, "{after}");
        assert_eq!(remove(&after, &entry()).unwrap(), text);
    }
}

#[test]
fn removing_leaves_the_closing_brace_outside_of_comments() {
    let text = "{\n  \"a\": 1, // why\n  \"agents\": {\"Ours\": 1} }";
    let after = remove(text, &entry()).unwrap();
    assert_eq!(find(&after, &entry()), Ok(Found::Missing), "{after}");
    assert!(after.contains("// why\n"), "{after}");
    let text = "{ // note\n  \"agents\": {\"Ours\": 1} }";
    let after = remove(text, &entry()).unwrap();
    assert_eq!(find(&after, &entry()), Ok(Found::Missing), "{after}");
}

#[test]
fn removing_keeps_comments_of_the_table_and_takes_every_copy() {
    let text = "{\n  \"agents\": {\n    // mine\n    \"Ours\": 1\n  }\n}\n";
    assert_eq!(
        remove(text, &entry()).unwrap(),
        "{\n  \"agents\": {\n    // mine\n  }\n}\n"
    );
    let text = "{\"agents\": {\"Ours\": 1, \"B\": 2, \"Ours\": 3}}";
    assert_eq!(remove(text, &entry()).unwrap(), "{\"agents\": { \"B\": 2}}");
}

#[test]
fn an_object_in_one_line_stays_in_one_line() {
    for (text, expected) in [
        ("{\"a\":1}", "{\"a\":1, \"agents\": OURS}"),
        ("{\"a\":1,}", "{\"a\":1, \"agents\": OURS,}"),
        (
            "{ \"a\": 1 /* , */ }",
            "{ \"a\": 1, /* , */ \"agents\": OURS }",
        ),
        (
            "{\n  \"agents\": { \"B\": {} }\n}\n",
            "{\n  \"agents\": { \"B\": {}, \"Ours\": OWN }\n}\n",
        ),
    ] {
        let own = entry().value.to_string();
        let expected = expected.replace("OURS", &format!("{{\"Ours\":{own}}}"));
        let after = insert(text, &entry()).unwrap();
        assert_eq!(after, expected.replace("OWN", &own));
        assert_eq!(remove(&after, &entry()).unwrap(), text);
    }
}

#[test]
fn line_endings_and_a_byte_order_mark_stay() {
    for text in [
        "\u{feff}{\r\n\t\"a\": 1\r\n}\r\n",
        "\u{feff}{\"a\": \"\u{feff}\"}",
        "{\r\n  \"a\": 1, // x\r\n}",
    ] {
        let after = insert(text, &entry()).unwrap();
        let lines = after.matches('\n').count();
        assert_eq!(lines, after.matches("\r\n").count(), "{after:?}");
        assert_eq!(remove(&after, &entry()).unwrap(), text);
    }
}

/// Space and comments between two tokens.
fn trivia(newline: &'static str) -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        " ".to_owned(),
        newline.to_owned(),
        format!("{newline}  "),
        format!(" // a, \"b\": {{{newline}"),
        "/* c } */".to_owned(),
        format!("/*/ d{newline} */"),
        String::new(),
    ]);
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

/// An object with members of every kind, in any layout; it may hold our table, and that our entry.
fn settings() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["\n", "\r\n"]).prop_flat_map(|newline| {
        let simple =
            prop::sample::select(vec!["1", "null", "\"é // x\"", "[1, 2,]", "{}", "-0.5e3"]);
        let members = move |names: Vec<&'static str>, values: Union<_>| {
            let member = (
                prop::sample::select(names),
                values,
                prop::array::uniform4(trivia(newline)),
            );
            let member = member.prop_map(|(name, value, space): (&str, String, [String; 4])| {
                let [a, b, c, d] = space;
                format!("{a}\"{name}\"{b}:{c}{value}{d}")
            });
            (
                prop::collection::vec(member, 0..4),
                prop::bool::ANY,
                trivia(newline),
            )
                .prop_map(|(members, has_trailing, space)| {
                    let trailing = if has_trailing && !members.is_empty() {
                        ","
                    } else {
                        ""
                    };
                    format!("{{{}{trailing}{space}}}", members.join(","))
                })
        };
        let simple = simple.prop_map(str::to_owned).boxed();
        let table = members(vec!["A", "B", "Ours"], Union::new([simple.clone()])).boxed();
        let root = members(vec!["x", "agents", "y"], Union::new([simple, table]));
        (
            prop::sample::select(vec!["", "\u{feff}"]),
            trivia(newline),
            root,
            trivia(newline),
            Just(newline),
        )
            .prop_map(|(mark, before, root, after, newline)| {
                format!("{mark}{before}{root}{after}{newline}")
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn other_settings_keep_their_values(text in settings()) {
        let others = |text: &str| -> Value {
            let text = text.trim_start_matches('\u{feff}');
            let mut value: Value = super::parse(text).unwrap().value.unwrap().into();
            let table = value.get_mut("agents").and_then(Value::as_object_mut);
            if let Some(table) = table {
                table.shift_remove("Ours");
                if table.is_empty() {
                    value.as_object_mut().map(|root| root.shift_remove("agents"));
                }
            }
            value
        };
        let entry = entry();
        let Ok(found) = find(&text, &entry) else { return Ok(()) };
        let after = insert(&text, &entry).unwrap();
        prop_assert_eq!(others(&after), others(&text), "{}", after);
        prop_assert_eq!(after == text, found != Found::Missing);
        if found == Found::Missing {
            prop_assert_eq!(find(&after, &entry), Ok(Found::Same), "{}", after);
        }
        let removed = remove(&after, &entry).unwrap();
        prop_assert_eq!(value(&removed, &entry), Ok(None), "{}", removed);
        prop_assert_eq!(others(&removed), others(&text), "{}", removed);
    }
}
