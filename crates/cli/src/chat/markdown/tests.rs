//! Stories of text that streams in: what is finished, and that nothing is lost on the way.

use super::super::text::{Line, Paint};
use super::Markdown;

/// All lines, as they look when the text comes in pieces of `size` bytes.
fn streamed(text: &str, size: usize, width: usize) -> Vec<Line> {
    let mut markdown = Markdown::default();
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(size));
        lines.extend(markdown.push(piece));
        lines.extend(markdown.settle(width));
        rest = after;
    }
    lines.extend(markdown.end());
    lines
}

fn plain(text: &str) -> Vec<String> {
    let lines = streamed(text, usize::MAX, 80);
    lines.iter().map(|line| line.plain()).collect()
}

#[test]
fn blocks_look_like_what_they_are() {
    assert_eq!(
        plain("# Title\n\n- one\n  * two\n3. three\n> said\n---\ntext **bold** *it* `a*b`\n"),
        [
            "Title",
            "",
            "• one",
            "  • two",
            "3. three",
            "│ said",
            "────────────────",
            "text bold it a*b"
        ]
    );
}

#[test]
fn what_only_looks_like_a_mark_stays() {
    for text in [
        "2 * 3 * 4",
        "*.rs and **/*.rs",
        "a_b __init__",
        "x*",
        "#tag",
        "-5",
        "1.5 m",
    ] {
        assert_eq!(plain(text), [text]);
    }
    assert_eq!(plain("\\*not\\* it"), ["*not* it"]);
}

#[test]
fn code_is_left_as_it_is_and_coloured() {
    let text = "```rust\nlet a = 1; // *x*\n# no heading\n```\nafter";
    assert_eq!(
        plain(text),
        [
            "```rust",
            "let a = 1; // *x*",
            "# no heading",
            "```",
            "after"
        ]
    );
    let lines = streamed(text, 3, 80);
    assert!(
        lines[1]
            .painted(Paint::Coloured)
            .starts_with("\x1b[35mlet\x1b[0m a")
    );
}

#[test]
fn a_long_line_is_finished_row_by_row_and_looks_as_if_it_came_at_once() {
    let text =
        "The **quick brown** fox jumps over `the lazy` dog and *then it rests* for a while. "
            .repeat(6);
    for width in [10, 24, 60] {
        let whole = streamed(&text, usize::MAX, width);
        assert_eq!(whole.len(), 1 + whole.len() - 1);
        let at_once: Vec<String> = whole
            .iter()
            .flat_map(|line| line.rows(width))
            .map(|row| row.line.painted(Paint::Coloured).trim_end().to_owned())
            .collect();
        for size in [1, 7, 40] {
            let rows: Vec<String> = streamed(&text, size, width)
                .iter()
                .flat_map(|line| line.rows(width))
                .map(|row| row.line.painted(Paint::Coloured).trim_end().to_owned())
                .collect();
            assert_eq!(rows, at_once, "pieces of {size} at width {width}");
        }
    }
}

#[test]
fn a_line_without_an_end_is_cut_and_nothing_of_it_is_lost() {
    let text = "0123456789".repeat(5_000);
    let shown: String = streamed(&text, 999, 80)
        .iter()
        .map(|line| line.plain())
        .collect();
    assert_eq!(shown, text);
}

#[test]
fn hostile_text_does_nothing() {
    for text in [
        "`",
        "**",
        "*a",
        "\\",
        "```",
        "> ",
        "\u{1b}]0;x\u{7}",
        "~~~\n\u{9b}2J\n",
    ] {
        let lines = streamed(text, 1, 3);
        let bytes: String = lines.iter().map(|line| line.painted(Paint::Bare)).collect();
        assert!(!bytes.chars().any(char::is_control), "{text:?}");
    }
}
