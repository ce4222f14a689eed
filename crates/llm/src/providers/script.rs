//! `script:FILE`: a deterministic model that plays steps from a file, for demos and tests.
//!
//! [`Script`] is the file, read and checked once; [`Playback`] is one call of the model.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::Limits;
use domain::limits::SCRIPT_BYTES_MAX;
use serde::Deserialize;
use serde_json::Value;

use crate::model::{ChunkStream, Model, ModelRequest, ModelStop, Provider};

mod fill;
mod playback;

use playback::Playback;

/// A script that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be opened or read.
    #[error("the script `{file}` cannot be read: {cause}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        cause: std::io::ErrorKind,
    },
    /// The file is too long to be a script.
    #[error("the script `{file}` is longer than {SCRIPT_BYTES_MAX} bytes")]
    TooLong {
        /// The file.
        file: String,
    },
    /// The file is not a JSON array of lists of steps.
    #[error("the script `{file}` is not a list of lists of steps: {source}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// There is nothing to play.
    #[error("the script `{file}` has no entries; it needs one list of steps per model call")]
    Empty {
        /// The file.
        file: String,
    },
}

/// The provider of one script.
pub(crate) struct ScriptProvider {
    label: String,
    script: Arc<Script>,
    limits: Arc<Limits>,
}

impl ScriptProvider {
    /// Reads and checks the script in `file`.
    pub(crate) fn read(file: &str, limits: Arc<Limits>) -> Result<Self, ScriptError> {
        let json = read_capped(file)?;
        let script = Script::parse(file, &json)?;
        // Clients see the label; where the file lies is none of their business.
        let name = Path::new(file).file_name().unwrap_or_default();
        Ok(Self {
            label: format!("script:{}", name.to_string_lossy()),
            script: Arc::new(script),
            limits,
        })
    }
}

impl Provider for ScriptProvider {
    fn label(&self) -> &str {
        &self.label
    }

    fn open(&self) -> Box<dyn Model> {
        self.open_part(&self.script.own)
    }

    fn open_for(&self, agent: &str) -> Box<dyn Model> {
        let part = self.script.agents.get(agent);
        self.open_part(part.unwrap_or(&self.script.own))
    }
}

impl ScriptProvider {
    fn open_part(&self, part: &Part) -> Box<dyn Model> {
        #[cfg(debug_assertions)]
        if part.entry(0).first() == Some(&Step::Panic(Panicking::Session)) {
            panic!("the script says so");
        }
        Box::new(ScriptModel {
            part: part.clone(),
            limits: Arc::clone(&self.limits),
            calls: 0,
        })
    }
}

/// One session's place in the script.
struct ScriptModel {
    part: Part,
    limits: Arc<Limits>,
    calls: usize,
}

impl Model for ScriptModel {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        let entry = self.part.entry(self.calls);
        self.calls += 1;
        Box::pin(Playback::start(entry, request.messages, &self.limits))
    }

    fn may_write_calls(&self) -> bool {
        true
    }
}

/// A checked script: what sessions play, and what sub-agents do instead.
struct Script {
    own: Part,
    agents: BTreeMap<String, Part>,
}

/// What one session plays: at least one entry. Cheap to clone.
#[derive(Clone)]
struct Part {
    entries: Arc<[Arc<[Step]>]>,
}

/// A script as it is written with parts for agents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenParts {
    calls: Vec<Vec<Step>>,
    #[serde(default)]
    agents: BTreeMap<String, Vec<Vec<Step>>>,
}

impl Script {
    fn parse(file: &str, json: &[u8]) -> Result<Self, ScriptError> {
        let malformed = |source| ScriptError::Malformed {
            file: file.to_owned(),
            source,
        };
        // Read by its form, so that what is wrong is told with its line and column.
        let is_list = json.trim_ascii_start().starts_with(b"[");
        let written = match is_list {
            true => WrittenParts {
                calls: serde_json::from_slice(json).map_err(malformed)?,
                agents: BTreeMap::new(),
            },
            false => serde_json::from_slice(json).map_err(malformed)?,
        };
        let part = |entries: Vec<Vec<Step>>| {
            let entries: Arc<[Arc<[Step]>]> = entries.into_iter().map(Arc::from).collect();
            let is_empty = entries.is_empty();
            (!is_empty)
                .then_some(Part { entries })
                .ok_or_else(|| ScriptError::Empty {
                    file: file.to_owned(),
                })
        };
        let agents = written.agents.into_iter();
        let agents = agents.map(|(name, entries)| Ok((name, part(entries)?)));
        Ok(Self {
            agents: agents.collect::<Result<_, ScriptError>>()?,
            own: part(written.calls)?,
        })
    }
}

