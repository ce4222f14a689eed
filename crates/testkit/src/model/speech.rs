//! The four wire formats of model providers, each able to say the same few things.

use serde_json::{Value, json};

/// A provider's wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// `anthropic:`
    Anthropic,
    /// `openai:`
    OpenAi,
    /// `openai-chat:`
    OpenAiChat,
    /// `ollama:`
    Ollama,
}

/// Something that a model says.
#[derive(Clone, Debug)]
pub enum Say {
    /// A piece of thinking.
    Thought(&'static str),
    /// A piece of the answer.
    Text(String),
    /// A tool call with its input as the model wrote it.
    Tool(&'static str, &'static str),
}

/// A piece of the answer.
#[must_use]
pub fn text(text: &str) -> Say {
    Say::Text(text.to_owned())
}

impl Speech {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Anthropic,
        Self::OpenAi,
        Self::OpenAiChat,
        Self::Ollama,
    ];

    /// What `--model` is for a model that speaks so.
    #[must_use]
    pub fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic:claude-sonnet-5-5",
            Self::OpenAi => "openai:gpt-6-sol",
            Self::OpenAiChat => "openai-chat:recording",
            Self::Ollama => "ollama:recording",
        }
    }

    /// The type of an answer's body.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Anthropic | Self::OpenAi | Self::OpenAiChat => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }

    /// The bytes of what is said; the answer goes on after them.
    #[must_use]
    pub fn said(self, said: &[Say]) -> String {
        let said = said.iter().enumerate();
        said.map(|(index, say)| self.frames(&self.one(index, say)))
            .collect()
    }

    /// The bytes that end an answer; `has_calls` if tools are to be run.
    #[must_use]
    pub fn end(self, has_calls: bool) -> String {
        let events = match self {
            Self::Anthropic => {
                let reason = if has_calls { "tool_use" } else { "end_turn" };
                vec![
                    json!({"type": "message_delta", "delta": {"stop_reason": reason},
                        "usage": {"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 7}}),
                    json!({"type": "message_stop"}),
                ]
            }
            Self::OpenAi => vec![json!({"type": "response.completed", "response": {"usage":
                {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 80}, "output_tokens": 7}}})],
            Self::OpenAiChat => vec![
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 7,
                    "prompt_tokens_details": {"cached_tokens": 80}}}),
            ],
            Self::Ollama => vec![json!({"message": {"content": ""}, "done": true,
                "done_reason": "stop", "prompt_eval_count": 100, "eval_count": 7})],
        };
        let mut end = self.frames(&events);
        if self == Self::OpenAiChat {
            end += "data: [DONE]\n\n";
        }
        end
    }

    fn frames(self, events: &[Value]) -> String {
        let framed = events.iter().map(|event| match self {
            Self::Anthropic | Self::OpenAi | Self::OpenAiChat => format!("data: {event}\n\n"),
            Self::Ollama => format!("{event}\n"),
        });
        framed.collect()
    }

    fn one(self, index: usize, say: &Say) -> Vec<Value> {
        match (self, say) {
            (Self::Anthropic, say) => anthropic(index, say),
            (Self::OpenAi, say) => openai(index, say),
            (Self::OpenAiChat, Say::Thought(thought)) => {
                chat(json!({"reasoning_content": thought}))
            }
            (Self::OpenAiChat, Say::Text(text)) => chat(json!({"content": text})),
            (Self::OpenAiChat, Say::Tool(name, input)) => chat(json!({"tool_calls": [
                {"index": index, "id": format!("call_{index}"), "type": "function",
                 "function": {"name": name, "arguments": input}}]})),
            (Self::Ollama, Say::Thought(thought)) => {
                line(json!({"content": "", "thinking": thought}))
            }
            (Self::Ollama, Say::Text(text)) => line(json!({"content": text})),
            (Self::Ollama, Say::Tool(name, input)) => {
                let input = serde_json::from_str(input).unwrap_or_else(|_| json!(input));
                line(json!({"content": "", "tool_calls": [
                    {"function": {"name": name, "arguments": input}}]}))
            }
        }
    }
}

fn anthropic(index: usize, say: &Say) -> Vec<Value> {
    let (block, delta) = match say {
        Say::Thought(thought) => (
            json!({"type": "thinking", "thinking": "", "signature": "sealed"}),
            json!({"type": "thinking_delta", "thinking": thought}),
        ),
        Say::Text(text) => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text}),
        ),
        Say::Tool(name, input) => (
            json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input}),
        ),
    };
    vec![
        json!({"type": "content_block_start", "index": index, "content_block": block}),
        json!({"type": "content_block_delta", "index": index, "delta": delta}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

fn openai(index: usize, say: &Say) -> Vec<Value> {
    let event = |kind: &str, key: &str, value: Value| {
        let mut event = json!({"type": format!("response.{kind}"), "output_index": index});
        event[key] = value;
        event
    };
    match say {
        Say::Thought(thought) => {
            let item = json!({"type": "reasoning", "id": "rs", "summary": [],
                "encrypted_content": "sealed"});
            vec![
                event("reasoning_summary_text.delta", "delta", json!(thought)),
                event("output_item.done", "item", item),
            ]
        }
        Say::Text(text) => vec![event("output_text.delta", "delta", json!(text))],
        Say::Tool(name, input) => {
            let item = json!({"type": "function_call", "name": name, "arguments": input});
            vec![event("output_item.done", "item", item)]
        }
    }
}

fn chat(delta: Value) -> Vec<Value> {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    vec![json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})]
}

fn line(message: Value) -> Vec<Value> {
    vec![json!({"model": "recording", "message": message, "done": false})]
}
