//! A client's message from its method and parameters, validated with the official types.

use std::path::PathBuf;

use agent_client_protocol_schema::v1;
use domain::EventSeq;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::client_message::{
    Attach, ClientCapabilities, ClientInfo, ClientMessage, ConfigValue, Initialize, ListSessions,
    McpServer, NewSession, Prompt, Rewind, SetConfigOption, SetMode,
};
use super::content::push_text;
use super::meta::{FastnessMeta, declares};
use super::older::{Method, modernise};
use crate::rpc::{RequestId, RpcError};

/// Reads the parameters of `method`.
///
/// A method that is not served is [`ClientMessage::Unknown`], which only the caller can judge: it
/// knows whether the message was a request.
///
/// # Errors
/// `-32602` if the parameters do not fit the method.
pub fn decode(method: &str, params: Option<&RawValue>) -> Result<ClientMessage, RpcError> {
    let Some(known) = Method::named(method) else {
        return Ok(ClientMessage::Unknown(method.to_owned()));
    };
    let written = params;
    let params = Params::of(known, written)?;
    Ok(match known {
        Method::Initialize => ClientMessage::Initialize(initialize(params.read()?)),
        Method::Authenticate => {
            let request: v1::AuthenticateRequest = params.read()?;
            ClientMessage::Authenticate(request.method_id.0.as_ref().to_owned())
        }
        Method::Logout => {
            let _: v1::LogoutRequest = params.read()?;
            ClientMessage::Logout
        }
        Method::NewSession => ClientMessage::NewSession(new_session(params.read()?)?),
        Method::LoadSession => ClientMessage::LoadSession(load(params.read()?)?),
        Method::ResumeSession => ClientMessage::ResumeSession(resume(params.read()?)?),
        Method::ListSessions => ClientMessage::ListSessions(list(params.read()?)),
        Method::CloseSession => {
            let request: v1::CloseSessionRequest = params.read()?;
            ClientMessage::CloseSession(request.session_id.0.parse())
        }
        Method::DeleteSession => {
            let request: v1::DeleteSessionRequest = params.read()?;
            ClientMessage::DeleteSession(request.session_id.0.parse())
        }
        Method::Prompt => ClientMessage::Prompt(prompt(params.read()?)?),
        Method::SetMode => {
            let request: v1::SetSessionModeRequest = params.read()?;
            ClientMessage::SetMode(SetMode {
                session: request.session_id.0.parse(),
                mode: request.mode_id.0.as_ref().to_owned(),
            })
        }
        Method::SetConfigOption => {
            ClientMessage::SetConfigOption(set_config_option(params.read()?)?)
        }
        Method::Rewind => {
            let request: RewindRequest = params.read()?;
            ClientMessage::Rewind(Rewind {
                session: request.session_id.parse(),
                to: request.to,
            })
        }
        Method::Cancel => {
            let request: v1::CancelNotification = params.read()?;
            ClientMessage::Cancel(request.session_id.0.parse())
        }
        Method::CancelRequest => ClientMessage::CancelRequest(cancelled_id(written)?),
    })
}

/// The parameters of `_fastness/session/rewind`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RewindRequest {
    session_id: String,
    to: EventSeq,
}

/// The parameters of one message, spelled as ACP 1 does.
struct Params(Map<String, Value>);

impl Params {
    fn of(method: Method, written: Option<&RawValue>) -> Result<Self, RpcError> {
        let mut fields = match written {
            Some(written) => serde_json::from_str(written.get()).map_err(|_| {
                RpcError::invalid_params("the parameters must be an object of valid text")
            })?,
            None => Map::new(),
        };
        modernise(method, &mut fields);
        Ok(Self(fields))
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, RpcError> {
        serde_json::from_value(Value::Object(self.0)).map_err(|error| {
            RpcError::invalid_params(format!("invalid parameters: {}", harmless(&error)))
        })
    }
}

/// The id in the parameters of `$/cancel_request`, as it was written: a detour through [`Value`]
/// would not keep that.
pub(super) fn cancelled_id(params: Option<&RawValue>) -> Result<RequestId, RpcError> {
    #[derive(Deserialize)]
    struct CancelRequest<'a> {
        #[serde(borrow, rename = "requestId", alias = "request_id")]
        request_id: &'a RawValue,
    }
    let wrong = || RpcError::invalid_params("`requestId` must be the id of a request");
    let params = params.ok_or_else(wrong)?;
    let request: CancelRequest<'_> = serde_json::from_str(params.get()).map_err(|_| wrong())?;
    RequestId::from_json(request.request_id.get()).map_err(|_| wrong())
}

