//! The four wire formats, each with the same few answers in its own shape.
//!
//! What holds for every provider is a story in `answers.rs`, `faults.rs` or `refusals.rs` that runs
//! over [`ALL`]; what is peculiar to one has a file of its own.

use crate::server::{Act, chunk, stream_end, stream_head};

/// One provider's wire format.
pub(crate) struct Format {
    /// What opens it.
    pub(crate) spec: &'static str,
    /// Where its requests go.
    pub(crate) path: &'static str,
    /// The header that carries the key, in lower case; none where there is no key.
    pub(crate) key_header: Option<&'static str>,
    /// A thought, two pieces of text, usage, the end. Shown as [`HELLO`].
    pub(crate) hello: &'static [&'static str],
    /// As `hello`, without what only says that nothing more comes.
    pub(crate) hello_without_end: &'static [&'static str],
    /// The first word of an answer: `Hi`.
    pub(crate) first_word: &'static [&'static str],
    /// How what is counted by then is shown.
    pub(crate) first_word_counted: &'static str,
    /// Text and two tool calls, `read` of a.txt and `list`, as mixed as the format can be.
    pub(crate) two_tools: &'static [&'static str],
    /// A call whose input is not JSON.
    pub(crate) broken_input: &'static [&'static str],
    /// An answer of no words that ends well.
    pub(crate) nothing_to_say: &'static [&'static str],
    /// An answer that ran into its length limit in the middle of a call's input.
    pub(crate) cut_off: &'static [&'static str],
    /// The same before anything of the input came; none where calls come whole.
    pub(crate) cut_off_early: &'static [&'static str],
    /// The server fails in mid-stream.
    pub(crate) error: &'static str,
    /// What that says.
    pub(crate) error_shown: &'static str,
    /// The body of an answer that the conversation is too long.
    pub(crate) too_long: &'static str,
    pub(crate) is_lines: bool,
}

pub(crate) const ALL: [&Format; 4] = [&ANTHROPIC, &OPENAI, &OPENAI_CHAT, &OLLAMA];

/// How every format's `hello` is shown; the tokens are the same for all.
pub(crate) const HELLO: &str =
    "thought Hm.\ntext Grüß\ntext  dich ☕\nusage 100 5 64\nstop EndTurn\n";

impl Format {
    /// The events as bytes.
    pub(crate) fn bytes(&self, events: &[&str]) -> Vec<u8> {
        let framed = events.iter().map(|data| {
            if self.is_lines {
                format!("{data}\n")
            } else {
                format!("data: {data}\n\n")
            }
        });
        framed.collect::<String>().into_bytes()
    }

    pub(crate) fn head(&self) -> Act {
        stream_head(if self.is_lines {
            "application/x-ndjson"
        } else {
            "text/event-stream"
        })
    }

    /// A whole answer, its bytes cut into pieces of `size`.
    pub(crate) fn in_pieces(&self, events: &[&str], size: usize) -> Vec<Act> {
        let mut acts = vec![self.head()];
        acts.extend(self.bytes(events).chunks(size).map(chunk));
        acts.push(stream_end());
        acts
    }

    /// A whole answer.
    pub(crate) fn answer(&self, events: &[&str]) -> Vec<Act> {
        self.in_pieces(events, usize::MAX)
    }

    /// An answer that begins with `events` and goes on with `then`.
    pub(crate) fn begun(&self, events: &[&str], then: Vec<Act>) -> Vec<Act> {
        let mut acts = vec![self.head()];
        if !events.is_empty() {
            acts.push(chunk(&self.bytes(events)));
        }
        acts.extend(then);
        acts
    }
}

