//! `sessions search`: the events that hold all of the given words, in any case.

use std::io::{self, BufWriter, Write};

use domain::event::Text;
use domain::{Event, EventSeq};
use journal::{FileStore, Reader, StoreError, Stored};
use serde_json::Value;

use super::walk::{self, End, Walk};
use crate::render::{self, Exit, Palette, one_line};
use crate::settings::Settings;

/// Characters shown before and after the first hit.
const AROUND_CHARACTERS: usize = 40;

/// Prints one line per event: session, number, type, and the words in their surroundings.
///
/// # Errors
/// If the store or the output fails.
pub(super) fn run(
    store: Option<&FileStore>,
    words: &[String],
    settings: &Settings,
) -> anyhow::Result<Exit> {
    let palette = Palette::stdout(&settings.environment);
    let query = Query::new(words);
    let mut out = BufWriter::new(render::stdout());
    let mut is_found = false;
    for (store, id) in super::all(store)? {
        let mut walk = match Walk::after(store, id, EventSeq(0)) {
            Ok(walk) => walk,
            Err(error) => {
                tracing::warn!(session = %id, %error, "not searched");
                continue;
            }
        };
        let end = walk.visit_rest(|reader, stored| {
            let Some(snippet) = query.find(reader, stored)? else {
                return Ok(());
            };
            is_found = true;
            let place = palette.dim(&format!("{id} {:>6}", stored.seq.0));
            let kind = one_line(stored.event.kind());
            writeln!(out, "{place} {kind}: {}", query.shown(&snippet, palette))?;
            Ok(out.flush()?)
        });
        match end {
            Ok(End::Whole) => {}
            Ok(End::Damaged(at)) => {
                tracing::warn!(session = %id, %at, "damaged; searched up to there");
            }
            // One session's trouble must not hide what the others hold.
            Err(error) if error.is::<StoreError>() => {
                tracing::warn!(session = %id, %error, "not searched to its end");
            }
            Err(error) => return Err(error),
        }
    }
    out.flush()?;
    if !is_found {
        writeln!(io::stderr(), "no event has all of these words")?;
    }
    Ok(Exit::Success)
}

/// Words to look for, in lower case.
struct Query {
    words: Vec<String>,
}

impl Query {
    fn new(words: &[String]) -> Self {
        let words = words.iter().flat_map(|word| word.split_whitespace());
        Self {
            words: words.map(str::to_lowercase).collect(),
        }
    }

    /// The surroundings of the first hit, if the event has all words.
    fn find(&self, reader: &Reader, stored: &Stored) -> anyhow::Result<Option<String>> {
        let mut search = Search::new(&self.words);
        match texts(&stored.event) {
            Texts::Plain(texts) => {
                for text in texts {
                    search.push(text);
                    search.push("\n");
                }
            }
            Texts::Stored(text) => walk::text(reader, text, 0, |piece| {
                search.push(piece);
                Ok(())
            })?,
        }
        Ok(search.snippet())
    }

    /// A snippet with its hits coloured.
    fn shown(&self, snippet: &str, palette: Palette) -> String {
        let mut out = String::new();
        let mut rest = snippet;
        while let Some((at, len)) = first_hit(rest, &self.words) {
            out += &rest[..at];
            out += &palette.red(&rest[at..at + len]);
            rest = &rest[at + len..];
        }
        out + rest
    }
}

/// Looks for words in a text that comes in pieces, in memory for one piece.
struct Search<'a> {
    missing: Vec<&'a str>,
    words: &'a [String],
    /// The end of what came before, long enough for a word across two pieces.
    tail: String,
    tail_characters: usize,
    snippet: Option<String>,
}

impl<'a> Search<'a> {
    fn new(words: &'a [String]) -> Self {
        let longest = words.iter().map(|word| word.chars().count()).max();
        Self {
            missing: words.iter().map(String::as_str).collect(),
            words,
            tail: String::new(),
            tail_characters: longest.unwrap_or(0) + AROUND_CHARACTERS,
            snippet: None,
        }
    }

    fn push(&mut self, piece: &str) {
        let window = std::mem::take(&mut self.tail) + piece;
        let lower = window.to_lowercase();
        self.missing.retain(|word| !lower.contains(word));
        if self.snippet.is_none() && self.words.iter().any(|word| lower.contains(word)) {
            self.snippet = first_hit(&window, self.words).map(|hit| around(&window, hit));
        }
        let from = window.char_indices().rev().nth(self.tail_characters);
        self.tail = window[from.map_or(0, |(at, _)| at)..].to_owned();
    }

    fn snippet(self) -> Option<String> {
        self.snippet.filter(|_| self.missing.is_empty())
    }
}