fn initialize(request: v1::InitializeRequest) -> Initialize {
    let offered = &request.client_capabilities;
    let session = offered.session.as_ref();
    let capabilities = ClientCapabilities {
        read_text_file: offered.fs.read_text_file,
        write_text_file: offered.fs.write_text_file,
        terminal: offered.terminal,
        terminal_login: offered.auth.terminal || declares_terminal_login(offered),
        notices: session.is_some_and(|session| session.notices.is_some()),
        compaction: session.is_some_and(|session| session.compaction.is_some()),
        forms: offered
            .elicitation
            .as_ref()
            .is_some_and(|shown| shown.form.is_some()),
        tools: declares(offered, "tools"),
        turns: declares(offered, "turns"),
        queue: declares(offered, "queue"),
    };
    let client = request.client_info.map(|info| ClientInfo {
        name: info.name,
        title: info.title,
        version: info.version,
    });
    Initialize {
        protocol_version: request.protocol_version.as_u16(),
        capabilities,
        client,
    }
}

/// Whether a client says by the older sign that it can run a login in a terminal. ACP's registry still
/// does.
fn declares_terminal_login(offered: &v1::ClientCapabilities) -> bool {
    let meta = offered.meta.as_ref();
    let sign = meta.and_then(|meta| meta.get("terminal-auth"));
    sign.and_then(Value::as_bool).unwrap_or(false)
}

fn new_session(request: v1::NewSessionRequest) -> Result<NewSession, RpcError> {
    Ok(NewSession {
        cwd: path(request.cwd),
        additional_directories: paths(request.additional_directories),
        mcp_servers: mcp_servers(&request.mcp_servers)?,
        meta: FastnessMeta::take(request.meta)?,
    })
}

fn load(request: v1::LoadSessionRequest) -> Result<Attach, RpcError> {
    Ok(Attach {
        session: request.session_id.0.parse(),
        cwd: path(request.cwd),
        additional_directories: paths(request.additional_directories),
        mcp_servers: mcp_servers(&request.mcp_servers)?,
        meta: FastnessMeta::take(request.meta)?,
    })
}

fn resume(request: v1::ResumeSessionRequest) -> Result<Attach, RpcError> {
    Ok(Attach {
        session: request.session_id.0.parse(),
        cwd: path(request.cwd),
        additional_directories: paths(request.additional_directories),
        mcp_servers: mcp_servers(&request.mcp_servers)?,
        meta: FastnessMeta::take(request.meta)?,
    })
}

fn list(request: v1::ListSessionsRequest) -> ListSessions {
    ListSessions {
        cwd: request.cwd.map(path),
        cursor: request.cursor,
    }
}

fn prompt(request: v1::PromptRequest) -> Result<Prompt, RpcError> {
    let mut text = String::new();
    for block in &request.prompt {
        push_text(&mut text, block)?;
    }
    // Written anew from the typed form, so that whoever replays them sends valid blocks.
    let blocks = request.prompt.into_iter().map(serde_json::to_value);
    Ok(Prompt {
        session: request.session_id.0.parse(),
        blocks: blocks
            .collect::<Result<_, _>>()
            .map_err(|_| RpcError::internal())?,
        text,
        meta: FastnessMeta::take(request.meta)?,
    })
}

fn set_config_option(
    request: v1::SetSessionConfigOptionRequest,
) -> Result<SetConfigOption, RpcError> {
    let value = match request.value {
        v1::SessionConfigOptionValue::Boolean { value } => ConfigValue::Switch(value),
        v1::SessionConfigOptionValue::ValueId { value } => {
            ConfigValue::Choice(value.0.as_ref().to_owned())
        }
        _ => {
            return Err(RpcError::invalid_params(
                "a kind of value that is not known",
            ));
        }
    };
    Ok(SetConfigOption {
        session: request.session_id.0.parse(),
        option: request.config_id.0.as_ref().to_owned(),
        value,
    })
}

fn mcp_servers(servers: &[v1::McpServer]) -> Result<Vec<McpServer>, RpcError> {
    let servers = servers.iter().map(serde_json::to_value);
    servers
        .map(|server| server.map(McpServer).map_err(|_| RpcError::internal()))
        .collect()
}

fn path(path: PathBuf) -> String {
    // Came from JSON, so it is text and nothing is lost.
    path.to_string_lossy().into_owned()
}

fn paths(list: Vec<PathBuf>) -> Vec<String> {
    list.into_iter().map(path).collect()
}

/// The part of a reader's complaint that names our types, without the client's own values: they
/// may be long, and may be secrets.
fn harmless(error: &serde_json::Error) -> String {
    let complaint = error.to_string();
    if complaint.starts_with("missing field") {
        return complaint;
    }
    match complaint.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => "they do not fit the method".to_owned(),
    }
}