pub(crate) const ANTHROPIC: Format = Format {
    spec: "anthropic:mock",
    path: "/v1/messages",
    key_header: Some("x-api-key: sk-test"),
    hello: &[
        r#"{"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":6,"cache_creation_input_tokens":30,"cache_read_input_tokens":64,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüß"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" dich ☕"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    hello_without_end: &[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":36,"cache_read_input_tokens":64,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"Hm."}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Grüß"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" dich ☕"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#,
    ],
    first_word: &[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":6}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
    ],
    first_word_counted: "usage 6 0 0\n",
    two_tools: &[
        r#"{"type":"message_start","message":{}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Let me see."}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"pa"}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_2","name":"list","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"th\":\"a.txt\"}"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    broken_input: &[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"list","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{path:"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    nothing_to_say: &[
        r#"{"type":"message_start","message":{}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    cut_off: &[
        r#"{"type":"message_start","message":{}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"write","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"pa"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    cut_off_early: &[
        r#"{"type":"message_start","message":{}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"write","input":{}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    error: r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    error_shown: "error the model's server answered 529: Overloaded\n",
    too_long: r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"},"request_id":"req_1"}"#,
    is_lines: false,
};

pub(crate) const OPENAI: Format = Format {
    spec: "openai:mock",
    path: "/v1/responses",
    key_header: Some("authorization: bearer sk-test"),
    hello: &[
        r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_part.added","output_index":0,"item_id":"rs_1","summary_index":0,"part":{"type":"summary_text","text":""}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"rs_1","delta":"Hm."}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"x"}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}"#,
        r#"{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Grüß"}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":" dich ☕"}"#,
        r#"{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"Grüß dich ☕"}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Grüß dich ☕"}]}}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"message","content":[{"type":"output_text","text":"Grüß dich ☕"}]}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}}"#,
    ],
    // Nothing but the completed response can end it, so this is one without any other event.
    hello_without_end: &[
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Hm."}"#,
        r#"{"type":"response.completed","response":{"output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"Grüß"},{"type":"output_text","text":" dich ☕"}]}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":5}}}"#,
    ],
    first_word: &[r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}"#],
    first_word_counted: "",
    two_tools: &[
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"Let me see."}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_1","delta":"{\"pa"}"#,
        r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"list","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"item_id":"fc_2","delta":"{}"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_1","delta":"th\":\"a.txt\"}"}"#,
        r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_2","name":"list","arguments":"{}"}}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","name":"read","arguments":"{\"path\":\"a.txt\"}"}}"#,
        r#"{"type":"response.completed","response":{"output":[]}}"#,
    ],
    broken_input: &[
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","name":"list","arguments":"{path:"}}"#,
        r#"{"type":"response.completed","response":{}}"#,
    ],
    nothing_to_say: &[r#"{"type":"response.completed","response":{"output":[]}}"#],
    cut_off: &[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"write","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"pa"}"#,
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ],
    cut_off_early: &[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"write","arguments":""}}"#,
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ],
    error: r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"The model failed."}}}"#,
    error_shown: "error the model's server answered 500: The model failed\n",
    too_long: r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
    is_lines: false,
};

pub(crate) const OPENAI_CHAT: Format = Format {
    spec: "openai-chat:mock",
    path: "/v1/chat/completions",
    key_header: Some("authorization: bearer sk-test"),
    hello: &[
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Grüß"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":" dich ☕"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64}}}"#,
        "[DONE]",
    ],
    hello_without_end: &[
        r#"{"choices":[{"delta":{"reasoning":"Hm."}}]}"#,
        r#"{"choices":[{"delta":{"content":"Grüß"}}]}"#,
        r#"{"choices":[{"delta":{"content":" dich ☕"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64}}}"#,
    ],
    first_word: &[r#"{"choices":[{"delta":{"content":"Hi"}}]}"#],
    first_word_counted: "",
    two_tools: &[
        r#"{"choices":[{"delta":{"content":"Let me see."}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"pa"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"list","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":\"a.txt\"}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ],
    broken_input: &[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"list","arguments":"{path:"}}]},"finish_reason":"tool_calls"}]}"#,
    ],
    nothing_to_say: &[r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#],
    cut_off: &[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":"{\"pa"}}]},"finish_reason":"length"}]}"#,
        "[DONE]",
    ],
    cut_off_early: &[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
        "[DONE]",
    ],
    error: r#"{"error":{"message":"upstream died","code":502}}"#,
    error_shown: "error the model's server answered 502: upstream died\n",
    too_long: r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","code":400}"#,
    is_lines: false,
};

pub(crate) const OLLAMA: Format = Format {
    spec: "ollama:mock",
    path: "/api/chat",
    key_header: None,
    hello: &[
        r#"{"model":"mock","created_at":"2026-11-16T00:00:00Z","message":{"role":"assistant","content":"","thinking":"Hm."},"done":false}"#,
        r#"{"model":"mock","message":{"role":"assistant","content":"Grüß"},"done":false}"#,
        r#"{"model":"mock","message":{"role":"assistant","content":" dich ☕"},"done":false}"#,
        r#"{"model":"mock","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":1,"prompt_eval_count":100,"eval_count":5}"#,
    ],
    hello_without_end: &[
        r#"{"message":{"thinking":"Hm.","content":"Grüß"},"done":false}"#,
        r#"{"message":{"content":" dich ☕"},"done":true,"prompt_eval_count":100,"eval_count":5}"#,
    ],
    first_word: &[r#"{"message":{"role":"assistant","content":"Hi"},"done":false}"#],
    first_word_counted: "",
    two_tools: &[
        r#"{"message":{"content":"Let me see."},"done":false}"#,
        r#"{"message":{"content":"","tool_calls":[{"function":{"index":0,"name":"read","arguments":{"path":"a.txt"}}}]},"done":false}"#,
        r#"{"message":{"content":"","tool_calls":[{"function":{"index":1,"name":"list","arguments":{}}}]},"done":false}"#,
        r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#,
    ],
    broken_input: &[
        r#"{"message":{"tool_calls":[{"function":{"name":"list","arguments":"{path:"}}]},"done":true}"#,
    ],
    nothing_to_say: &[r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#],
    cut_off: &[r#"{"message":{"content":""},"done":true,"done_reason":"length"}"#],
    cut_off_early: &[r#"{"message":{"content":""},"done":true,"done_reason":"length"}"#],
    error: r#"{"error":"an error was encountered while running the model"}"#,
    error_shown: "error the model's server reported an error: an error was encountered while running the model\n",
    too_long: r#"{"error":"the input exceeds context length"}"#,
    is_lines: true,
};
