//! `sessions verify`: is every journal what was written?

use std::io::Write;

use domain::{EventSeq, SessionId};
use journal::{FileStore, StoreError};

use super::progress::Progress;
use crate::render::{self, Exit, Palette, one_line};
use crate::settings::Settings;

/// What was found in all sessions together.
#[derive(Debug, Default)]
struct Findings {
    sessions: u64,
    events: u64,
    bytes: u64,
    damaged: Vec<(SessionId, EventSeq)>,
    torn: Vec<(SessionId, u64)>,
    /// Sessions whose streamed text is damaged.
    texts: Vec<SessionId>,
    /// Sessions that could not be checked, and why.
    unchecked: Vec<(SessionId, String)>,
}

/// Checks every session; fails if one is damaged before its end.
///
/// # Errors
/// If the store cannot be listed, or the output fails.
pub(super) fn run(store: Option<&FileStore>, settings: &Settings) -> anyhow::Result<Exit> {
    let sessions = super::all(store)?;
    let mut progress = Progress::new(sessions.len(), "sessions");
    let mut findings = Findings::default();
    for (done, (store, id)) in sessions.into_iter().enumerate() {
        progress.at(done);
        findings.check(store, id);
    }
    drop(progress);
    let palette = Palette::stdout(&settings.environment);
    render::stdout().write_all(findings.report(palette).as_bytes())?;
    Ok(findings.exit())
}

impl Findings {
    fn check(&mut self, store: &FileStore, id: SessionId) {
        match store.verify(id) {
            Ok(found) => {
                self.sessions += 1;
                self.events += found.events;
                self.bytes += found.bytes + found.blob_bytes;
                self.damaged.extend(found.damaged_at.map(|at| (id, at)));
                self.texts.extend(found.is_text_damaged.then_some(id));
                if found.torn_bytes > 0 && found.damaged_at.is_none() {
                    self.torn.push((id, found.torn_bytes));
                }
            }
            // Deleted while we looked.
            Err(StoreError::NotFound) => {}
            Err(error) => {
                self.sessions += 1;
                self.unchecked.push((id, one_line(&error.to_string())));
            }
        }
    }

    fn exit(&self) -> Exit {
        if self.damaged.is_empty() && self.texts.is_empty() && self.unchecked.is_empty() {
            Exit::Success
        } else {
            Exit::Failure
        }
    }

    fn report(&self, palette: Palette) -> String {
        let heads = ["SESSIONS", "EVENTS", "BYTES", "DAMAGED", "TORN"];
        let numbers = [
            self.sessions,
            self.events,
            self.bytes,
            (self.damaged.len() + self.texts.len()) as u64,
            self.torn.len() as u64,
        ];
        let numbers = numbers.map(grouped);
        let widths: [usize; 5] =
            std::array::from_fn(|column| numbers[column].len().max(heads[column].len()));
        let line = |cells: [&str; 5]| {
            let cells = cells.iter().zip(widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:>width$}"))
                .collect();
            cells.join("  ")
        };
        let shown = line(std::array::from_fn(|column| numbers[column].as_str()));
        let mut text = format!("{}\n{shown}\n", palette.dim(&line(heads)));
        for (id, at) in &self.damaged {
            let sentence = format!("✘ {id} is damaged at event {at}; it can be read up to there");
            text += &format!("{}\n", palette.red(&sentence));
        }
        for id in &self.texts {
            let sentence = format!(
                "✘ {id}: the text of the message that was being streamed is damaged; the next \
                 start keeps it up to the damage"
            );
            text += &format!("{}\n", palette.red(&sentence));
        }
        for (id, why) in &self.unchecked {
            let sentence = format!("✘ {id} could not be checked: {why}");
            text += &format!("{}\n", palette.red(&sentence));
        }
        for (id, bytes) in &self.torn {
            let bytes = grouped(*bytes);
            let sentence = format!(
                "– {id} has a torn end of {bytes} bytes that were never acknowledged; the next \
                 start cuts it off"
            );
            text += &format!("{}\n", palette.dim(&sentence));
        }
        if self.exit() == Exit::Success {
            text += &format!("{}\n", palette.green("✔ nothing is damaged"));
        }
        text
    }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use domain::EventSeq;

    use super::{Findings, grouped};
    use crate::render::{Exit, Palette};

    #[test]
    fn a_torn_end_is_noted_and_damage_fails() {
        let id = "3f2a".repeat(8).parse().unwrap();
        let mut findings = Findings {
            sessions: 1_200,
            events: 7,
            torn: vec![(id, 37)],
            ..Findings::default()
        };
        assert_eq!(findings.exit(), Exit::Success);
        assert_eq!(
            findings.report(Palette::default()),
            "SESSIONS  EVENTS  BYTES  DAMAGED  TORN\n   \
                1,200       7      0        0     1\n\
             – 3f2a3f2a3f2a3f2a3f2a3f2a3f2a3f2a has a torn end of 37 bytes that were never \
             acknowledged; the next start cuts it off\n\
             ✔ nothing is damaged\n"
        );
        findings.damaged.push((id, EventSeq(3)));
        assert_eq!(findings.exit(), Exit::Failure);
        let report = findings.report(Palette::default());
        assert!(report.contains("is damaged at event 3"), "{report}");
        assert!(!report.contains("nothing is damaged"), "{report}");
    }

    #[test]
    fn damaged_streamed_text_fails() {
        let id = "3f2a".repeat(8).parse().unwrap();
        let findings = Findings {
            texts: vec![id],
            ..Findings::default()
        };
        assert_eq!(findings.exit(), Exit::Failure);
        let report = findings.report(Palette::default());
        assert!(report.contains("being streamed is damaged"), "{report}");
    }

    #[test]
    fn thousands_stand_apart() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
