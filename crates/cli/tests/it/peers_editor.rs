//! The official clients as editors: reads see what is not saved, writes and commands happen in the
//! client, and questions are shown as forms. The server's disk is not touched.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentBlock, CreateTerminalRequest, CreateTerminalResponse,
    FileSystemCapabilities, InitializeRequest, NewSessionRequest, PromptRequest,
    ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest, ReleaseTerminalResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, StopReason, TerminalExitStatus, TerminalId, TerminalOutputRequest,
    TerminalOutputResponse, TextContent, WaitForTerminalExitRequest, WaitForTerminalExitResponse,
    WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client};
use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{Home, Peer, Program};

use crate::peers::{self, binary};

const SAVED: &str = "saved\n";
const UNSAVED: &str = "not saved\n";
/// The same as `read` shows it to the model, which copies all of it.
const COPIED: &str = "1\tnot saved\n";

fn script() -> Script {
    Script::new()
        .call([tool("read", json!({"path": "draft.txt"}))])
        .call([tool(
            "write",
            json!({"path": "copy.txt", "content": "${result}"}),
        )])
        .call([tool("bash", json!({"command": "make"}))])
        .call([tool("ask_user", json!({"question": "Ship it?"}))])
        .call([say("${result}")])
}

fn plan() -> Value {
    json!({"editor": {
        "open": "draft.txt", "buffer": UNSAVED, "copied": COPIED, "copy": "copy.txt", "command": "make",
        "printed": "built", "question": "Ship it?", "answer": "yes, ship it",
    }})
}

fn check_disk(home: &Home) {
    assert_eq!(home.read("draft.txt").as_deref(), Some(SAVED));
    assert_eq!(home.read("copy.txt"), None, "it is the client's");
}

async fn over_stdio(peer: Peer) {
    let home = Home::new(binary(), script());
    home.write("draft.txt", SAVED);
    let mut command = vec![binary().to_owned()];
    command.extend(home.arguments("acp"));
    let place = json!({"command": command});
    let told = peers::follow(peer, &home, plan(), &place).await;
    told.unwrap_or_else(|printed| panic!("{printed}"));
    check_disk(&home);
}

async fn over_websocket(peer: Peer) {
    let server = Program::serve(binary(), script()).await;
    server.home().write("draft.txt", SAVED);
    let place = json!({"url": server.acp_url(), "token": server.token()});
    let told = peers::follow(peer, server.home(), plan(), &place).await;
    told.unwrap_or_else(|printed| panic!("{printed}\n{}", server.stderr()));
    check_disk(server.home());
}

#[tokio::test]
async fn b_06_typescript_sdk_over_stdio_is_an_editor() {
    over_stdio(Peer::TypeScript).await;
}

#[tokio::test]
async fn b_06_typescript_sdk_over_websocket_is_an_editor() {
    over_websocket(Peer::TypeScript).await;
}

#[tokio::test]
async fn b_06_python_sdk_over_stdio_is_an_editor() {
    over_stdio(Peer::Python).await;
}

#[tokio::test]
async fn b_06_python_sdk_over_websocket_is_an_editor() {
    over_websocket(Peer::Python).await;
}

/// What was done on the desk of the Rust client.
type Desk = Arc<Mutex<Vec<String>>>;

#[tokio::test]
async fn b_06_rust_sdk_over_stdio_is_an_editor() {
    let home = Home::new(binary(), script());
    home.write("draft.txt", SAVED);
    let desk = Desk::default();
    let agent = AcpAgent::new(AcpAgentConfig::new(home.binary()).args(home.arguments("acp")));
    let edited = edit(agent, Arc::clone(&desk), &home);
    tokio::time::timeout(peers::DEADLINE, edited).await.unwrap();
    check_disk(&home);
    let done = desk.lock().unwrap().clone();
    let expected = [
        "read draft.txt",
        // For the difference that a person is shown, and once more before it is written.
        "read copy.txt",
        "read copy.txt",
        "write copy.txt: 1\tnot saved\n",
        "run bash -c make",
        "wait t1",
        "output t1",
        "release t1",
    ];
    assert_eq!(done, expected);
}

/// One turn of the Rust client, which has files and a terminal and no forms.
#[expect(
    clippy::too_many_lines,
    reason = "the SDK chains handlers whose types have no names"
)]
async fn edit(agent: AcpAgent, desk: Desk, home: &Home) {
    let note = move |what: String| desk.lock().unwrap().push(what);
    let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let (reads, writes, runs) = (note.clone(), note.clone(), note.clone());
    let (waits, prints, releases) = (note.clone(), note.clone(), note);
    let workspace = home.workspace();
    let connection = Client
        .v1()
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                let chosen = request.options[0].option_id.clone();
                let chosen = SelectedPermissionOutcome::new(chosen);
                let outcome = RequestPermissionOutcome::Selected(chosen);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _connection| {
                reads(format!("read {}", name(&request.path)));
                responder.respond(ReadTextFileResponse::new(UNSAVED))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WriteTextFileRequest, responder, _connection| {
                writes(format!(
                    "write {}: {}",
                    name(&request.path),
                    request.content
                ));
                responder.respond(WriteTextFileResponse::new())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CreateTerminalRequest, responder, _connection| {
                runs(format!(
                    "run {} {}",
                    request.command,
                    request.args.join(" ")
                ));
                responder.respond(CreateTerminalResponse::new(TerminalId::new("t1")))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WaitForTerminalExitRequest, responder, _connection| {
                waits(format!("wait {}", request.terminal_id.0));
                let exit = TerminalExitStatus::new().exit_code(0);
                responder.respond(WaitForTerminalExitResponse::new(exit))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: TerminalOutputRequest, responder, _connection| {
                prints(format!("output {}", request.terminal_id.0));
                responder.respond(TerminalOutputResponse::new("built", false))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReleaseTerminalRequest, responder, _connection| {
                releases(format!("release {}", request.terminal_id.0));
                responder.respond(ReleaseTerminalResponse::new())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(agent, async move |agent: ConnectionTo<Agent>| {
            let files = FileSystemCapabilities::new()
                .read_text_file(true)
                .write_text_file(true);
            let offers = ClientCapabilities::new().fs(files).terminal(true);
            let request = InitializeRequest::new(ProtocolVersion::V1).client_capabilities(offers);
            agent.send_request(request).block_task().await?;
            let new = NewSessionRequest::new(workspace);
            let session = agent.send_request(new).block_task().await?.session_id;
            let prompt = vec![ContentBlock::Text(TextContent::new("edit"))];
            let prompt = agent.send_request(PromptRequest::new(session, prompt));
            assert_eq!(prompt.block_task().await?.stop_reason, StopReason::EndTurn);
            Ok(())
        });
    connection.await.unwrap();
}