/// What can be found in an event.
enum Texts<'a> {
    Plain(Vec<&'a str>),
    Stored(&'a Text),
}

fn texts(event: &Event) -> Texts<'_> {
    Texts::Plain(match event {
        Event::AssistantMessage(event) => return Texts::Stored(&event.text),
        Event::AssistantThought(event) => return Texts::Stored(&event.text),
        Event::UserMessage(event) => vec![&event.text],
        Event::PromptQueued(event) => vec![&event.text],
        Event::Notice(event) => vec![&event.text],
        Event::PromptExpanded(event) => vec![&event.text],
        Event::HookRan(event) => {
            let given = [&event.reason, &event.prompt, &event.context];
            given.into_iter().flatten().map(String::as_str).collect()
        }
        Event::ToolResult(event) => vec![&event.text],
        Event::SessionUpdated(event) => event.title.as_deref().into_iter().collect(),
        Event::SessionCreated(event) => vec![&event.cwd],
        Event::Compaction(event) => event.text.as_deref().into_iter().collect(),
        Event::PlanUpdated(event) => event.entries.iter().map(|e| e.content.as_str()).collect(),
        Event::ToolUse(event) => {
            let mut texts = vec![event.name.as_str(), event.title.as_str()];
            strings(&event.input, &mut texts);
            texts
        }
        Event::QuestionAsked(event) => {
            let options = event.options.iter().map(String::as_str);
            std::iter::once(event.question.as_str())
                .chain(options)
                .collect()
        }
        Event::QuestionAnswered(event) => event.text.as_deref().into_iter().collect(),
        Event::Unknown(event) => {
            let mut texts = vec![event.kind.as_str()];
            event
                .fields
                .values()
                .for_each(|value| strings(value, &mut texts));
            texts
        }
        Event::PromptDropped(_)
        | Event::TurnStarted(_)
        | Event::MessageStarted(_)
        | Event::PermissionAsked(_)
        | Event::PermissionAnswered(_)
        | Event::ModeChanged(_)
        | Event::UsageRecorded(_)
        | Event::TurnResult(_)
        | Event::TurnInterrupted(_)
        | Event::SessionRecovered(_)
        | Event::SessionRewound(_)
        | Event::SessionForked(_)
        | Event::ChildLinked(_)
        | Event::SessionClosed(_) => Vec::new(),
    })
}

/// Every string in a value. As deep as the journal's depth limit lets a value be.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Where the first of the words stands in `text`, and its length there, in bytes.
///
/// Character by character: the lower case of a character may have another length.
fn first_hit(text: &str, words: &[String]) -> Option<(usize, usize)> {
    text.char_indices().find_map(|(at, _)| {
        let lengths = words.iter().filter_map(|word| hit_len(&text[at..], word));
        lengths.max().map(|len| (at, len))
    })
}

/// Length of the part of `text` at its start whose lower case is `word`.
fn hit_len(text: &str, word: &str) -> Option<usize> {
    let mut rest = word;
    for (at, c) in text.char_indices() {
        if rest.is_empty() {
            return Some(at);
        }
        for lower in c.to_lowercase() {
            rest = rest.strip_prefix(lower)?;
        }
    }
    rest.is_empty().then_some(text.len())
}

/// The hit with some characters before and after it, in one line.
fn around(text: &str, (at, len): (usize, usize)) -> String {
    let before = text[..at].char_indices().rev().nth(AROUND_CHARACTERS - 1);
    let from = before.map_or(0, |(from, _)| from);
    let after = text[at + len..].char_indices().nth(AROUND_CHARACTERS);
    let to = after.map_or(text.len(), |(more, _)| at + len + more);
    let lead = if from > 0 { "…" } else { "" };
    let trail = if to < text.len() { "…" } else { "" };
    format!("{lead}{}{trail}", one_line(&text[from..to]))
}

#[cfg(test)]
mod tests {
    use super::{Query, Search};
    use crate::render::Palette;

    fn find(words: &str, pieces: &[&str]) -> Option<String> {
        let query = Query::new(&[words.to_owned()]);
        let mut search = Search::new(&query.words);
        pieces.iter().for_each(|piece| search.push(piece));
        search.snippet()
    }

    #[test]
    fn all_words_are_found_in_any_case_also_across_pieces() {
        let text = ["The Dead", "line was EXCEEDED"];
        assert_eq!(
            find("deadline exceeded", &text).as_deref(),
            Some("The Deadline was EXCEEDED")
        );
        assert_eq!(find("deadline missed", &text), None);
        assert_eq!(
            find("straße", &["STRASSE, Straße"]).as_deref(),
            Some("STRASSE, Straße")
        );
        assert_eq!(
            find("i̇stanbul", &["in İstanbul"]).as_deref(),
            Some("in İstanbul")
        );
    }

    #[test]
    fn a_snippet_shows_the_surroundings_of_the_first_hit() {
        let text = format!("{}needle{}", "a ".repeat(100), " b".repeat(100));
        let snippet = find("needle", &[&text]).unwrap();
        assert!(snippet.starts_with("…a a"), "{snippet}");
        assert!(snippet.contains(" needle "), "{snippet}");
        assert!(snippet.chars().count() < 90, "{snippet}");
        let plain = Query::new(&["needle".to_owned()]);
        assert_eq!(plain.shown(&snippet, Palette::default()), snippet);
    }
}
