//! Scripts for `sed`: whether they only print, drop and replace.

use super::super::super::shell::Word;
use super::is_stream;

/// Whether none of them runs or writes anything.
pub(super) fn is_harmless(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    let (mut has_script, mut is_asking) = (false, false);
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        let script = match text {
            "-e" | "--expression" => words.next(),
            "-f" | "--file" => match words.next() {
                Some(file) if !file.is_open && !is_stream(&file.text) => {
                    has_script = true;
                    continue;
                }
                _ => return false,
            },
            "--version" | "--help" => {
                is_asking = true;
                continue;
            }
            "-n" | "-E" | "-r" | "-i" | "-z" | "-s" | "-u" | "-nE" | "-nr" | "-ni" | "-Ei"
            | "-ri" | "--quiet" | "--silent" | "--regexp-extended" | "--in-place"
            | "--null-data" | "--" => continue,
            _ if text.starts_with("-i") && !text.contains('e') && !word.is_open => continue,
            _ if text.starts_with('-') => return false,
            _ if has_script => continue,
            _ => Some(word),
        };
        has_script = true;
        if script.is_none_or(|script| script.is_open || !is_plain(&script.text)) {
            return false;
        }
    }
    has_script || is_asking
}

/// Whether a script is only lines to print, drop or substitute.
fn is_plain(script: &str) -> bool {
    script.split('\n').all(|line| commands(line).is_some())
}

fn commands(line: &str) -> Option<()> {
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        rest = address(rest)?;
        let command = rest.chars().next()?;
        rest = &rest[command.len_utf8()..];
        match command {
            'p' | 'd' | 'q' | 'Q' | '=' | 'n' | 'N' | 'D' | 'P' | 'g' | 'G' | 'h' | 'H' | 'x'
            | '{' | '}' => {}
            's' | 'y' => rest = substitution(rest)?,
            _ => return None,
        }
        rest = rest.trim_start_matches([' ', ';', '\t']);
    }
    Some(())
}

/// Passes over numbers, `$` and patterns before a command.
fn address(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || " ,$!~+".contains(c));
        match rest.strip_prefix('/') {
            Some(pattern) => rest = part(pattern, '/')?.trim_start_matches('I'),
            None => return Some(rest),
        }
    }
}

/// Passes over `/…/…/flags`, if no flag runs or writes.
fn substitution(text: &str) -> Option<&str> {
    let mark = text
        .chars()
        .next()
        .filter(|c| !c.is_alphanumeric() && !matches!(c, '\\' | ' '))?;
    let rest = part(part(&text[mark.len_utf8()..], mark)?, mark)?;
    let end = rest
        .find(|c: char| !"gpiIM0123456789".contains(c))
        .unwrap_or(rest.len());
    let rest = &rest[end..];
    (rest.is_empty() || rest.starts_with([' ', ';', '}'])).then_some(rest)
}

/// What follows the next `mark` that is not escaped.
fn part(text: &str, mark: char) -> Option<&str> {
    let (mut is_escaped, mut is_bracket) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_bracket = true,
            ']' => is_bracket = false,
            // In brackets the mark may stand for itself or not.
            c if c == mark && is_bracket => return None,
            c if c == mark => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}
