//! A session as one HTML page that stands alone: no scripts, nothing loaded, light and dark.

use std::io::Write;

use domain::event::ToolStatus;
use journal::{Reader, Stored};

use super::{About, Document, Trimmed};
use crate::render::one_line;
use crate::safe_text::without_controls;
use crate::sessions::show::damage;
use crate::sessions::transcript::{Piece, Tone, Transcript, Who, Words, status_name};
use crate::sessions::walk::{self, End};

/// Longest tool result that is open from the start.
const OPEN_BYTES_MAX: usize = 600;

const STYLE: &str = include_str!("page.css");

/// The page so far.
#[derive(Default)]
pub(super) struct Html {
    transcript: Transcript,
}

impl Document for Html {
    fn begin(&mut self, out: &mut dyn Write, about: &About) -> anyhow::Result<()> {
        let title = escaped(&one_line(&about.title()));
        // Even if something slipped through, the page may run and load nothing.
        let policy = "default-src 'none'; style-src 'unsafe-inline'";
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p>session <code>{}</code>",
            about.id
        )?;
        if let Some(meta) = &about.meta {
            if !meta.cwd.is_empty() {
                write!(out, " · <code>{}</code>", escaped(&one_line(&meta.cwd)))?;
            }
            let (from, to) = (meta.created_at.to_rfc3339(), meta.updated_at.to_rfc3339());
            write!(
                out,
                " · {} events · {} to {}",
                meta.head,
                time(&from),
                time(&to)
            )?;
        }
        Ok(writeln!(out, "</p>\n</header>")?)
    }

    fn event(
        &mut self,
        out: &mut dyn Write,
        reader: &Reader,
        stored: &Stored,
    ) -> anyhow::Result<()> {
        let piece = self.transcript.read(stored);
        let seq = stored.seq;
        let at = time(&stored.ts.to_rfc3339());
        let place = format!("<a href=\"#e{seq}\">{seq}</a> {at}");
        match piece {
            Piece::Silent => return Ok(()),
            Piece::Message { who, text, is_cut } => {
                let (class, name) = (class(who), who.name());
                write!(
                    out,
                    "<article id=\"e{seq}\" class=\"{class}\">\n<h2>{name} <small>{place}</small></h2>\n\
                     <div class=\"text\">"
                )?;
                words(out, reader, text)?;
                let cut = if is_cut {
                    "<p class=\"bad\">cut short</p>\n"
                } else {
                    ""
                };
                write!(out, "</div>\n{cut}</article>\n")?;
            }
            Piece::Call { name, title, input } => write!(
                out,
                "<article id=\"e{seq}\" class=\"tool\">\n<h2>tool <code>{}</code> {} \
                 <small>{place}</small></h2>\n<pre>{}</pre>\n</article>\n",
                escaped(&one_line(name)),
                escaped(&one_line(title)),
                escaped(&serde_json::to_string_pretty(input)?)
            )?,
            Piece::Outcome {
                name,
                status,
                text,
                allowed,
            } => {
                let why = allowed.map_or_else(String::new, |why| format!(", {}", why.sentence()));
                let open = if text.len() <= OPEN_BYTES_MAX {
                    " open"
                } else {
                    ""
                };
                let tone = tone_class(match status {
                    ToolStatus::Completed => Tone::Good,
                    ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Unknown => Tone::Bad,
                    ToolStatus::Cancelled | ToolStatus::NotRun => Tone::Plain,
                });
                write!(
                    out,
                    "<details id=\"e{seq}\" class=\"tool\"{open}>\n<summary><code>{}</code> \
                     <span class=\"{tone}\">{}</span>{why} <small>{place}</small></summary>\n\
                     <pre>{}</pre>\n</details>\n",
                    escaped(&name),
                    status_name(status),
                    escaped(&without_controls(text))
                )?;
            }
            Piece::Line { text, tone } => writeln!(
                out,
                "<p id=\"e{seq}\" class=\"line\"><span class=\"{}\">{}</span> <small>{place}</small></p>",
                tone_class(tone),
                escaped(&text)
            )?,
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, end: End) -> anyhow::Result<()> {
        if let End::Damaged(at) = end {
            writeln!(out, "<p class=\"bad\">{}</p>", escaped(&damage(at)))?;
        }
        Ok(writeln!(out, "</main>\n</body>\n</html>")?)
    }
}

fn words(out: &mut dyn Write, reader: &Reader, words: Words<'_>) -> anyhow::Result<()> {
    let mut trimmed = Trimmed::default();
    let mut take = |piece: &str| {
        let piece = trimmed.push(&without_controls(piece));
        Ok(out.write_all(escaped(&piece).as_bytes())?)
    };
    match words {
        Words::Plain(text) => take(text),
        Words::Stored(text) => walk::text(reader, text, 0, take),
    }
}

fn class(who: Who) -> &'static str {
    match who {
        Who::You | Who::Queued => "you",
        Who::Assistant => "assistant",
        Who::Thought => "thought",
        Who::Server => "server",
    }
}

fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Bad => "bad",
    }
}

fn time(rfc3339: &str) -> String {
    let second = rfc3339.get(..19).unwrap_or(rfc3339).replace('T', " ");
    format!("<time datetime=\"{rfc3339}\">{second}</time>")
}

/// Text that is nothing but text, in an element or in a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_in_a_session_becomes_markup() {
        assert_eq!(
            escaped("</div><script>alert('&')</script>\""),
            "&lt;/div&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;&quot;"
        );
    }
}
