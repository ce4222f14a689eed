//! A flood of text that says of itself where it belongs, and the check that all of it came, byte for
//! byte, once and in order.

use serde_json::{Value, json};

use crate::script::{Script, say, stream, tool};

/// The number of a run as it stands in its text, again and again.
const WORD_BYTES: usize = 8;

/// Text with one number; the next has the next.
const RUN_BYTES: usize = 64 * 1024;

/// What is said after the flood.
const LAST_WORD: &str = "done";

/// Messages of numbered text, with a tool call after each. A message that the model is asked for
/// to sum up what came before is told to nobody, so a session may leave some of them out.
#[derive(Clone, Debug)]
pub struct Flood {
    messages: usize,
    runs: usize,
    chunk_bytes: usize,
}

impl Flood {
    /// `messages` of `runs` times 64 KiB each, said in chunks of `chunk_bytes`.
    #[must_use]
    pub fn new(messages: usize, runs: usize, chunk_bytes: usize) -> Self {
        Self {
            messages,
            runs,
            chunk_bytes,
        }
    }

    /// How much it is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.messages * self.message_bytes()
    }

    /// The model that says it. It reads `notes.txt` after each message.
    #[must_use]
    pub fn script(&self) -> Script {
        let chunks = u32::try_from(RUN_BYTES / self.chunk_bytes).unwrap_or(1);
        let message = |message: usize| {
            let runs = 0..self.runs;
            let said = runs.map(move |run| {
                let words = self.word(message, run);
                stream(&words.repeat(self.chunk_bytes / WORD_BYTES), chunks, 0)
            });
            said.chain([tool("read", json!({"path": "notes.txt"}))])
        };
        let messages = (0..self.messages).map(message);
        let script = messages.fold(Script::new(), Script::call);
        script.call([say(LAST_WORD)])
    }

    fn message_bytes(&self) -> usize {
        self.runs * RUN_BYTES
    }

    fn word(&self, message: usize, run: usize) -> String {
        let width = WORD_BYTES - 1;
        format!("{:0width$} ", message * self.runs + run)
    }
}

/// What one client has been told of a flood so far. It may come over several connections.
pub struct Told<'a> {
    flood: &'a Flood,
    /// The messages that were told; the last of them may go on.
    messages: Vec<usize>,
    /// The message that is being told, and how much of it came.
    id: Option<String>,
    at: usize,
    /// The text of the run that was looked at last.
    run: (usize, String),
    is_last: bool,
    is_complete: bool,
    /// `_meta.fastness` of the newest update: where to go on.
    pub cursor: Value,
}

