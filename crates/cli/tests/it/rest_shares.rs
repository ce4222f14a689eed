//! REST: a session shared with others, who look at it until the share ends or is taken back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::raw::{EventStream, address};
use testkit::{AcpClient, Program};

use crate::identity::token;
use crate::rest::Rest;
use crate::support::{echo, serve};

async fn share(rest: &Rest<'_>, session: &str, how: Value) -> Value {
    let path = format!("/sessions/{session}/share");
    rest.post(&path, &how).await.is(201)
}

async fn shares(rest: &Rest<'_>, session: &str) -> Vec<Value> {
    let known = rest.get(&format!("/sessions/{session}/shares")).await;
    known.is(200)["shares"].as_array().unwrap().clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn watch(server: &Program, token: &str, session: &str) -> AcpClient {
    let client = AcpClient::dial_ws(&server.acp_url(), Some(token)).await;
    let mut client = client.unwrap().in_directory(server.home().workspace());
    client.initialize().await;
    let params = json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": []});
    client.call("session/load", params).await.unwrap();
    client
}

#[tokio::test]
async fn a_shared_session_is_seen_and_nothing_else_is_and_nobody_acts_on_it() {
    let server = serve(echo()).await;
    let owner = Rest::of(&server);
    let (id, other) = (owner.session().await, owner.session().await);
    let made = share(&owner, &id, json!({})).await;
    let secret = text(&made["token"]);
    let url = format!("http://{}/#share={secret}", address(&server));
    assert_eq!(made["url"], url);
    let guest = Rest::with(&server, &secret);
    guest.get(&format!("/sessions/{id}")).await.is(200);
    guest.get(&format!("/sessions/{id}/events")).await.is(200);
    let listed = guest.get("/sessions").await.is(200);
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    let path = format!("/sessions/{other}");
    guest.get(&path).await.is_refused(404, "not_found");
    for (method, path, body) in [
        ("POST", "prompts", json!({"prompt": "x"})),
        ("POST", "share", json!({})),
        ("GET", "shares", json!(null)),
    ] {
        let path = format!("/sessions/{id}/{path}");
        let said = guest.call(method, &path, "", &body).await;
        said.is_refused(403, "forbidden_scope");
    }
    // What the owner sees of it holds no secret.
    let known = shares(&owner, &id).await;
    assert_eq!(known.len(), 1);
    assert_eq!(known[0]["id"], made["id"]);
    assert_eq!(known[0]["expiresAt"], made["expiresAt"]);
    assert!(!known[0].to_string().contains(&secret));
    assert_eq!(shares(&owner, &other).await, Vec::<Value>::new());
}

#[tokio::test]
async fn taking_a_share_back_ends_its_sockets_and_streams_within_a_second() {
    let server = serve(echo()).await;
    let owner = Rest::of(&server);
    let id = owner.session().await;
    let made = share(&owner, &id, json!({"expiresInSecs": 3600})).await;
    let kept = share(&owner, &id, json!({})).await;
    let secret = text(&made["token"]);
    let mut socket = watch(&server, &secret, &id).await;
    let path = format!("/api/v1/sessions/{id}/stream");
    let mut stream = EventStream::open(&server, (&secret, &path), "").await;
    let path = format!("/sessions/{id}/shares/{}", text(&made["id"]));
    owner.delete(&path).await.is(204);
    let began = Instant::now();
    assert_eq!(socket.closed().await, Some(4401));
    while stream.next_event().await.is_some() {}
    assert!(began.elapsed() < Duration::from_secs(1));
    let guest = Rest::with(&server, &secret);
    let path = format!("/sessions/{id}");
    guest.get(&path).await.is_refused(401, "unauthorized");
    let other = Rest::with(&server, &text(&kept["token"]));
    other.get(&path).await.is(200);
    let path = format!("/sessions/{id}/shares/{}", text(&made["id"]));
    owner.delete(&path).await.is_refused(404, "not_found");
    assert_eq!(shares(&owner, &id).await.len(), 1);
}

#[tokio::test]
async fn a_share_ends_by_itself_and_how_long_and_how_many_is_bounded() {
    let server = serve(echo()).await;
    let owner = Rest::of(&server);
    let id = owner.session().await;
    let brief = share(&owner, &id, json!({"expiresInSecs": 1})).await;
    let secret = text(&brief["token"]);
    let path = format!("/api/v1/sessions/{id}/stream");
    let mut stream = EventStream::open(&server, (&secret, &path), "").await;
    while stream.next_event().await.is_some() {}
    let guest = Rest::with(&server, &secret);
    let said = guest.get("/sessions").await;
    said.is_refused(401, "unauthorized");

    let path = format!("/sessions/{id}/share");
    for wrong in [0, 30 * 24 * 3_600 + 1] {
        let said = owner.post(&path, &json!({"expiresInSecs": wrong})).await;
        said.is_refused(400, "invalid_request");
    }
    for _ in 0..16 {
        share(&owner, &id, json!({"expiresInSecs": 30 * 24 * 3_600})).await;
    }
    let said = owner.post(&path, &json!({})).await;
    said.is_refused(429, "rate_limited");
    assert!(said.answer.header("retry-after").is_some());
    // With the session its shares are forgotten.
    owner.delete(&format!("/sessions/{id}")).await.is(204);
    let stored = server.home().data_dir().join("tokens.json");
    let stored = std::fs::read_to_string(stored).unwrap();
    assert!(!stored.contains(&id), "{stored}");
}

#[tokio::test]
async fn whoever_was_only_let_in_may_not_let_in_others_and_a_share_ends_with_its_maker() {
    let server = serve(echo()).await;
    let named = token(server.home(), &["friend"]).await;
    let friend = Rest::with(&server, &named);
    let cwd = json!({"cwd": server.home().workspace()});
    let id = text(&friend.post("/sessions", &cwd).await.is(201)["id"]);
    let granted = token(server.home(), &["helper", "--session", &id]).await;
    let helper = Rest::with(&server, &granted);
    helper.get(&format!("/sessions/{id}")).await.is(200);
    let path = format!("/sessions/{id}/share");
    let said = helper.post(&path, &json!({})).await;
    said.is_refused(403, "forbidden_scope");

    let made = share(&friend, &id, json!({})).await;
    let guest = Rest::with(&server, &text(&made["token"]));
    guest.get(&format!("/sessions/{id}")).await.is(200);
    let mut command = server.home().clean(server.home().binary());
    command.args(["token", "revoke", "friend", "--data-dir"]);
    let revoking = command.arg(server.home().data_dir()).output().await;
    assert!(revoking.unwrap().status.success());
    let said = guest.get(&format!("/sessions/{id}")).await;
    said.is_refused(401, "unauthorized");
}
