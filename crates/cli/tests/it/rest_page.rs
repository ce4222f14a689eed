//! REST: what a page asks for beside sessions: names of files, and how the server is doing.

use serde_json::json;
use testkit::{AcpClient, Home, Program};

use crate::identity::token;
use crate::rest::Rest;
use crate::support::{binary, echo, serve};

async fn offered(rest: &Rest<'_>, session: &str, query: &str) -> Vec<String> {
    let path = format!("/sessions/{session}/files?{query}");
    let files = rest.get(&path).await.is(200)["files"].clone();
    let files = files.as_array().unwrap().clone();
    let paths = files.iter().map(|file| file["path"].as_str().unwrap());
    paths.map(str::to_owned).collect()
}

#[tokio::test]
async fn files_are_offered_for_what_was_typed_and_none_that_no_tool_may_see() {
    let server = serve(echo()).await;
    let home = server.home();
    for (path, text) in [
        ("src/main.rs", ""),
        ("src/deep/main.rs", ""),
        ("docs/maintain.md", ""),
        ("target/main.rs", ""),
        (".gitignore", "target/\n"),
        (".git/HEAD", ""),
    ] {
        let path = home.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let rest = Rest::of(&server);
    let id = rest.session().await;
    assert_eq!(
        offered(&rest, &id, "query=main").await,
        ["src/main.rs", "docs/maintain.md", "src/deep/main.rs"]
    );
    assert_eq!(
        offered(&rest, &id, "query=main&limit=1").await,
        ["src/main.rs"]
    );
    assert_eq!(offered(&rest, &id, "").await.len(), 3);
    let up = offered(&rest, &id, "query=..%2F").await;
    assert_eq!(up, Vec::<String>::new());
    // A session whose root holds the data directory.
    let above = home.data_dir().parent().unwrap().to_owned();
    let made = rest.post("/sessions", &json!({"cwd": above})).await.is(201);
    let above = made["id"].as_str().unwrap();
    assert_eq!(
        offered(&rest, above, "query=events.jsonl").await,
        Vec::<String>::new()
    );
    assert!(!offered(&rest, above, "query=main.rs").await.is_empty());

    let long = format!("query={}", "x".repeat(257));
    for wrong in ["limit=0", "limit=101", "limit=x", "other=1", &long] {
        let path = format!("/sessions/{id}/files?{wrong}");
        rest.get(&path).await.is_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_01_only_the_owner_is_offered_files() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let path = format!("/sessions/{id}/files");
    let stranger = token(server.home(), &["stranger"]).await;
    let stranger = Rest::with(&server, &stranger);
    stranger.get(&path).await.is_refused(404, "not_found");
    for more in [&["looker", "--scope", "observe"][..], &["helper"]] {
        let guest = token(server.home(), &[more, &["--session", &id]].concat()).await;
        let guest = Rest::with(&server, &guest);
        guest.get(&path).await.is_refused(403, "forbidden_scope");
    }
}

#[tokio::test]
async fn usage_adds_up_what_is_known_of_the_cost() {
    let home = Home::new(binary(), echo());
    let id = "c0".repeat(16);
    let session = home.data_dir().join("sessions").join(&id);
    std::fs::create_dir_all(&session).unwrap();
    let usage = |seq: u64, cost: Option<u64>| {
        let mut usage = json!({"seq": seq, "ts": 2.0, "type": "usage", "turn": 1,
            "inputTokens": 90, "outputTokens": 10});
        if let Some(cost) = cost {
            usage["costNanoUsd"] = json!(cost);
        }
        format!("{usage}\n")
    };
    let created = json!({"seq": 1, "ts": 1.0, "type": "session.created", "owner": "local",
        "cwd": home.workspace(), "epoch": 0});
    let lines = [
        format!("{created}\n"),
        usage(2, Some(1_500_000_000)),
        usage(3, None),
        usage(4, Some(250_000_000)),
    ];
    std::fs::write(session.join("events.jsonl"), lines.concat()).unwrap();
    let server = Program::serve_in(home).await;
    let rest = Rest::of(&server);
    let used = rest.get("/usage").await.is(200);
    assert_eq!(
        (&used["tokens"], &used["costUsd"]),
        (&json!(300), &json!(1.75))
    );
    let stranger = token(server.home(), &["stranger"]).await;
    let none = Rest::with(&server, &stranger).get("/usage").await.is(200);
    assert_eq!(none["costUsd"], json!(null));
}

#[tokio::test]
async fn the_server_shows_how_it_is_doing_to_the_person_at_the_machine_only() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let path = format!("/sessions/{id}/prompts");
    let prompt = json!({"prompt": "hello"});
    rest.call("POST", &path, "prefer: wait=60\r\n", &prompt)
        .await
        .is(200);
    let mut client = AcpClient::connect_ws(&server).await;
    client.new_session().await;
    let view = rest.get("/server").await.is(200);
    assert_eq!(view["connectionsTotal"], 1);
    let row = &view["connections"][0];
    assert_eq!(
        (&row["transport"], &row["principal"], &row["sessions"]),
        (&json!("websocket"), &json!("local"), &json!(1))
    );
    assert!(row["queuedBytes"].is_u64() && row["sinceSecs"].is_u64());
    assert_eq!(view["turnsTotal"], 1);
    assert!(view["eventsTotal"].as_u64().unwrap() >= 5, "{view}");
    assert!(view["memoryBytes"].as_u64().unwrap() > 1_000_000, "{view}");
    assert_eq!(view["sessions"]["loaded"], 2);
    assert_eq!(view["sessions"]["running"], 0);
    for key in ["version", "uptimeSecs", "cpuSecs", "queuedBytes"] {
        assert!(!view[key].is_null(), "{view}");
    }
    let friend = token(server.home(), &["friend"]).await;
    let said = Rest::with(&server, &friend).get("/server").await;
    said.is_refused(403, "forbidden_scope");
}
