//! What was said on a connection, for a failing test to show.

use std::fmt;

/// Most messages on one connection: a test that needs more is a benchmark.
const MESSAGES_MAX: usize = 1_000_000;

/// The newest messages are the ones that explain a failure.
const SHOWN_MAX: usize = 60;

/// Long enough for every message but replayed file contents.
const SHOWN_CHARACTERS_MAX: usize = 600;

/// Every message of one connection, in order.
#[derive(Default)]
pub(super) struct Transcript(Vec<(Speaker, String)>);

/// Who sent a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Client,
    Agent,
}

impl Transcript {
    pub(super) fn add(&mut self, speaker: Speaker, text: &str) {
        assert!(self.0.len() < MESSAGES_MAX, "too many messages for a test");
        self.0.push((speaker, text.to_owned()));
    }

    /// What `speaker` said, in order.
    pub(super) fn of(&self, speaker: Speaker) -> impl Iterator<Item = &str> {
        let said = self.0.iter().filter(move |(who, _)| *who == speaker);
        said.map(|(_, text)| text.as_str())
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.0.len().saturating_sub(SHOWN_MAX);
        if skipped > 0 {
            writeln!(f, "… {skipped} earlier messages")?;
        }
        for (speaker, text) in &self.0[skipped..] {
            let arrow = match speaker {
                Speaker::Client => "→",
                Speaker::Agent => "←",
            };
            let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
            let rest = if shown.len() < text.len() { "…" } else { "" };
            writeln!(f, "{arrow} {shown}{rest}")?;
        }
        Ok(())
    }
}
