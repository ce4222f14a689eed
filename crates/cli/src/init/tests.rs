//! Editors' files as people have them: set up, shown, taken back, and never broken.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use super::editor::{Editor, Form, Launch};
use super::file::{EditError, setting_up, state, taking_back};
use super::merge::{Entry, Found, insert, remove};
use crate::settings::Environment;

const ZED: &str = r#"// My settings. "agent_servers": {} is not here yet.
{
  "theme": "One Dark", // dark
  /* fonts */
  "buffer_font_size": 15,
  "languages": {
    "Rust": { "tab_size": 4, },
  },
}
"#;

const ZED_SET_UP: &str = r#"// My settings. "agent_servers": {} is not here yet.
{
  "theme": "One Dark", // dark
  /* fonts */
  "buffer_font_size": 15,
  "languages": {
    "Rust": { "tab_size": 4, },
  },
  "agent_servers": {
    "Fastness": {
      "type": "custom",
      "command": "/bin/fastness",
      "args": ["acp", "--spawn"],
      "env": {}
    }
  },
}
"#;

const JETBRAINS: &str = "{\n    \"default_mcp_settings\": {\"use_idea_mcp\": true},\n    \"agent_servers\": {\n        \"Other\": {\n            \"command\": \"other\"\n        }\n    }\n}\n";

fn launch() -> Launch {
    Launch {
        command: "/bin/fastness".to_owned(),
        args: vec!["acp".to_owned(), "--spawn".to_owned()],
    }
}

fn entry(editor: Editor) -> Entry {
    match editor.form(&launch()) {
        Form::Entry(entry) => entry,
        Form::Whole(_) => panic!("{editor:?} has a file of its own"),
    }
}

/// Settings of each kind that people have; all must come back as they were.
fn fixtures() -> Vec<(Editor, &'static str)> {
    vec![
        (Editor::Zed, ZED),
        (Editor::Zed, "{}"),
        (Editor::Zed, "{}\n"),
        (Editor::Zed, "{\n}\n"),
        (Editor::Zed, "{\"theme\":\"x\"}"),
        (Editor::Zed, "{\"theme\":\"x\",}"),
        (Editor::Zed, "{\n\t\"theme\": \"x\" // why\n}"),
        (Editor::Zed, "{\n\t\"theme\": \"x\", /* why */\n}"),
        (Editor::Zed, "{\n  // only a remark\n}\n"),
        (Editor::Zed, "{\r\n  \"theme\": \"x\"\r\n}\r\n"),
        (Editor::Zed, "\u{feff}{\n  \"theme\": \"x\"\n}\n"),
        (Editor::Zed, "{\n  \"agent_servers\": {}\n}\n"),
        (
            Editor::Zed,
            "{\n  \"agent_servers\": { \"A\": {\"command\": \"a\"} }\n}\n",
        ),
        (Editor::Jetbrains, JETBRAINS),
        (
            Editor::Vscode,
            "{\n    \"editor.fontSize\": 14,\n    \"acp.agents\": {\n        \"A\": {\n            \"command\": \"a\",\n        },\n    },\n    // last\n}\n",
        ),
        (Editor::Vscode, "{ \"a\": \"é \\\" // no remark {\" }"),
        (Editor::Vscode, ""),
        (Editor::Vscode, "\n"),
        (Editor::Vscode, "// nothing yet"),
    ]
}

#[test]
fn an_entry_goes_to_the_end_and_everything_else_stays() {
    assert_eq!(insert(ZED, &entry(Editor::Zed)).unwrap(), ZED_SET_UP);
    let crlf = insert("{\r\n  \"a\": 1\r\n}\r\n", &entry(Editor::Zed)).unwrap();
    assert_eq!(crlf.matches('\n').count(), crlf.matches("\r\n").count());
    let one_line = insert("{\"a\":1}", &entry(Editor::Jetbrains)).unwrap();
    assert_eq!(
        one_line,
        r#"{"a":1, "agent_servers": {"Fastness":{"command":"/bin/fastness","args":["acp","--spawn"],"env":{}}}}"#
    );
    let remark = insert("{\n\t\"a\": 1 // why\n}", &entry(Editor::Zed)).unwrap();
    assert!(
        remark.starts_with("{\n\t\"a\": 1, // why\n\t\"agent_servers\": {\n\t\t\"Fastness\": {")
    );
}

