//! What clients were told about one session, and whether its journal still says so.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::client::{Update, text_of};

/// Everything that must survive.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Prompts whose answer came.
    answered: Vec<String>,
    /// The highest event number that a client saw.
    seq: u64,
    /// The text of each message as far as it was shown, by message id.
    texts: BTreeMap<String, String>,
    /// Tool calls that were shown, and whether they were shown to have ended.
    calls: BTreeMap<String, bool>,
}

impl Ledger {
    /// A client was shown these.
    pub(super) fn saw(&mut self, updates: &[Update]) {
        for update in updates {
            self.seq = self.seq.max(update.seq().unwrap_or(0));
            if let (Some(id), Some(text)) = (update.update["messageId"].as_str(), update.text()) {
                self.texts.entry(id.to_owned()).or_default().push_str(text);
            }
            if let Some(id) = update.update["toolCallId"].as_str() {
                let status = update.update["status"].as_str();
                let is_over = matches!(status, Some("completed" | "failed"));
                *self.calls.entry(id.to_owned()).or_default() |= is_over;
            }
        }
    }

    /// A client was answered.
    pub(super) fn answered(&mut self, prompt: String) {
        self.answered.push(prompt);
    }

    /// Holds the journal at `path`, and what a client is shown of it now, against all that.
    pub(super) fn check(
        &self,
        path: &Path,
        events: &[Value],
        replayed: &[Update],
    ) -> Result<(), String> {
        let head = events.len() as u64;
        if self.seq > head {
            return Err(format!("event {} was seen, {head} are there", self.seq));
        }
        for prompt in &self.answered {
            check_answered(prompt, events)?;
        }
        check_prompts_once(events)?;
        check_turns_end(events)?;
        self.check_calls(events)?;
        self.check_texts(path, events)?;
        let shown: String = text_of(replayed, "agent_message_chunk");
        let lost = self.texts.values().find(|seen| {
            let thought = "what was asked";
            !shown.contains(seen.as_str()) && *seen != thought && !seen.starts_with("Fastness ")
        });
        match lost {
            Some(text) => Err(format!("not replayed: {}", start(text))),
            None => Ok(()),
        }
    }

    fn check_calls(&self, events: &[Value]) -> Result<(), String> {
        let names = |kind: &str, call: &str| {
            let mut of_kind = events.iter().filter(|event| event["type"] == kind);
            of_kind.any(|event| event["callId"] == call)
        };
        for (call, is_over) in &self.calls {
            if !names("tool.use", call) {
                return Err(format!("tool call {call} was seen and is not there"));
            }
            if *is_over && !names("tool.result", call) {
                return Err(format!(
                    "the result of tool call {call} was seen and is not there"
                ));
            }
        }
        Ok(())
    }

    fn check_texts(&self, path: &Path, events: &[Value]) -> Result<(), String> {
        for (id, seen) in &self.texts {
            let event = events.iter().find(|event| {
                event["messageId"] == id.as_str() && event["type"] != "message.started"
            });
            let stored = event.and_then(|event| stored_text(path, &event["text"]));
            let Some(stored) = stored else {
                return Err(format!("message {id} was seen and is not there"));
            };
            if !stored.starts_with(seen.as_str()) {
                return Err(format!(
                    "{} bytes of message {id} were seen, the {} that are there differ",
                    seen.len(),
                    stored.len()
                ));
            }
        }
        Ok(())
    }
}

/// An answered prompt is there, and so is the end of its turn.
fn check_answered(prompt: &str, events: &[Value]) -> Result<(), String> {
    let is_prompt = |event: &Value| event["type"] == "user.message" && event["text"] == prompt;
    let Some(at) = events.iter().position(is_prompt) else {
        return Err(format!("{prompt} was answered and is not there"));
    };
    let mut after = events[at..].iter();
    let end = after.find(|event| event["type"] == "result" || event["type"] == "turn.interrupted");
    match end {
        Some(end) if end["stopReason"] == "end_turn" => Ok(()),
        other => Err(format!("{prompt} was answered, but its turn has {other:?}")),
    }
}

