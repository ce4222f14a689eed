//! The official Rust SDK as a client of Fastness, over stdio and WebSocket.
//!
//! The same story as the other [`peers`](crate::peers) tell, in the SDK's own words: see
//! [`talk`] for one connection's part and [`remember`] for what the next one finds.

use std::path::Path;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, InitializeRequest, LoadSessionRequest, NewSessionRequest,
    PermissionOptionKind, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionId, SessionNotification,
    SessionUpdate, StopReason, TextContent, ToolCallStatus,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client, ConnectTo, Error};
use agent_client_protocol_http::HttpClient;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use testkit::{Home, Program};
use tokio::sync::watch;

use crate::peers::{self, ALLOWED, CONTENT, ENDLESS, HELLO, OPEN, REJECTED};

#[tokio::test]
async fn rust_sdk_over_stdio_completes_the_story() {
    let home = Home::new(peers::binary(), peers::script());
    let arguments = home.arguments("acp");
    let agent = || AcpAgent::new(AcpAgentConfig::new(home.binary()).args(arguments.clone()));
    complete(&home, agent).await;
}

#[tokio::test]
async fn rust_sdk_over_websocket_completes_the_story() {
    over_network(Program::acp_url).await;
}

#[tokio::test]
async fn rust_sdk_over_http_completes_the_story() {
    over_network(|server| format!("{}/acp", server.url())).await;
}

async fn over_network(url: impl Fn(&Program) -> String) {
    let server = Program::serve(peers::binary(), peers::script()).await;
    let bearer = HeaderValue::from_str(&format!("Bearer {}", server.token())).unwrap();
    let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
    let agent = || {
        HttpClient::builder(url(&server))
            .configure_http(|http| http.no_proxy().default_headers(headers.clone()))
            .build()
            .unwrap()
    };
    complete(server.home(), agent).await;
}

/// What the agent has told about the session, as the handlers saw it.
type Told = watch::Sender<Vec<SessionUpdate>>;

/// How permission questions are answered.
type Choice = watch::Sender<Mood>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// With an option of this kind.
    Chooses(PermissionOptionKind),
    /// Not yet.
    Waits,
    /// Not yet, and one is open.
    Asked,
    /// The open one is withdrawn.
    Withdraws,
}

/// Runs the story over two connections to the same sessions.
async fn complete<T: ConnectTo<Client>>(home: &Home, agent: impl Fn() -> T) {
    let workspace = home.workspace();
    let (session, said) = connected(agent(), async |agent, told, choice| {
        talk(&agent, &told, &choice, &workspace).await
    })
    .await;
    assert_eq!(home.read(ALLOWED).as_deref(), Some(CONTENT));
    assert_eq!(home.read(REJECTED), None);
    assert_eq!(home.read(OPEN), None);
    connected(agent(), async |agent, told, _| {
        remember(&agent, &told, session, &said, &workspace).await
    })
    .await;
}

/// Connects with handlers that record and choose, initializes, and runs `story`.
async fn connected<R>(
    transport: impl ConnectTo<Client>,
    story: impl AsyncFnOnce(ConnectionTo<Agent>, Told, Choice) -> Result<R, Error>,
) -> R {
    let told = Told::new(Vec::new());
    let choice = Choice::new(Mood::Chooses(PermissionOptionKind::AllowOnce));
    let (hears, chooses) = (told.clone(), choice.clone());
    let connection = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _connection| {
                hears.send_modify(|updates| updates.push(notification.update));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                let mood = *chooses.borrow();
                if mood != Mood::Waits {
                    return responder.respond(chosen(&request, mood));
                }
                chooses.send_replace(Mood::Asked);
                let mut changed = chooses.subscribe();
                tokio::spawn(async move {
                    let _ = changed.wait_for(|mood| *mood == Mood::Withdraws).await;
                    responder.respond(chosen(&request, Mood::Withdraws))
                });
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(transport, async move |agent: ConnectionTo<Agent>| {
            let request = InitializeRequest::new(ProtocolVersion::V1);
            let greeting = agent.send_request(request).block_task().await?;
            assert_eq!(greeting.protocol_version, ProtocolVersion::V1);
            assert!(greeting.agent_capabilities.load_session);
            story(agent, told, choice).await
        });
    match tokio::time::timeout(peers::DEADLINE, connection).await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => panic!("the story ends badly: {error:?}"),
        Err(_) => panic!("the story does not end in time"),
    }
}