impl<'a> Told<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn nothing_of(flood: &'a Flood) -> Self {
        Self {
            flood,
            messages: Vec::new(),
            id: None,
            at: 0,
            run: (usize::MAX, String::new()),
            is_last: false,
            is_complete: false,
            cursor: json!({"seq": 0, "epoch": 0}),
        }
    }

    /// Bytes of the flood that came.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let whole = self.messages.len() * self.flood.message_bytes();
        let is_open = self.id.is_some() && !self.is_complete;
        let missing = self.flood.message_bytes().saturating_sub(self.at);
        whole - if is_open { missing.min(whole) } else { 0 }
    }

    /// Which messages came.
    #[must_use]
    pub fn messages(&self) -> &[usize] {
        &self.messages
    }

    /// Whether all of them came whole, and what is said afterwards.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes an update of the session with its `_meta.fastness`.
    ///
    /// # Errors
    /// If it is not what comes next.
    pub fn take(&mut self, update: &Value, meta: &Value) -> Result<(), String> {
        if meta["seq"].is_u64() && meta["more"] != true {
            self.cursor = meta.clone();
        }
        if update["sessionUpdate"] != "agent_message_chunk" {
            return Ok(());
        }
        let text = update["content"]["text"].as_str().unwrap_or_default();
        let id = update["messageId"].as_str();
        if self.id.as_deref() != id {
            self.begin(id, text)?;
        }
        self.take_text(text)?;
        match meta["offset"].as_u64() == u64::try_from(self.at).ok() {
            true => Ok(()),
            false => Err(format!("{} bytes came, but {meta}", self.at)),
        }
    }

    /// Another message begins, with these words; the one before must be whole.
    fn begin(&mut self, id: Option<&str>, text: &str) -> Result<(), String> {
        if self.id.is_some() && self.at != self.flood.message_bytes() {
            return Err(format!(
                "message {:?} ended at {}",
                self.messages.last(),
                self.at
            ));
        }
        (self.id, self.at) = (id.map(str::to_owned), 0);
        if LAST_WORD.starts_with(text) {
            self.is_last = true;
            return Ok(());
        }
        let number: Option<usize> = text.get(..WORD_BYTES - 1).and_then(|n| n.parse().ok());
        let message = number.map(|number| number / self.flood.runs);
        match message.filter(|message| self.messages.last() < Some(message)) {
            Some(message) => {
                self.messages.push(message);
                Ok(())
            }
            None => Err(format!("no message begins like this: {text:.80}")),
        }
    }

    fn take_text(&mut self, text: &str) -> Result<(), String> {
        let message = self.messages.last().copied().unwrap_or(0);
        let wrong = |at| format!("message {message} is not told on at {at}: {text:.80}");
        if self.is_last {
            self.at += text.len();
            self.is_complete = self.at == LAST_WORD.len();
            let is_next = LAST_WORD.get(self.at - text.len()..self.at) == Some(text);
            return is_next.then_some(()).ok_or_else(|| wrong(self.at));
        }
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (run, from) = (self.at / RUN_BYTES, self.at % RUN_BYTES);
            if run >= self.flood.runs {
                return Err(wrong(self.at));
            }
            let number = message * self.flood.runs + run;
            if self.run.0 != number {
                let words = self.flood.word(message, run);
                self.run = (number, words.repeat(RUN_BYTES / WORD_BYTES));
            }
            let (piece, left) = rest.split_at(rest.len().min(RUN_BYTES - from));
            if self.run.1.as_bytes().get(from..from + piece.len()) != Some(piece) {
                return Err(wrong(self.at));
            }
            self.at += piece.len();
            rest = left;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Flood, RUN_BYTES, Told};

    /// A piece of message `id` up to `offset`.
    fn piece(id: &str, text: &str, offset: usize) -> (Value, Value) {
        let content = json!({"type": "text", "text": text});
        let update =
            json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": content});
        (update, json!({"seq": 3, "offset": offset}))
    }

    #[test]
    fn a_flood_that_is_told_whole_is_complete_and_any_slip_is_noticed() {
        let flood = Flood::new(1, 2, 1024);
        let words = |run: usize| format!("{run:07} ").repeat(RUN_BYTES / 8);
        let pieces = [
            piece("a", &words(0)[..1_000], 1_000),
            piece(
                "a",
                &(words(0)[1_000..].to_owned() + &words(1)),
                2 * RUN_BYTES,
            ),
            piece("b", "done", 4),
        ];
        let tell = |order: &[usize]| {
            let mut told = Told::nothing_of(&flood);
            let mut pieces = order.iter().map(|at| &pieces[*at]);
            let outcome = pieces.try_for_each(|(update, meta)| told.take(update, meta));
            outcome.map(|()| told.is_complete())
        };
        assert_eq!(tell(&[0, 1, 2]), Ok(true));
        assert_eq!(tell(&[0, 1]), Ok(false));
        for wrong in [
            &[1, 2][..],
            &[0, 0, 1, 2],
            &[0, 2],
            &[0, 1, 1],
            &[0, 1, 2, 2],
        ] {
            assert!(tell(wrong).is_err(), "{wrong:?}");
        }
    }
}
