//! What several stories need.

use serde_json::{Value, json};
use testkit::{AcpClient, AgentRequest, Home, Program, Script};

/// What is logged of a cancelled turn that did not hear of it and had to be ended by force.
pub(crate) const FORCED: &str = "a cancelled turn did not end by itself";

/// The program under test.
pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_fastness")
}

/// A server whose model follows `script`.
pub(crate) async fn serve(script: impl Into<Value>) -> Program {
    Program::serve(binary(), script).await
}

/// A server whose model follows `script`, with settings from the environment.
pub(crate) async fn serve_with(script: impl Into<Value>, settings: &[(&str, &str)]) -> Program {
    let home = settings
        .iter()
        .fold(Home::new(binary(), script), |home, (name, value)| {
            home.env(name, value)
        });
    Program::serve_in(home).await
}

/// A model that answers every prompt with what it was asked.
pub(crate) fn echo() -> Script {
    Script::says("you said ${prompt}")
}

/// The types of a session's stored events, in order.
pub(crate) fn stored(home: &Home, session: &str) -> Vec<String> {
    let events = home.events(session);
    let kind = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    events.iter().map(kind).collect()
}

/// A cursor to resume after, made of an update's `_meta.fastness`.
pub(crate) fn after(cursor: &Value) -> Value {
    json!({"afterSeq": cursor["seq"], "offset": cursor["offset"].as_u64().unwrap_or(0), "epoch": cursor["epoch"]})
}

/// Two clients of one server.
pub(crate) async fn two_clients(server: &Program) -> (AcpClient, AcpClient) {
    (
        AcpClient::connect_ws(server).await,
        AcpClient::connect_ws(server).await,
    )
}

/// The next thing that `client` holds back, but for looks at `written`: what stands in a file is asked for
/// before it is written, so that a person sees the difference.
pub(crate) async fn next_but_looks(client: &mut AcpClient, written: &[&str]) -> AgentRequest {
    loop {
        let asked = client.next_request().await;
        let path = asked.params["path"].as_str().unwrap_or_default();
        let is_look = written.iter().any(|name| path.ends_with(name));
        if asked.method != "fs/read_text_file" || !is_look {
            return asked;
        }
        client.answer(&asked, Ok(json!({"content": ""}))).await;
    }
}