/// No prompt is there twice.
fn check_prompts_once(events: &[Value]) -> Result<(), String> {
    let prompts = events
        .iter()
        .filter(|event| event["type"] == "user.message");
    let mut texts: Vec<&str> = prompts.filter_map(|event| event["text"].as_str()).collect();
    let count = texts.len();
    texts.sort_unstable();
    texts.dedup();
    if texts.len() == count {
        return Ok(());
    }
    Err("a prompt is there twice".to_owned())
}

/// After recovery every turn has ended, exactly once.
fn check_turns_end(events: &[Value]) -> Result<(), String> {
    let mut open = None;
    for event in events {
        match event["type"].as_str() {
            Some("turn.started") if open.is_none() => open = Some(&event["turn"]),
            Some("result" | "turn.interrupted") if open == Some(&event["turn"]) => open = None,
            Some("turn.started" | "result" | "turn.interrupted") => {
                return Err(format!(
                    "a turn begins or ends twice at event {}",
                    event["seq"]
                ));
            }
            _ => {}
        }
    }
    match open {
        Some(turn) => Err(format!("turn {turn} has no end")),
        None => Ok(()),
    }
}

/// A text in its place, or in its blob.
fn stored_text(journal: &Path, text: &Value) -> Option<String> {
    if let Some(text) = text.as_str() {
        return Some(text.to_owned());
    }
    let blob = journal
        .with_file_name("blobs")
        .join(text["$blob"].as_str()?);
    std::fs::read_to_string(blob).ok()
}

fn start(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::{Ledger, Update};

    fn update(seq: u64, update: Value) -> Update {
        Update {
            session: String::new(),
            kind: "agent_message_chunk".to_owned(),
            update,
            cursor: json!({"seq": seq}),
        }
    }

    type Change = fn(&mut Vec<Value>);

    /// What a ledger of one answered prompt finds wrong once `change` was done to the journal.
    fn finding(change: impl FnOnce(&mut Vec<Value>)) -> String {
        let seen = [
            update(4, json!({"messageId": "m", "content": {"text": "hel"}})),
            update(4, json!({"messageId": "m", "content": {"text": "lo"}})),
            update(6, json!({"toolCallId": "c", "status": "completed"})),
        ];
        let mut ledger = Ledger::default();
        ledger.saw(&seen);
        ledger.answered("hi".to_owned());
        let mut events = vec![
            json!({"seq": 1, "type": "user.message", "text": "hi"}),
            json!({"seq": 2, "type": "turn.started", "turn": 1}),
            json!({"seq": 3, "type": "message.started", "messageId": "m"}),
            json!({"seq": 4, "type": "assistant.message", "messageId": "m", "text": "hello"}),
            json!({"seq": 5, "type": "tool.use", "callId": "c"}),
            json!({"seq": 6, "type": "tool.result", "callId": "c"}),
            json!({"seq": 7, "type": "result", "turn": 1, "stopReason": "end_turn"}),
        ];
        change(&mut events);
        let checked = ledger.check(Path::new("events.jsonl"), &events, &seen);
        checked.err().unwrap_or_default()
    }

    #[test]
    fn whatever_is_missing_is_found() {
        assert_eq!(finding(|_| {}), "");
        let wrong: [(Change, &str); 7] = [
            (|events| events.truncate(5), "event 6 was seen, 5 are there"),
            (|events| events[0]["text"] = json!("ho"), "hi was answered"),
            (
                |events| events[3]["text"] = json!("help"),
                "5 bytes of message m",
            ),
            (|events| drop(events.remove(3)), "message m was seen"),
            (
                |events| events[5]["callId"] = json!("d"),
                "the result of tool call c",
            ),
            (
                |events| events[6]["stopReason"] = Value::Null,
                "its turn has",
            ),
            (
                |events| events.push(events[0].clone()),
                "a prompt is there twice",
            ),
        ];
        for (change, sentence) in wrong {
            let found = finding(change);
            assert!(found.contains(sentence), "{found:?} lacks {sentence:?}");
        }
    }
}