impl Part {
    /// The steps of call number `call` (from 0); the last entry repeats.
    fn entry(&self, call: usize) -> Arc<[Step]> {
        Arc::clone(&self.entries[call.min(self.entries.len() - 1)])
    }
}

/// One thing the scripted model does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "StepFields")]
enum Step {
    Say {
        kind: Saying,
        text: String,
        repeat: u32,
        every: Duration,
    },
    Tool {
        name: String,
        input: Value,
    },
    Sleep(Duration),
    Fail {
        status: Option<u16>,
        message: String,
    },
    Stop(ModelStop),
    /// A bug where one would hurt most, for tests of what a panic takes along. It is not known to
    /// release builds.
    #[cfg(debug_assertions)]
    Panic(Panicking),
}

/// Who panics: whoever asks the model in a turn, or, as the first step of all, whoever opens it.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Panicking {
    Turn,
    Session,
}

/// Whether words are the answer or the thinking before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saying {
    Text,
    Thought,
}

/// A step as it is written: which field is there says what it does.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepFields {
    text: Option<String>,
    thought: Option<String>,
    repeat: Option<u32>,
    every_ms: Option<u64>,
    tool: Option<String>,
    input: Option<Value>,
    sleep_ms: Option<u64>,
    error: Option<ErrorFields>,
    stop: Option<StopName>,
    #[cfg(debug_assertions)]
    panic: Option<Panicking>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFields {
    status: Option<u16>,
    #[serde(default)]
    message: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StopName {
    EndTurn,
    MaxTokens,
    Refusal,
    ToolUse,
}

/// Why the fields of a step make no step.
#[derive(Debug)]
struct NotAStep(&'static str);

impl fmt::Display for NotAStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl TryFrom<StepFields> for Step {
    type Error = NotAStep;

    fn try_from(fields: StepFields) -> Result<Self, NotAStep> {
        let is_said = fields.text.is_some() || fields.thought.is_some();
        if !is_said && (fields.repeat.is_some() || fields.every_ms.is_some()) {
            return Err(NotAStep(
                "`repeat` and `everyMs` belong to `text` or `thought`",
            ));
        }
        if fields.input.is_some() && fields.tool.is_none() {
            return Err(NotAStep("`input` belongs to `tool`"));
        }
        let repeat = fields.repeat.unwrap_or(1);
        let every = Duration::from_millis(fields.every_ms.unwrap_or(0));
        let say = |kind| {
            move |text| Self::Say {
                kind,
                text,
                repeat,
                every,
            }
        };
        let input = fields
            .input
            .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let steps = [
            fields.text.map(say(Saying::Text)),
            fields.thought.map(say(Saying::Thought)),
            fields.tool.map(|name| Self::Tool { name, input }),
            fields
                .sleep_ms
                .map(|millis| Self::Sleep(Duration::from_millis(millis))),
            fields.error.map(|error| Self::Fail {
                status: error.status,
                message: error.message,
            }),
            fields.stop.map(|stop| Self::Stop(stop.into())),
            #[cfg(debug_assertions)]
            fields.panic.map(Self::Panic),
        ];
        let mut steps = steps.into_iter().flatten();
        match (steps.next(), steps.next()) {
            (Some(step), None) => Ok(step),
            (None, _) => Err(NotAStep(
                "a step has one of `text`, `thought`, `tool`, `sleepMs`, `error`, `stop`",
            )),
            (Some(_), Some(_)) => Err(NotAStep("a step does one thing; use two steps")),
        }
    }
}

impl From<StopName> for ModelStop {
    fn from(name: StopName) -> Self {
        match name {
            StopName::EndTurn => Self::EndTurn,
            StopName::MaxTokens => Self::MaxTokens,
            StopName::Refusal => Self::Refusal,
            StopName::ToolUse => Self::ToolUse,
        }
    }
}

fn read_capped(file: &str) -> Result<Vec<u8>, ScriptError> {
    let unreadable = |error: std::io::Error| ScriptError::Unreadable {
        file: file.to_owned(),
        cause: error.kind(),
    };
    let mut json = Vec::new();
    let reader = File::open(file).map_err(unreadable)?;
    let mut reader = reader.take(SCRIPT_BYTES_MAX + 1);
    let bytes = reader.read_to_end(&mut json).map_err(unreadable)?;
    if bytes as u64 > SCRIPT_BYTES_MAX {
        return Err(ScriptError::TooLong {
            file: file.to_owned(),
        });
    }
    Ok(json)
}

#[cfg(test)]
mod tests;
