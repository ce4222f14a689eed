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

/// Why a model stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has said what it wanted to.
    Turn,
    /// Tools are to be run.
    Calls,
    /// The answer became too long.
    Length,
    /// It does not want to answer, or must not; Ollama has no word for that.
    Refusal,
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
        said.map(|(index, say)| {
            let block = self.block(index, say);
            self.frames(&[block.opens, block.says, block.closes].concat())
        })
        .collect()
    }

    /// The bytes of each piece, as a provider sends them who has just thought of it: neighbours of
    /// one kind belong to one block. The last are those that close the last block.
    #[must_use]
    pub fn streamed(self, said: &[Say]) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut open: Option<&Say> = None;
        let (mut index, mut closing) = (0, Vec::new());
        for say in said {
            let is_new =
                open.is_none_or(|open| std::mem::discriminant(open) != std::mem::discriminant(say));
            let mut events = Vec::new();
            if is_new {
                events.append(&mut closing);
                index += usize::from(open.is_some());
            }
            let block = self.block(index, say);
            if is_new {
                events.extend(block.opens);
            }
            events.extend(block.says);
            pieces.push(self.frames(&events));
            (open, closing) = (Some(say), block.closes);
        }
        pieces.push(self.frames(&closing));
        pieces
    }

    /// The bytes of two calls whose inputs come in turns, as far as the format can do that.
    #[must_use]
    pub fn interleaved(self, calls: [(&'static str, &'static str); 2]) -> String {
        let whole = calls.map(|(name, input)| Say::Tool(name, input));
        if self == Self::Ollama {
            return self.said(&whole);
        }
        let halves = calls.map(|(name, input)| {
            let (first, second) = input.split_at(input.len() / 2);
            [Say::Tool(name, first), Say::Tool(name, second)]
        });
        let blocks = |half: usize| [0, 1].map(|index| self.block(index, &halves[index][half]));
        let mut events = Vec::new();
        match self {
            Self::Anthropic => {
                let [first, second] = blocks(0);
                let [third, fourth] = blocks(1);
                for part in [first.opens, second.opens, first.says, second.says] {
                    events.extend(part);
                }
                events.extend([third.says, fourth.says, fourth.closes, third.closes].concat());
            }
            Self::OpenAi => {
                let added = |index: usize| {
                    let item =
                        json!({"type": "function_call", "name": calls[index].0, "arguments": ""});
                    json!({"type": "response.output_item.added", "output_index": index, "item": item})
                };
                let grown = |index: usize, half: usize| {
                    let Say::Tool(_, input) = &halves[index][half] else {
                        return Value::Null;
                    };
                    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": input})
                };
                events.extend([added(0), added(1), grown(0, 0), grown(1, 0)]);
                events.extend([grown(0, 1), grown(1, 1)]);
                events.extend(self.block(1, &whole[1]).says);
                events.extend(self.block(0, &whole[0]).says);
            }
            Self::OpenAiChat | Self::Ollama => {
                events.extend(blocks(0).map(|block| block.says).concat());
                for (index, [_, half]) in halves.iter().enumerate() {
                    let Say::Tool(_, input) = half else { continue };
                    let call = json!({"index": index, "function": {"arguments": input}});
                    events.extend(chat(json!({"tool_calls": [call]})));
                }
            }
        }
        self.frames(&events)
    }

    /// The bytes that end an answer for `why`.
    #[must_use]
    pub fn end(self, why: End) -> String {
        let mut end = self.frames(&self.last(why));
        end += match self {
            Self::Anthropic => "data: {\"type\":\"message_stop\"}\n\n",
            Self::OpenAiChat => "data: [DONE]\n\n",
            Self::OpenAi | Self::Ollama => "",
        };
        end
    }

    /// The bytes that say all there is to say about an answer's end, without those that only say
    /// that nothing more comes.
    #[must_use]
    pub fn unfinished_end(self) -> String {
        self.frames(&self.last(End::Turn))
    }

    /// The reason and what was used.
    fn last(self, why: End) -> Vec<Value> {
        match self {
            Self::Anthropic => {
                let reason = match why {
                    End::Turn => "end_turn",
                    End::Calls => "tool_use",
                    End::Length => "max_tokens",
                    End::Refusal => "refusal",
                };
                vec![
                    json!({"type": "message_delta", "delta": {"stop_reason": reason},
                        "usage": {"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 7}}),
                ]
            }
            Self::OpenAi => {
                let mut response = json!({"usage": {"input_tokens": 100,
                    "input_tokens_details": {"cached_tokens": 80}, "output_tokens": 7}});
                let cut = match why {
                    End::Turn | End::Calls => None,
                    End::Length => Some("max_output_tokens"),
                    End::Refusal => Some("content_filter"),
                };
                let kind = cut.map_or("response.completed", |_| "response.incomplete");
                if let Some(reason) = cut {
                    response["incomplete_details"] = json!({"reason": reason});
                }
                vec![json!({"type": kind, "response": response})]
            }
            Self::OpenAiChat => {
                let reason = match why {
                    End::Turn | End::Calls => "stop",
                    End::Length => "length",
                    End::Refusal => "content_filter",
                };
                vec![
                    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
                    json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 7,
                        "prompt_tokens_details": {"cached_tokens": 80}}}),
                ]
            }
            Self::Ollama => {
                let reason = match why {
                    End::Turn | End::Calls | End::Refusal => "stop",
                    End::Length => "length",
                };
                vec![json!({"message": {"content": ""}, "done": true,
                    "done_reason": reason, "prompt_eval_count": 100, "eval_count": 7})]
            }
        }
    }

    fn frames(self, events: &[Value]) -> String {
        let framed = events.iter().map(|event| match self {
            Self::Anthropic | Self::OpenAi | Self::OpenAiChat => format!("data: {event}\n\n"),
            Self::Ollama => format!("{event}\n"),
        });
        framed.collect()
    }

    fn block(self, index: usize, say: &Say) -> Block {
        match (self, say) {
            (Self::Anthropic, say) => anthropic(index, say),
            (Self::OpenAi, say) => openai(index, say),
            (Self::OpenAiChat, Say::Thought(thought)) => {
                chat(json!({"reasoning_content": thought})).into()
            }
            (Self::OpenAiChat, Say::Text(text)) => chat(json!({"content": text})).into(),
            (Self::OpenAiChat, Say::Tool(name, input)) => chat(json!({"tool_calls": [
                {"index": index, "id": format!("call_{index}"), "type": "function",
                 "function": {"name": name, "arguments": input}}]}))
            .into(),
            (Self::Ollama, Say::Thought(thought)) => {
                line(json!({"content": "", "thinking": thought})).into()
            }
            (Self::Ollama, Say::Text(text)) => line(json!({"content": text})).into(),
            (Self::Ollama, Say::Tool(name, input)) => {
                let input = serde_json::from_str(input).unwrap_or_else(|_| json!(input));
                line(json!({"content": "", "tool_calls": [
                    {"function": {"name": name, "arguments": input}}]}))
                .into()
            }
        }
    }
}

