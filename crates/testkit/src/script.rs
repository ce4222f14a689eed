//! Building `script:` models: what the model says and does, call by call.
//!
//! Calls are counted per session and the last one repeats, so a script of one call answers every
//! prompt alike. `${prompt}` and `${result}` in any string stand for the last prompt and the last
//! tool result.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A `script:` model: one list of steps for each time the model is asked.
#[derive(Clone, Debug, Default)]
pub struct Script {
    calls: Vec<Vec<Value>>,
    agents: BTreeMap<String, Value>,
}

impl Script {
    /// A script without calls, to which [`Script::call`] adds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A model that always answers with `text`.
    #[must_use]
    pub fn says(text: &str) -> Self {
        Self::new().call([say(text)])
    }

    /// Adds what the model does when it is asked the next time.
    #[must_use]
    pub fn call(mut self, steps: impl IntoIterator<Item = Value>) -> Self {
        self.calls.push(steps.into_iter().collect());
        self
    }

    /// Adds what the model does when the sub-agent called `name` asks it.
    #[must_use]
    pub fn agent(mut self, name: &str, script: Self) -> Self {
        self.agents.insert(name.to_owned(), script.into());
        self
    }
}

impl From<Script> for Value {
    fn from(script: Script) -> Self {
        let calls: Self = script.calls.into_iter().map(Self::Array).collect();
        match script.agents.is_empty() {
            true => calls,
            false => json!({"calls": calls, "agents": script.agents}),
        }
    }
}

/// One chunk of text.
#[must_use]
pub fn say(text: &str) -> Value {
    json!({"text": text})
}

/// `chunks` separate chunks of the same text, one every `every_ms`.
#[must_use]
pub fn stream(text: &str, chunks: u32, every_ms: u32) -> Value {
    json!({"text": text, "repeat": chunks, "everyMs": every_ms})
}

/// One chunk of thought.
#[must_use]
pub fn think(text: &str) -> Value {
    json!({"thought": text})
}

/// A call of the tool `name`.
#[must_use]
pub fn tool(name: &str, input: impl Into<Value>) -> Value {
    json!({"tool": name, "input": input.into()})
}

/// The model does nothing for a while.
#[must_use]
pub fn pause(milliseconds: u32) -> Value {
    json!({"sleepMs": milliseconds})
}

/// The provider answers with an error.
#[must_use]
pub fn fail(status: u16, message: &str) -> Value {
    json!({"error": {"status": status, "message": message}})
}

/// The model stops for `reason` instead of having finished.
#[must_use]
pub fn stop(reason: &str) -> Value {
    json!({"stop": reason})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Script, fail, pause, say, stop, stream, think, tool};

    #[test]
    fn a_script_is_one_list_of_steps_per_call() {
        let script = Script::new()
            .call([
                think("hm"),
                tool("write", json!({"path": "a", "content": "b"})),
            ])
            .call([say("done"), pause(5), stream("x", 3, 0), stop("max_tokens")])
            .call([fail(529, "overloaded")]);
        assert_eq!(
            Value::from(script),
            json!([
                [{"thought": "hm"}, {"tool": "write", "input": {"path": "a", "content": "b"}}],
                [{"text": "done"}, {"sleepMs": 5}, {"text": "x", "repeat": 3, "everyMs": 0}, {"stop": "max_tokens"}],
                [{"error": {"status": 529, "message": "overloaded"}}],
            ])
        );
        assert_eq!(Value::from(Script::says("hi")), json!([[{"text": "hi"}]]));
        let with_agent = Script::says("hi").agent("scout", Script::says("ho"));
        assert_eq!(
            Value::from(with_agent),
            json!({"calls": [[{"text": "hi"}]], "agents": {"scout": [[{"text": "ho"}]]}})
        );
    }
}
