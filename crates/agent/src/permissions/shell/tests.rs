//! The reader against hostile text: it ends, soon, and says what it did not see.

use std::time::{Duration, Instant};

use domain::limits::COMMAND_JUDGED_BYTES_MAX;

use super::super::commands::Judged;
use super::read;

/// Pieces that mean something to a shell.
const PIECES: &[&str] = &[
    "git",
    "rm",
    "x",
    " ",
    " ",
    "\n",
    ";",
    "&&",
    "|",
    "&",
    "(",
    ")",
    "{",
    "}",
    "$(",
    "`",
    "${",
    "$((",
    "))",
    "<(",
    ">(",
    "<<EOF\n",
    "EOF\n",
    "<<<",
    ">",
    ">>",
    "2>&1",
    "'",
    "\"",
    "\\",
    "$x",
    "$'",
    "if ",
    "then ",
    "fi",
    "for ",
    "in ",
    "do ",
    "done",
    "case ",
    "esac",
    ";;",
    "[[ ",
    "]]",
    "function ",
    "sh -c ",
    "eval ",
    "env ",
    "xargs ",
    "sudo ",
    "find -exec ",
    "ssh ",
    "=",
    "a=(",
    "#",
    "~",
    "*",
    "é",
    "\u{200b}",
    "\t",
    "!",
];

/// A text made of pieces, the same for the same seed.
fn text(seed: u64, pieces: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    (0..pieces).map(|_| PIECES[next() % PIECES.len()]).collect()
}

#[test]
fn no_text_makes_it_panic() {
    for seed in 0..20_000 {
        let text = text(seed, 1 + usize::try_from(seed % 40).unwrap());
        let judged = Judged::of(&text, None);
        for (end, _) in text.char_indices().skip(1).step_by(7) {
            Judged::of(&text[..end], None);
        }
        drop(judged);
    }
}

#[test]
fn a_command_that_is_hidden_by_any_text_before_it_is_seen_or_said_not_to_be() {
    // What comes before may open a quote, a comment or a bracket. Closed or not: either the
    // command after it is seen, or something is said to be unseen, or it is quoted text.
    for seed in 0..20_000 {
        let before = text(seed, 1 + usize::try_from(seed % 12).unwrap());
        let judged = Judged::of(&format!("{before}\nfind-me now\n"), None);
        let is_seen = judged
            .lines
            .iter()
            .any(|line| line.text.contains("find-me"));
        let is_text = before.contains(['\'', '"', '`', '\\', '(', '<', '=', '[']);
        let is_loop = before.contains("for ") || before.contains("case ");
        assert!(
            is_seen || judged.unseen.is_some() || is_text || is_loop,
            "{before:?}: {judged:?}"
        );
    }
}

#[test]
fn long_and_deep_texts_are_given_up_in_no_time() {
    let mebibyte = 1024 * 1024;
    for piece in [
        "$(",
        "`",
        "(",
        "{ ",
        "${x:-",
        "\"$(",
        "$((",
        "<(",
        "[[ ",
        "if ",
        "case x in x) ",
        "env ",
        "ssh ",
        "ssh 'a b' ",
        "sh -c ",
        "a;",
        "a|",
        "x ",
        "x=(",
        "<<E\n",
        "'",
        "\\",
        "\n",
        "sudo sudo ",
        "find -exec ",
        "eval ",
        "é",
    ] {
        let started = Instant::now();
        for bytes in [1_000, COMMAND_JUDGED_BYTES_MAX - 1, mebibyte] {
            let text = piece.repeat(bytes / piece.len());
            Judged::of(&text, None);
        }
        let nested = format!("{}x{}", piece.repeat(1_000), ")".repeat(1_000));
        Judged::of(&nested, None);
        // Without optimisation, and with others on the machine.
        assert!(started.elapsed() < Duration::from_secs(5), "{piece}");
    }
    assert!(read(&"a".repeat(mebibyte), 0).unseen.is_some());
    assert!(read(&"$(".repeat(100), 0).unseen.is_some());
    assert!(read(&"a;".repeat(10_000), 0).unseen.is_some());
}