/// The events of one thing that is said.
#[derive(Default)]
struct Block {
    opens: Vec<Value>,
    says: Vec<Value>,
    closes: Vec<Value>,
}

impl From<Vec<Value>> for Block {
    fn from(says: Vec<Value>) -> Self {
        Self {
            says,
            ..Self::default()
        }
    }
}

fn anthropic(index: usize, say: &Say) -> Block {
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
    let event = |kind: &str| json!({"type": format!("content_block_{kind}"), "index": index});
    let (mut opens, mut says) = (event("start"), event("delta"));
    opens["content_block"] = block;
    says["delta"] = delta;
    Block {
        opens: vec![opens],
        says: vec![says],
        closes: vec![event("stop")],
    }
}

fn openai(index: usize, say: &Say) -> Block {
    let event = |kind: &str, key: &str, value: Value| {
        let mut event = json!({"type": format!("response.{kind}"), "output_index": index});
        event[key] = value;
        event
    };
    match say {
        Say::Thought(thought) => {
            let item = json!({"type": "reasoning", "id": "rs", "summary": [],
                "encrypted_content": "sealed"});
            Block {
                closes: vec![event("output_item.done", "item", item)],
                ..vec![event(
                    "reasoning_summary_text.delta",
                    "delta",
                    json!(thought),
                )]
                .into()
            }
        }
        Say::Text(text) => vec![event("output_text.delta", "delta", json!(text))].into(),
        Say::Tool(name, input) => {
            let item = json!({"type": "function_call", "name": name, "arguments": input});
            vec![event("output_item.done", "item", item)].into()
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
