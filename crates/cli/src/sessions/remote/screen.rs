//! Messages of a server as lines of a conversation, text as it is written.

use std::io::Write;

use serde_json::Value;

use crate::render::{Palette, one_line};
use crate::safe_text::TextFilter;

/// What stands on the terminal so far.
pub(super) struct Screen<W> {
    out: W,
    palette: Palette,
    /// Who speaks, and in which message, while a text is open.
    speaking: Option<(&'static str, String)>,
    is_line_open: bool,
    filter: TextFilter,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, palette: Palette) -> Self {
        Self {
            out,
            palette,
            speaking: None,
            is_line_open: false,
            filter: palette.filter(),
        }
    }

    /// Shows one message; what a person does not need is left out.
    pub(super) fn show(&mut self, message: &Value) -> anyhow::Result<()> {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("session/update") => self.update(&params["update"]),
            Some("session/request_permission") => {
                let title = one_line(params["toolCall"]["title"].as_str().unwrap_or("a tool"));
                self.line(&self.palette.bold(&format!("asks: {title}")))
            }
            Some("_fastness/turn") => {
                let error = &params["error"];
                if error["kind"] == "interrupted" {
                    return self.line(&self.palette.red("interrupted"));
                }
                match (error["message"].as_str(), params["stopReason"].as_str()) {
                    (Some(why), _) => self.line(&self.palette.red(&one_line(why))),
                    (None, Some(reason)) => {
                        self.line(&self.palette.dim(&format!("({})", one_line(reason))))
                    }
                    (None, None) => Ok(()),
                }
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    /// Leaves the terminal at the beginning of a line.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_line_open) {
            writeln!(self.out)?;
        }
        self.speaking = None;
        self.flush()
    }

    fn update(&mut self, update: &Value) -> anyhow::Result<()> {
        match update["sessionUpdate"].as_str() {
            Some("user_message_chunk") => self.text("you", update),
            Some("agent_message_chunk") => self.text("assistant", update),
            Some("agent_thought_chunk") => self.text("thought", update),
            Some("tool_call") => {
                let title = one_line(update["title"].as_str().unwrap_or("tool"));
                self.line(&format!("{} {title}", self.palette.bold("tool")))
            }
            Some("tool_call_update") => match update["status"].as_str() {
                Some("completed") => self.line(&self.palette.green("  completed")),
                Some("failed") => self.line(&self.palette.red("  failed")),
                Some(_) | None => Ok(()),
            },
            Some(_) | None => Ok(()),
        }
    }

    fn text(&mut self, who: &'static str, update: &Value) -> anyhow::Result<()> {
        let Some(text) = update["content"]["text"].as_str() else {
            return Ok(());
        };
        let message = update["messageId"].as_str().unwrap_or_default().to_owned();
        let speaking = Some((who, message));
        if self.speaking != speaking {
            self.line(&self.palette.bold(&format!("{who}:")))?;
            self.speaking = speaking;
            self.filter = self.palette.filter();
        }
        let text = self.filter.push(text);
        self.out.write_all(text.as_bytes())?;
        if !text.is_empty() {
            self.is_line_open = !text.ends_with('\n');
        }
        Ok(())
    }

    fn line(&mut self, text: &str) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_line_open) {
            writeln!(self.out)?;
        }
        self.speaking = None;
        Ok(writeln!(self.out, "{text}")?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Screen;
    use crate::render::Palette;

    #[test]
    fn what_happens_reads_as_a_conversation() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, Palette::default());
        let mut update = |update| {
            let message = json!({"method": "session/update", "params": {"update": update}});
            screen.show(&message).unwrap();
        };
        let chunk = |kind: &str, id: &str, text: &str| json!({"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": text}});
        update(chunk("user_message_chunk", "1", "hi"));
        update(chunk("agent_message_chunk", "2", "he\x1b[2J"));
        update(chunk("agent_message_chunk", "2", "llo\n"));
        update(json!({"sessionUpdate": "tool_call", "title": "Read\na"}));
        update(json!({"sessionUpdate": "tool_call_update", "status": "in_progress"}));
        update(json!({"sessionUpdate": "tool_call_update", "status": "completed"}));
        update(chunk("agent_message_chunk", "3", "bye"));
        let turn = json!({"method": "_fastness/turn", "params": {"stopReason": "end_turn"}});
        screen.show(&turn).unwrap();
        screen.show(&json!({"foo": 1})).unwrap();
        screen.end().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "you:\nhi\nassistant:\nhe[2Jllo\ntool Read a\n  completed\nassistant:\nbye\n(end_turn)\n"
        );
    }
}