/// The answer to a permission question.
fn chosen(request: &RequestPermissionRequest, mood: Mood) -> RequestPermissionResponse {
    let mut options = request.options.iter();
    let option = options.find(|option| mood == Mood::Chooses(option.kind));
    let outcome = match option.map(|option| option.option_id.clone()) {
        Some(id) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id)),
        None => RequestPermissionOutcome::Cancelled,
    };
    RequestPermissionResponse::new(outcome)
}

/// New session, streamed answer, allowed call, rejected call, two cancelled turns; gives the session
/// and what the agent said in it.
async fn talk(
    agent: &ConnectionTo<Agent>,
    told: &Told,
    choice: &Choice,
    workspace: &Path,
) -> Result<(SessionId, String), Error> {
    let request = NewSessionRequest::new(workspace);
    let session = agent.send_request(request).block_task().await?.session_id;
    let ask = |text: &str| {
        let prompt = vec![ContentBlock::Text(TextContent::new(text))];
        agent.send_request(PromptRequest::new(session.clone(), prompt))
    };

    let answer = ask("hello").block_task().await?;
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert!(text_of_agent(&told.borrow()).ends_with(HELLO));

    let answer = ask("write").block_task().await?;
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert_eq!(last_status(&told.borrow()), Some(ToolCallStatus::Completed));

    choice.send_replace(Mood::Chooses(PermissionOptionKind::RejectOnce));
    let answer = ask("write again").block_task().await?;
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert_eq!(last_status(&told.borrow()), Some(ToolCallStatus::Failed));

    let turn = ask("count");
    let mut heard = told.subscribe();
    let has_begun = |updates: &Vec<_>| text_of_agent(updates).contains(ENDLESS);
    assert!(heard.wait_for(has_begun).await.is_ok());
    agent.send_notification(CancelNotification::new(session.clone()))?;
    assert_eq!(turn.block_task().await?.stop_reason, StopReason::Cancelled);

    choice.send_replace(Mood::Waits);
    let turn = ask("write, or wait");
    let is_asked = |mood: &Mood| *mood == Mood::Asked;
    assert!(choice.subscribe().wait_for(is_asked).await.is_ok());
    agent.send_notification(CancelNotification::new(session.clone()))?;
    choice.send_replace(Mood::Withdraws);
    assert_eq!(turn.block_task().await?.stop_reason, StopReason::Cancelled);
    assert_eq!(last_status(&told.borrow()), Some(ToolCallStatus::Failed));
    let said = text_of_agent(&told.borrow());
    Ok((session, said))
}

/// Another connection loads the session, is told all of it, and goes on.
async fn remember(
    agent: &ConnectionTo<Agent>,
    told: &Told,
    session: SessionId,
    said: &str,
    workspace: &Path,
) -> Result<(), Error> {
    let request = LoadSessionRequest::new(session.clone(), workspace);
    agent.send_request(request).block_task().await?;
    check_history(&told.borrow(), said);
    let prompt = vec![ContentBlock::Text(TextContent::new("hello again"))];
    let answer = agent.send_request(PromptRequest::new(session, prompt));
    assert_eq!(answer.block_task().await?.stop_reason, StopReason::EndTurn);
    assert!(text_of_agent(&told.borrow()).ends_with(HELLO));
    Ok(())
}

fn check_history(updates: &[SessionUpdate], said: &str) {
    assert_eq!(text_of_agent(updates), said);
    let user = text_of(updates, |update| {
        if let SessionUpdate::UserMessageChunk(chunk) = update {
            Some(&chunk.content)
        } else {
            None
        }
    });
    assert_eq!(user, "hellowritewrite againcountwrite, or wait");
}

fn text_of_agent(updates: &[SessionUpdate]) -> String {
    text_of(updates, |update| {
        if let SessionUpdate::AgentMessageChunk(chunk) = update {
            Some(&chunk.content)
        } else {
            None
        }
    })
}

fn text_of(
    updates: &[SessionUpdate],
    content: impl Fn(&SessionUpdate) -> Option<&ContentBlock>,
) -> String {
    let blocks = updates.iter().filter_map(content);
    let texts = blocks.filter_map(|block| {
        if let ContentBlock::Text(text) = block {
            Some(text.text.as_str())
        } else {
            None
        }
    });
    texts.collect()
}

fn last_status(updates: &[SessionUpdate]) -> Option<ToolCallStatus> {
    let newest = updates.iter().rev();
    newest.filter_map(status_of).next()
}

fn status_of(update: &SessionUpdate) -> Option<ToolCallStatus> {
    if let SessionUpdate::ToolCall(call) = update {
        Some(call.status)
    } else if let SessionUpdate::ToolCallUpdate(call) = update {
        call.fields.status
    } else {
        None
    }
}
