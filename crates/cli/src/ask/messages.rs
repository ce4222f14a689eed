//! The messages of one answer: a model says one before each tool call, and one at the end.

/// Most messages that are kept apart; a turn has about one for each step. What follows joins the last.
const MESSAGES_MAX: usize = 4_096;

/// Longest message that is repeated in a sentence.
const REPEATED_BYTES_MAX: usize = 1_024;

/// What was said so far.
#[derive(Debug, Default)]
pub(super) struct Messages {
    all: Vec<String>,
    bytes: u64,
    /// The id of the last one, if it has one.
    id: Option<String>,
    is_over: bool,
    has_text: bool,
    /// Line breaks that the last one ends with.
    breaks: usize,
}

impl Messages {
    /// Goes on with the message `id`; gives what stands between it and the one before, if it is another.
    pub(super) fn begin(&mut self, id: Option<&str>) -> &'static str {
        let is_same = match (id, self.id.as_deref()) {
            (Some(id), Some(last)) => id == last,
            (_, _) => !self.is_over,
        };
        if is_same && !self.all.is_empty() {
            return "";
        }
        self.is_over = false;
        self.id = id.map(str::to_owned);
        if self.all.len() < MESSAGES_MAX {
            self.all.push(String::new());
        }
        match self.breaks {
            _ if !self.has_text => "",
            0 => "\n\n",
            1 => "\n",
            _ => "",
        }
    }

    /// Adds to the message. What is beyond `bytes_max` bytes is counted and not kept.
    pub(super) fn push(&mut self, text: &str, bytes_max: u64) {
        let breaks = text
            .chars()
            .rev()
            .take_while(|letter| *letter == '\n')
            .count();
        self.breaks = match breaks == text.len() {
            true => self.breaks + breaks,
            false => breaks,
        };
        self.has_text |= !text.trim().is_empty();
        if self.bytes < bytes_max
            && let Some(last) = self.all.last_mut()
        {
            last.push_str(text);
        }
        self.bytes += text.len() as u64;
    }

    /// The message is over.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.id = None;
    }

    pub(super) fn has_text(&self) -> bool {
        self.has_text
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn all(&self) -> &[String] {
        &self.all
    }

    pub(super) fn last(&self) -> Option<&str> {
        let last = self.all.last()?.trim();
        (!last.is_empty() && last.len() <= REPEATED_BYTES_MAX).then_some(last)
    }

    /// All of them as they are printed.
    pub(super) fn joined(&self) -> String {
        let mut joined = String::new();
        for message in &self.all {
            if !joined.trim().is_empty() {
                while !joined.ends_with("\n\n") {
                    joined.push('\n');
                }
            }
            joined.push_str(message);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::Messages;

    fn printed(pieces: &[(Option<&str>, &str)]) -> (String, Messages) {
        let (mut messages, mut printed) = (Messages::default(), String::new());
        for (id, text) in pieces {
            if text.is_empty() {
                messages.end();
                continue;
            }
            printed += messages.begin(*id);
            messages.push(text, 1_000);
            printed += text;
        }
        (printed, messages)
    }

    #[test]
    fn messages_are_set_apart_by_one_empty_line() {
        for (pieces, expected) in [
            (
                vec![(Some("1"), "a"), (Some("1"), "b"), (Some("2"), "c")],
                "ab\n\nc",
            ),
            (vec![(Some("1"), "a\n"), (Some("2"), "c")], "a\n\nc"),
            (vec![(Some("1"), "a\n\n"), (Some("2"), "c")], "a\n\nc"),
            (
                vec![(Some("1"), "a"), (Some("1"), "\n"), (Some("2"), "c")],
                "a\n\nc",
            ),
            (
                vec![(None, "a"), (None, "b"), (None, ""), (None, "c")],
                "ab\n\nc",
            ),
            (vec![(None, ""), (Some("1"), "a")], "a"),
        ] {
            let (printed, messages) = printed(&pieces);
            assert_eq!(printed, expected, "{pieces:?}");
            assert_eq!(messages.joined(), expected, "{pieces:?}");
        }
    }

    #[test]
    fn white_space_is_no_answer() {
        let (_, messages) = printed(&[(Some("1"), " \n")]);
        assert!(!messages.has_text());
        let (_, messages) = printed(&[(Some("1"), " \n"), (Some("2"), "x")]);
        assert!(messages.has_text());
        assert_eq!(messages.last(), Some("x"));
    }
}
