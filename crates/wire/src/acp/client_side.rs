//! What the server asks of a client's own files and terminals, and what the answers say.
//!
//! Builders give whole frames; readers give `None` for a result that is not one of ACP.

use agent_client_protocol_schema::v1;
use domain::limits::TERMINAL_ID_BYTES_MAX;
use domain::{CallId, SessionId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::updates::{ToolContent, Update, update_frame};
use crate::rpc::{self, RequestId};

/// A request about the client's own files or terminals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequest {
    /// `fs/read_text_file`
    ReadTextFile {
        /// An absolute path.
        path: String,
        /// The first line, from 1.
        line: Option<u32>,
        /// How many lines.
        limit: Option<u32>,
    },
    /// `fs/write_text_file`
    WriteTextFile {
        /// An absolute path.
        path: String,
        /// The whole text.
        content: String,
    },
    /// `terminal/create`
    CreateTerminal {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Where, as an absolute path.
        cwd: String,
        /// How much of the output the client keeps.
        output_byte_limit: u64,
    },
    /// `terminal/output`, of this terminal.
    TerminalOutput(String),
    /// `terminal/wait_for_exit`, of this terminal.
    WaitForExit(String),
    /// `terminal/kill`, of this terminal.
    KillTerminal(String),
    /// `terminal/release`, of this terminal.
    ReleaseTerminal(String),
    /// `_discover_tools`, ours: which tools of its own the client has.
    DiscoverTools,
    /// `_call_tool`, ours: runs one of them.
    CallTool {
        /// The call, as the client was shown it.
        call: CallId,
        /// What the client calls the tool.
        name: String,
        /// Its input.
        input: Value,
    },
}

impl ClientRequest {
    /// The name of the method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::ReadTextFile { .. } => "fs/read_text_file",
            Self::WriteTextFile { .. } => "fs/write_text_file",
            Self::CreateTerminal { .. } => "terminal/create",
            Self::TerminalOutput(_) => "terminal/output",
            Self::WaitForExit(_) => "terminal/wait_for_exit",
            Self::KillTerminal(_) => "terminal/kill",
            Self::ReleaseTerminal(_) => "terminal/release",
            Self::DiscoverTools => "_discover_tools",
            Self::CallTool { .. } => "_call_tool",
        }
    }

    /// The request as a whole frame.
    #[must_use]
    pub fn to_frame(&self, id: &RequestId, session: SessionId) -> String {
        // A `Value` is always JSON.
        rpc::request(id, self.method(), &self.params(session)).unwrap_or_default()
    }

    fn params(&self, session: SessionId) -> Value {
        match self {
            Self::ReadTextFile { path, line, limit } => {
                let mut params = json!({"sessionId": session, "path": path});
                if let Some(line) = line {
                    params["line"] = json!(line);
                }
                if let Some(limit) = limit {
                    params["limit"] = json!(limit);
                }
                params
            }
            Self::WriteTextFile { path, content } => {
                json!({"sessionId": session, "path": path, "content": content})
            }
            Self::CreateTerminal {
                command,
                args,
                cwd,
                output_byte_limit,
            } => json!({
                "sessionId": session,
                "command": command,
                "args": args,
                "cwd": cwd,
                "outputByteLimit": output_byte_limit,
            }),
            Self::TerminalOutput(terminal)
            | Self::WaitForExit(terminal)
            | Self::KillTerminal(terminal)
            | Self::ReleaseTerminal(terminal) => {
                json!({"sessionId": session, "terminalId": terminal})
            }
            Self::DiscoverTools => json!({"sessionId": session}),
            Self::CallTool { call, name, input } => json!({
                "sessionId": session,
                "toolCallId": call,
                "name": name,
                "arguments": input,
            }),
        }
    }
}

/// What a command printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalText {
    /// The newest part of it.
    pub text: String,
    /// Whether there was more before.
    pub truncated: bool,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalEnd {
    /// Its exit code.
    pub code: Option<u32>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// Reads the result of `fs/read_text_file`.
#[must_use]
pub fn file_text(result: &RawValue) -> Option<String> {
    read::<v1::ReadTextFileResponse>(result).map(|response| response.content)
}

/// Reads the result of `terminal/create`: the terminal's name, if it is one to be sent back.
#[must_use]
pub fn created_terminal(result: &RawValue) -> Option<String> {
    let response: v1::CreateTerminalResponse = read(result)?;
    let name = response.terminal_id.0.as_ref();
    (name.len() <= TERMINAL_ID_BYTES_MAX).then(|| name.to_owned())
}

/// Reads the result of `terminal/output`.
#[must_use]
pub fn terminal_text(result: &RawValue) -> Option<TerminalText> {
    let response: v1::TerminalOutputResponse = read(result)?;
    Some(TerminalText {
        text: response.output,
        truncated: response.truncated,
    })
}

/// Reads the result of `terminal/wait_for_exit`.
#[must_use]
pub fn terminal_end(result: &RawValue) -> Option<TerminalEnd> {
    let response: v1::WaitForTerminalExitResponse = read(result)?;
    Some(TerminalEnd {
        code: response.exit_status.exit_code,
        signal: response.exit_status.signal,
    })
}

/// Reads the result of a request that only says that it was done. Clients answer it in many ways,
/// also with null, and all of them mean the same.
#[must_use]
pub fn done(_result: &RawValue) -> Option<()> {
    Some(())
}

/// A tool of a client's own, as it describes it; what is missing is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its input.
    pub input_schema: Value,
}

/// What a client's own tool said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnToolReply {
    /// Its text.
    pub text: String,
    /// Whether it says that it failed.
    pub is_error: bool,
}

/// Reads the result of `_discover_tools`: `{tools: [{name, description?, inputSchema?}]}`.
#[must_use]
pub fn own_tools(result: &RawValue) -> Option<Vec<OwnTool>> {
    #[derive(Deserialize)]
    struct Listed {
        tools: Vec<Value>,
    }
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let Listed { tools } = read(result)?;
    let tools = tools.into_iter().map(|mut tool| OwnTool {
        name: text(&tool, "name"),
        description: text(&tool, "description"),
        input_schema: tool
            .get_mut("inputSchema")
            .map(Value::take)
            .unwrap_or_default(),
    });
    Some(tools.collect())
}

/// Reads the result of `_call_tool`: `{content: [{type: "text", text}], isError?}`, as MCP has it.
#[must_use]
pub fn own_tool_reply(result: &RawValue) -> Option<OwnToolReply> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Called {
        content: Vec<Value>,
        #[serde(default)]
        is_error: bool,
    }
    let Called { content, is_error } = read(result)?;
    let shown = content.iter().map(|block| match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!(
            "[{} is not shown]",
            block["type"].as_str().unwrap_or("content")
        ),
    });
    Some(OwnToolReply {
        text: shown.collect::<Vec<_>>().join("\n"),
        is_error,
    })
}

/// Shows a running terminal as part of a tool call. It is no event: what is stored would be shown
/// again when the terminal is long gone.
#[must_use]
pub fn terminal_update(session: SessionId, call: &CallId, terminal: &str) -> Option<String> {
    let content = json!({"type": "terminal", "terminalId": terminal});
    let update = Update::ToolCallUpdate {
        tool_call_id: call,
        status: "in_progress",
        content: vec![ToolContent::Stored(content)],
        locations: &[],
        raw_output: None,
        meta: None,
    };
    update_frame(session, &update, None)
}

fn read<T: DeserializeOwned>(result: &RawValue) -> Option<T> {
    serde_json::from_str(result.get()).ok()
}
