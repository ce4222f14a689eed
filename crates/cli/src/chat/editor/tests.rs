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

/// Characters that a person sees as one and that are several code points: a flag, a family, a hand with a
/// colour of skin, a letter with marks, a syllable of Hangul in parts, a symbol shown as an emoji.
const CLUSTERS: [&str; 6] = [
    "🇩🇪",
    "👨\u{200d}👩\u{200d}👧",
    "👍🏽",
    "e\u{301}\u{323}",
    "\u{1112}\u{1161}\u{11ab}",
    "❤\u{fe0f}",
];

#[test]
fn one_key_moves_over_or_deletes_what_looks_like_one_character() {
    for cluster in CLUSTERS {
        let typed = |keys: &str| written(format!("a{cluster}b{keys}").as_bytes());
        assert_eq!(typed("\x1b[D\x7f"), "a|b", "Backspace");
        assert_eq!(typed("\x1b[D\x1b[D"), format!("a|{cluster}b"), "Left");
        assert_eq!(
            typed("\x1b[D\x1b[D\x1b[C"),
            format!("a{cluster}|b"),
            "Right"
        );
        assert_eq!(typed("\x1b[D\x1b[D\x1b[3~"), "a|b", "Delete");
    }
    // Two flags are two, and a line break is never joined with what follows it.
    assert_eq!(written("🇩🇪🇫🇷\x7f".as_bytes()), "🇩🇪|");
    assert_eq!(written("a\n\u{301}\x1b[D".as_bytes()), "a\n|\u{301}");
}

#[test]
fn up_and_down_keep_the_column_and_stop_between_characters() {
    let family = CLUSTERS[1];
    let typed = format!("{family}xyz\nabc\x1b[A");
    assert_eq!(written(typed.as_bytes()), format!("{family}x|yz\nabc"));
    let typed = format!("abcd\n{family}{family}{family}\x1b[A\x1b[D\x1b[B");
    let expected = format!("abcd\n{family}|{family}{family}");
    assert_eq!(written(typed.as_bytes()), expected);
}

#[test]
fn the_cursor_stands_in_the_column_where_the_terminal_shows_it() {
    for (text, columns) in [
        ("🇩🇪", 2),
        ("👨\u{200d}👩\u{200d}👧", 2),
        ("👍🏽", 2),
        ("e\u{301}", 1),
        ("\u{1112}\u{1161}\u{11ab}", 2),
        ("❤\u{fe0f}", 2),
        ("日", 2),
        ("\t", 4),
    ] {
        let mut editor = Editor::default();
        editor.press(Key::Paste(text.to_owned()));
        assert_eq!(editor.shown(40).cursor, (0, 2 + columns), "{text:?}");
    }
}

#[test]
fn rows_break_between_characters_and_the_cursor_is_never_inside_one() {
    let mut editor = Editor::default();
    for cluster in CLUSTERS {
        editor.press(Key::Paste(cluster.repeat(3)));
    }
    for width in 4..12 {
        let shown = editor.shown(width);
        let rows: Vec<String> = shown.rows.iter().map(|row| row.plain()).collect();
        for row in &rows {
            let mut rest = row.get(PROMPT_BYTES..).unwrap_or_default();
            if row.starts_with(' ') {
                rest = &row[2..];
            }
            while let Some(next) = CLUSTERS.iter().find(|it| rest.starts_with(**it)) {
                rest = &rest[next.len()..];
            }
            assert_eq!(rest, "", "{width}: {row:?}");
        }
    }
}

/// Length of the prompt before the first row.
const PROMPT_BYTES: usize = "❯ ".len();