#[test]
fn what_was_written_is_found_and_is_plain_json_where_the_file_was() {
    for (editor, before) in fixtures() {
        let entry = entry(editor);
        let after = insert(before, &entry).unwrap();
        assert_eq!(
            super::merge::find(&after, &entry),
            Ok(Found::Same),
            "{after}"
        );
        assert_eq!(insert(&after, &entry).unwrap(), after, "twice is once");
        if serde_json::from_str::<Value>(before).is_ok() {
            let plain: Value = serde_json::from_str(&after).unwrap();
            assert_eq!(plain[entry.table][entry.name], entry.value);
        }
    }
}

#[test]
fn without_a_copy_only_our_entry_goes_and_the_rest_is_still_understood() {
    for (editor, before) in fixtures() {
        let entry = entry(editor);
        let after = remove(&insert(before, &entry).unwrap(), &entry).unwrap();
        assert_eq!(
            super::merge::find(&after, &entry),
            Ok(Found::Missing),
            "{after}"
        );
        if serde_json::from_str::<Value>(before).is_ok() {
            assert!(serde_json::from_str::<Value>(&after).is_ok(), "{after}");
        }
    }
    assert_eq!(remove(ZED_SET_UP, &entry(Editor::Zed)).unwrap(), ZED);
    let jetbrains = insert(JETBRAINS, &entry(Editor::Jetbrains)).unwrap();
    assert_eq!(
        remove(&jetbrains, &entry(Editor::Jetbrains)).unwrap(),
        JETBRAINS
    );
}

#[test]
fn a_file_is_what_it_was_byte_for_byte_once_it_is_taken_back() {
    for (editor, before) in fixtures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        fs::write(&path, before).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let form = editor.form(&launch());
        let kept = setting_up(&path, &form).unwrap().carry_out().unwrap();
        assert_eq!(fs::read_to_string(kept.unwrap()).unwrap(), before);
        assert_eq!(state(&path, &form).unwrap(), Found::Same);
        assert!(setting_up(&path, &form).unwrap().is_none());
        // Another version of us, elsewhere, takes it back too.
        let other = editor.form(&Launch {
            command: "/elsewhere".to_owned(),
            args: Vec::new(),
        });
        taking_back(&path, &other).unwrap().carry_out().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no copy stays"
        );
    }
}

#[test]
fn a_file_that_was_changed_since_loses_only_our_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    fs::write(&path, ZED).unwrap();
    let form = Editor::Zed.form(&launch());
    setting_up(&path, &form).unwrap().carry_out().unwrap();
    let changed = fs::read_to_string(&path).unwrap().replace("15", "16");
    fs::write(&path, changed).unwrap();
    taking_back(&path, &form).unwrap().carry_out().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), ZED.replace("15", "16"));
}

#[test]
fn a_file_that_was_missing_is_made_and_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    for editor in Editor::ALL {
        let path = folder.path().join(editor.word()).join("deep/file");
        let form = editor.form(&launch());
        assert_eq!(setting_up(&path, &form).unwrap().carry_out().unwrap(), None);
        assert_eq!(state(&path, &form).unwrap(), Found::Same);
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        taking_back(&path, &form).unwrap().carry_out().unwrap();
        assert!(!path.exists());
        assert!(taking_back(&path, &form).unwrap().is_none());
    }
}

#[test]
fn a_link_stays_a_link_and_one_that_leads_nowhere_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (
        folder.path().join("dotfiles.json"),
        folder.path().join("link.json"),
    );
    fs::write(&real, ZED).unwrap();
    symlink(&real, &link).unwrap();
    let form = Editor::Zed.form(&launch());
    setting_up(&link, &form).unwrap().carry_out().unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), ZED_SET_UP);
    taking_back(&link, &form).unwrap().carry_out().unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), ZED);
    fs::remove_file(&real).unwrap();
    let error = setting_up(&link, &form).unwrap_err();
    assert!(matches!(error, EditError::Io { .. }), "{error}");
}

