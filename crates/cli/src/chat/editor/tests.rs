//! Stories of writing: what is pressed, and what stands there then.

use super::super::history::History;
use super::super::keys::{Decoder, Key};
use super::Editor;

fn press(editor: &mut Editor, bytes: &[u8]) {
    for key in Decoder::default().feed(bytes) {
        editor.press(key);
    }
}

fn written(bytes: &[u8]) -> String {
    let mut editor = Editor::default();
    press(&mut editor, bytes);
    let (before, after) = editor.text.split_at(editor.cursor);
    format!("{before}|{after}")
}

#[test]
fn keys_do_what_they_do_in_a_shell() {
    assert_eq!(written(b"helo\x1b[Dl"), "hell|o");
    assert_eq!(written(b"one two\x17x"), "one x|");
    assert_eq!(written(b"one two\x01\x0b"), "|");
    assert_eq!(written("aé\x7fb".as_bytes()), "ab|");
    assert_eq!(written(b"one two\x1bb\x1bbx"), "x|one two");
    assert_eq!(written(b"ab\ncd\x1b[A\x1b[3~"), "ab|cd");
    assert_eq!(written(b"abc\nd\x1b[A\x1b[A\x1b[B"), "abc\nd|");
}

#[test]
fn a_paste_is_text_and_its_line_breaks_send_nothing() {
    assert_eq!(written(b"\x1b[200~a\r\nb\x1b[31m\x1b[201~"), "a\nb[31m|");
    let mut editor = Editor::default();
    assert_eq!(editor.press(Key::Enter), Some(Key::Enter));
}

#[test]
fn earlier_texts_come_back_and_the_one_begun_is_kept() {
    let mut editor = Editor::new(History::of(&["first", "second\nline"]));
    press(&mut editor, b"new");
    press(&mut editor, b"\x1b[A");
    assert_eq!(editor.text(), "second\nline");
    press(&mut editor, b"\x1b[A\x1b[A");
    assert_eq!(editor.text(), "first");
    press(&mut editor, b"\x1b[A");
    assert_eq!(editor.text(), "first");
    press(&mut editor, b"\x1b[B\x1b[B");
    assert_eq!(editor.text(), "new");
}

#[test]
fn long_texts_show_the_rows_around_the_cursor() {
    let mut editor = Editor::default();
    press(&mut editor, b"abcdefgh");
    let shown = editor.shown(6);
    let rows: Vec<String> = shown.rows.iter().map(|row| row.plain()).collect();
    assert_eq!(rows, ["❯ abcd", "  efgh", "  "]);
    assert_eq!(shown.cursor, (2, 2));
    for _ in 0..20 {
        press(&mut editor, b"\n");
    }
    press(&mut editor, b"end");
    let shown = editor.shown(40);
    assert_eq!(shown.rows.len(), 8);
    assert_eq!(
        (shown.rows[7].plain().as_str(), shown.cursor),
        ("  end", (7, 5))
    );
    press(&mut Editor::default(), "日本".as_bytes());
}
