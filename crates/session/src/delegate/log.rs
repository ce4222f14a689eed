//! What people are shown of a sub-agent at work: its newest words and acts.

use domain::limits::PROGRESS_BYTES_MAX;

/// The newest of it, as much as a call may show.
#[derive(Default)]
pub(super) struct Log {
    text: String,
    has_news: bool,
}

impl Log {
    /// It said something.
    pub(super) fn say(&mut self, words: &str) {
        self.text.push_str(words);
        self.trim();
    }

    /// It does something.
    pub(super) fn act(&mut self, title: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str("→ ");
        self.text.push_str(title);
        self.text.push('\n');
        self.trim();
    }

    /// Whether there is something that was not shown.
    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    /// What to show now.
    pub(super) fn newest(&mut self) -> &str {
        self.has_news = false;
        &self.text
    }

    fn trim(&mut self) {
        self.has_news = true;
        let excess = self.text.len().saturating_sub(PROGRESS_BYTES_MAX);
        if excess > 0 {
            self.text.drain(..self.text.ceil_char_boundary(excess));
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::limits::PROGRESS_BYTES_MAX;

    use super::Log;

    #[test]
    fn words_run_together_acts_have_lines_and_only_the_newest_is_kept() {
        let mut log = Log::default();
        assert!(!log.has_news());
        log.say("I ");
        log.say("look");
        log.act("Read a");
        log.act("Read b");
        log.say("done");
        assert!(log.has_news());
        assert_eq!(log.newest(), "I look\n→ Read a\n→ Read b\ndone");
        assert!(!log.has_news());
        log.say(&"ü".repeat(PROGRESS_BYTES_MAX));
        assert!(log.newest().len() <= PROGRESS_BYTES_MAX);
        assert!(log.newest().ends_with("üü"));
    }
}
