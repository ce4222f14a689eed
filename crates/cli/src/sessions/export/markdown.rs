//! A session as a Markdown document.

use std::io::Write;

use journal::{Reader, Stored};

use super::{About, Document, Trimmed};
use crate::render::one_line;
use crate::safe_text::without_controls;
use crate::sessions::show::damage;
use crate::sessions::transcript::{Piece, Transcript, Who, Words, status_name};
use crate::sessions::walk::{self, End};

/// The document so far.
#[derive(Default)]
pub(super) struct Markdown {
    transcript: Transcript,
}

impl Document for Markdown {
    fn begin(&mut self, out: &mut dyn Write, about: &About) -> anyhow::Result<()> {
        writeln!(out, "# {}\n", escaped(&one_line(&about.title())))?;
        writeln!(out, "* session `{}`", about.id)?;
        if let Some(meta) = &about.meta {
            if !meta.cwd.is_empty() {
                writeln!(out, "* directory {}", code(&one_line(&meta.cwd)))?;
            }
            writeln!(out, "* {} events", meta.head)?;
            writeln!(
                out,
                "* from {} to {}",
                meta.created_at.to_rfc3339(),
                meta.updated_at.to_rfc3339()
            )?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        out: &mut dyn Write,
        reader: &Reader,
        stored: &Stored,
    ) -> anyhow::Result<()> {
        let place = format!("event {}, {}", stored.seq, stored.ts.to_rfc3339());
        match self.transcript.read(stored) {
            Piece::Silent => {}
            Piece::Message { who, text, is_cut } => {
                let name = heading(who);
                writeln!(out, "\n## {name}\n\n*{place}*\n")?;
                match (who, text) {
                    (Who::Assistant, words) => plain(out, reader, words)?,
                    (_, words) => quoted(out, reader, words)?,
                }
                if is_cut {
                    writeln!(out, "\n*[cut short]*")?;
                }
            }
            Piece::Call { name, title, input } => {
                let name = code(&one_line(name));
                writeln!(out, "\n### Tool {name}\n\n*{place}*\n")?;
                if !title.is_empty() {
                    writeln!(out, "{}\n", escaped(&one_line(title)))?;
                }
                fenced(out, "json", &serde_json::to_string_pretty(input)?)?;
            }
            Piece::Outcome {
                name,
                status,
                text,
                allowed,
            } => {
                let why = allowed.map_or_else(String::new, |why| format!(", {}", why.sentence()));
                let status = status_name(status);
                writeln!(out, "\n**{}** {status}{why} (*{place}*)\n", code(&name))?;
                if !text.is_empty() {
                    fenced(out, "", text)?;
                }
            }
            Piece::Line { text, .. } => writeln!(out, "\n*{}* ({place})", escaped(&text))?,
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, end: End) -> anyhow::Result<()> {
        if let End::Damaged(at) = end {
            writeln!(out, "\n**{}**", damage(at))?;
        }
        Ok(())
    }
}

fn heading(who: Who) -> &'static str {
    match who {
        Who::You => "You",
        Who::Queued => "You, while a turn was running",
        Who::Assistant => "Assistant",
        Who::Thought => "Thought",
        Who::Server => "Fastness",
    }
}

/// An answer is Markdown already.
fn plain(out: &mut dyn Write, reader: &Reader, words: Words<'_>) -> anyhow::Result<()> {
    let mut trimmed = Trimmed::default();
    each(reader, words, |piece| {
        Ok(out.write_all(trimmed.push(&without_controls(piece)).as_bytes())?)
    })?;
    Ok(out.write_all(b"\n")?)
}

/// What a person wrote is quoted, so that nothing in it passes for a part of the document.
fn quoted(out: &mut dyn Write, reader: &Reader, words: Words<'_>) -> anyhow::Result<()> {
    let mut trimmed = Trimmed::default();
    out.write_all(b"> ")?;
    each(reader, words, |piece| {
        let piece = trimmed.push(&without_controls(piece));
        Ok(out.write_all(piece.replace('\n', "\n> ").as_bytes())?)
    })?;
    Ok(out.write_all(b"\n")?)
}

fn each(
    reader: &Reader,
    words: Words<'_>,
    mut take: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match words {
        Words::Plain(text) => take(text),
        Words::Stored(text) => walk::text(reader, text, 0, take),
    }
}

/// A block of code that no line in it can end.
fn fenced(out: &mut dyn Write, language: &str, text: &str) -> anyhow::Result<()> {
    let text = without_controls(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let text = text.trim_end_matches('\n');
    Ok(writeln!(out, "{fence}{language}\n{text}\n{fence}")?)
}

/// Words in code type, whatever backticks are in them.
fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// Words of which nothing means anything to Markdown or HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_[]<>#&|".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{code, escaped, fenced};

    #[test]
    fn no_text_can_leave_its_block_of_code() {
        let mut out = Vec::new();
        fenced(&mut out, "", "a\n````\nb").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "`````\na\n````\nb\n`````\n");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
    }

    #[test]
    fn a_title_is_only_words() {
        assert_eq!(escaped("<b> *x*"), "\\<b\\> \\*x\\*");
    }
}