#[test]
fn what_is_not_understood_is_not_touched_and_the_error_says_where() {
    let check = |text: &[u8], expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        fs::write(&path, text).unwrap();
        let form = Editor::Zed.form(&launch());
        for tried in [setting_up(&path, &form), taking_back(&path, &form)] {
            let error = tried.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    };
    check(b"{\n  \"a\": 1\n  \"b\": 2\n}", "line 2: expected comma");
    check(b"{\n  \"a\": \n", "line 3: expected value after colon");
    check(
        b"{ 'a': 1 }",
        "line 1: single-quoted strings are not allowed",
    );
    check(b"{ \"a\": tru }", "unexpected word");
    check(b"{ \"a\": \"x\n\" }", "line 1: unterminated string");
    check(b"{ /* \n }", "unterminated comment block");
    check(b"{} {}", "more than one JSON value");
    check(b"{ \"a\" 1 }", "expected colon");
    check(b"{ \"a\": [1 2] }", "expected comma");
    check(b"{ \"a\": [1, 2", "unterminated array");
    check(b"[1]", "its outermost value is not an object");
    check(
        b"{\"agent_servers\": []}",
        "`agent_servers` in it is not an object",
    );
    check(b"\xff\xfe{}", "is not a file of text");
    check(
        "[".repeat(100_000).as_bytes(),
        "maximum nesting depth exceeded",
    );
    check(&[b' '; 4 * 1024 * 1024 + 1], "is larger than");
}

#[test]
fn an_entry_that_somebody_set_otherwise_stays_as_it_is() {
    let own = "{\"agent_servers\": {\"Fastness\": {\"command\": \"mine\" /* own */}}}";
    let entry = entry(Editor::Zed);
    assert_eq!(super::merge::find(own, &entry), Ok(Found::Other));
    assert_eq!(insert(own, &entry).unwrap(), own);
    assert_eq!(remove(own, &entry).unwrap(), "{}");
}

#[test]
fn a_file_that_changes_while_the_person_reads_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    fs::write(&path, "{}").unwrap();
    let change = setting_up(&path, &Editor::Zed.form(&launch())).unwrap();
    fs::write(&path, "{\"a\": 1}").unwrap();
    let error = change.carry_out().unwrap_err();
    assert!(
        matches!(error, EditError::ChangedMeanwhile { .. }),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\": 1}");
}

#[test]
fn the_adapter_for_neovim_is_a_file_of_its_own_and_another_of_that_name_stays() {
    let Form::Whole(lua) = Editor::Neovim.form(&launch()) else {
        panic!("an entry");
    };
    assert!(lua.contains("commands = { default = { \"/bin/fastness\", \"acp\", \"--spawn\" } },"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fastness.lua");
    fs::write(&path, "return {}\n").unwrap();
    let form = Editor::Neovim.form(&launch());
    for tried in [setting_up(&path, &form), taking_back(&path, &form)] {
        let error = tried.unwrap_err();
        assert!(matches!(error, EditError::NotOurs { .. }), "{error}");
    }
}

#[test]
fn files_are_looked_for_where_each_editor_keeps_them() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let text = home.path().to_str().unwrap();
    let environment = Environment::of(&[("HOME", text)]);
    let file = |editor: Editor| editor.file(&environment).unwrap();
    assert_eq!(file(Editor::Zed), at(".config/zed/settings.json"));
    assert_eq!(file(Editor::Jetbrains), at(".jetbrains/acp.json"));
    assert_eq!(file(Editor::Neovim), at(".config/nvim/lua/fastness.lua"));
    assert_eq!(file(Editor::Vscode), at(".config/Code/User/settings.json"));
    fs::create_dir_all(at(".config/VSCodium/User")).unwrap();
    fs::write(at(".config/VSCodium/User/settings.json"), "").unwrap();
    assert_eq!(
        file(Editor::Vscode),
        at(".config/VSCodium/User/settings.json")
    );
    let installed = |editor: Editor| editor.is_installed(&environment);
    assert_eq!(Editor::ALL.map(installed), [false, false, false, true]);
    let elsewhere = Environment::of(&[("HOME", text), ("XDG_CONFIG_HOME", "/etc/x")]);
    let zed = Editor::Zed.file(&elsewhere).unwrap();
    assert_eq!(zed, Path::new("/etc/x/zed/settings.json"));
}
