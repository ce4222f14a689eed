//! `sessions export`: the whole session in a form for others, in bounded memory.

mod html;
mod json;
mod markdown;

use std::io::{self, BufWriter, Write};

use domain::event::Text;
use domain::{Event, EventSeq, SessionId};
use journal::{FileStore, Meta, Reader, StoreError, Stored};

use super::show::{damage, torn_note};
use super::walk::{self, End, Walk};
use crate::args::ExportFormat;
use crate::render::{self, Exit};

/// Prints the session. Remarks about it go to stderr.
///
/// # Errors
/// If the store or the output fails.
pub(super) fn run(store: &FileStore, id: SessionId, format: ExportFormat) -> anyhow::Result<Exit> {
    let mut out = BufWriter::new(render::stdout());
    let end = write(store, id, format, &mut out)?;
    out.flush()?;
    drop(out);
    let mut notes = io::stderr().lock();
    if let Some(torn) = torn_note(store, id)? {
        writeln!(notes, "note: {torn}")?;
    }
    match end {
        End::Whole => Ok(Exit::Success),
        End::Damaged(at) => {
            writeln!(notes, "error: {}", damage(at))?;
            Ok(Exit::Failure)
        }
    }
}

/// A document that is written event by event.
trait Document {
    fn begin(&mut self, out: &mut dyn Write, about: &About) -> anyhow::Result<()>;
    fn event(
        &mut self,
        out: &mut dyn Write,
        reader: &Reader,
        stored: &Stored,
    ) -> anyhow::Result<()>;
    fn finish(&mut self, out: &mut dyn Write, end: End) -> anyhow::Result<()>;
}

/// What stands above a session.
struct About {
    id: SessionId,
    /// Missing if the session is damaged.
    meta: Option<Meta>,
}

impl About {
    fn title(&self) -> String {
        let title = self.meta.as_ref().and_then(|meta| meta.title.clone());
        title.unwrap_or_else(|| format!("Session {}", self.id))
    }
}

fn write(
    store: &FileStore,
    id: SessionId,
    format: ExportFormat,
    out: &mut dyn Write,
) -> anyhow::Result<End> {
    let mut document: Box<dyn Document> = match format {
        ExportFormat::Markdown => Box::new(markdown::Markdown::default()),
        ExportFormat::Html => Box::new(html::Html::default()),
        // Not from what this version makes of the events, which may be less than there is.
        ExportFormat::Json => return json::write(&mut store.reader(id)?, out),
    };
    let meta = match store.meta(id) {
        Ok(meta) => Some(meta),
        Err(StoreError::Damaged { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    document.begin(out, &About { id, meta })?;
    let mut walk = Walk::after(store, id, EventSeq(0))?;
    let end = walk.visit_rest(|reader, stored| {
        // Found wrong half-way, a text would leave half an event in the document.
        if let Some(text) = text_of(&stored.event) {
            walk::check(reader, text)?;
        }
        document.event(out, reader, stored)
    })?;
    document.finish(out, end)?;
    Ok(end)
}

/// Leaves out the line breaks at the end of a text that comes in pieces.
#[derive(Default)]
struct Trimmed {
    breaks: usize,
}

impl Trimmed {
    /// What can be written now.
    fn push(&mut self, piece: &str) -> String {
        let words = piece.trim_end_matches('\n');
        let breaks = piece.len() - words.len();
        if words.is_empty() {
            self.breaks += breaks;
            return String::new();
        }
        "\n".repeat(std::mem::replace(&mut self.breaks, breaks)) + words
    }
}

/// The text of a finished message, which may stand in a blob.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "no other event has such a text"
)]
fn text_of(event: &Event) -> Option<&Text> {
    match event {
        Event::AssistantMessage(event) => Some(&event.text),
        Event::AssistantThought(event) => Some(&event.text),
        _ => None,
    }
}
