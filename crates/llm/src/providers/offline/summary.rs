//! A summary made of a text's own words: headings, first lines, counts.

use std::fmt::Write;

/// Headings shown; more would not be a summary.
const HEADINGS_MAX: usize = 12;

/// Characters of the text's beginning shown.
const OPENING_CHARS_MAX: usize = 400;

/// Says how long `text` is, how it begins and which headings it has.
pub(super) fn summarise(name: &str, text: &str) -> String {
    let (lines, words) = (text.lines().count(), text.split_whitespace().count());
    if words == 0 {
        return format!("`{name}` is empty.");
    }
    let mut summary = format!(
        "**`{name}`** has {} and {}.",
        counted(lines, "line"),
        counted(words, "word")
    );
    let headings: Vec<(usize, &str)> = headings(text).collect();
    if let Some((_, title)) = headings.first() {
        let _ = write!(summary, " Its title is “{title}”.");
    }
    if let Some(opening) = opening(text) {
        let _ = write!(summary, "\n\nIt begins:\n\n> {opening}");
    }
    if headings.len() > 1 {
        summary.push_str("\n\nIts headings:\n");
        for (level, heading) in headings.iter().take(HEADINGS_MAX) {
            let indent = "  ".repeat(level.saturating_sub(1));
            let _ = write!(summary, "\n{indent}- {heading}");
        }
        if let Some(more) = headings
            .len()
            .checked_sub(HEADINGS_MAX)
            .filter(|more| *more > 0)
        {
            let _ = write!(summary, "\n- … and {more} more");
        }
    }
    summary.push_str(
        "\n\nThis is an extract, made by counting and copying: I am not an AI model and do not \
         understand texts.",
    );
    summary
}

pub(super) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Level and text of each Markdown heading outside code blocks.
fn headings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().filter_map(move |line| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let heading = line[level..].trim().trim_end_matches('#').trim_end();
        let is_heading = (1..=6).contains(&level)
            && line[level..].starts_with(' ')
            && !heading.is_empty()
            && !is_code;
        is_heading.then_some((level, heading))
    })
}

/// The first paragraph that is prose, on one line.
fn opening(text: &str) -> Option<String> {
    let is_prose = |line: &&str| {
        let line = line.trim_start();
        line.starts_with(char::is_alphanumeric) || line.starts_with(['*', '_', '"', '“', '`'])
    };
    let lines = text.lines().skip_while(|line| !is_prose(line));
    let paragraph: Vec<&str> = lines
        .take_while(|line| !line.trim().is_empty())
        .take(8)
        .collect();
    let paragraph = paragraph.join(" ");
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let paragraph = words.join(" ");
    if paragraph.is_empty() {
        return None;
    }
    match paragraph.char_indices().nth(OPENING_CHARS_MAX) {
        Some((cut, _)) => Some(format!("{} …", paragraph[..cut].trim_end())),
        None => Some(paragraph),
    }
}
