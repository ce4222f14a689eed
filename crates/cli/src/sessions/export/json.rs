//! A session as one JSON array of events: the stored form without checksums, texts in place.

use std::io::Write;

use domain::event::Text;
use journal::{Reader, Stored};
use serde_json::{Map, Value};

use super::{About, Document, text_of};
use crate::sessions::walk::{self, End};

/// The array so far.
#[derive(Default)]
pub(super) struct Json {
    has_events: bool,
}

impl Document for Json {
    fn begin(&mut self, out: &mut dyn Write, _: &About) -> anyhow::Result<()> {
        Ok(out.write_all(b"[")?)
    }

    fn event(
        &mut self,
        out: &mut dyn Write,
        reader: &Reader,
        stored: &Stored,
    ) -> anyhow::Result<()> {
        out.write_all(if self.has_events { b",\n" } else { b"\n" })?;
        self.has_events = true;
        let mut head = Map::new();
        head.insert("seq".to_owned(), stored.seq.0.into());
        head.insert("ts".to_owned(), stored.ts.0.into());
        head.insert("type".to_owned(), stored.event.kind().into());
        let head = Value::Object(head).to_string();
        out.write_all(head.trim_end_matches('}').as_bytes())?;
        let fields = stored.event.fields_to_string()?;
        let fields = fields.get(1..fields.len() - 1).unwrap_or_default();
        if !fields.is_empty() {
            out.write_all(b",")?;
        }
        match text_of(&stored.event) {
            Some(text @ Text::Blob { .. }) => write_with_text(out, reader, fields, text)?,
            _ => out.write_all(fields.as_bytes())?,
        }
        Ok(out.write_all(b"}")?)
    }

    fn finish(&mut self, out: &mut dyn Write, _: End) -> anyhow::Result<()> {
        Ok(out.write_all(b"\n]\n")?)
    }
}

/// Writes `fields` with the text in place of its name, without holding it in memory.
fn write_with_text(
    out: &mut dyn Write,
    reader: &Reader,
    fields: &str,
    text: &Text,
) -> anyhow::Result<()> {
    let name = serde_json::to_string(text)?;
    let Some((before, after)) = fields.split_once(&name) else {
        return Ok(out.write_all(fields.as_bytes())?);
    };
    out.write_all(before.as_bytes())?;
    out.write_all(b"\"")?;
    walk::text(reader, text, 0, |piece| {
        let quoted = serde_json::to_string(piece)?;
        let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        Ok(out.write_all(inside.as_bytes())?)
    })?;
    out.write_all(b"\"")?;
    Ok(out.write_all(after.as_bytes())?)
}
