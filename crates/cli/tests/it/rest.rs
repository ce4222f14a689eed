//! REST: sessions made, listed, changed, copied and deleted, and what strangers see of them.

use serde_json::{Value, json};
use testkit::raw::{HttpAnswer, address, request};
use testkit::{AcpClient, Program};

use crate::identity::token;
use crate::support::{echo, serve};

/// Somebody who asks by single requests.
pub(crate) struct Rest<'a> {
    pub(crate) server: &'a Program,
    pub(crate) token: String,
}

/// What an answer says.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) answer: HttpAnswer,
}

impl<'a> Rest<'a> {
    /// With the default token.
    pub(crate) fn of(server: &'a Program) -> Self {
        Self::with(server, server.token())
    }

    pub(crate) fn with(server: &'a Program, token: &str) -> Self {
        let token = token.to_owned();
        Self { server, token }
    }

    pub(crate) async fn get(&self, path: &str) -> Said {
        self.send("GET", path, "", "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Said {
        self.send("DELETE", path, "", "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Said {
        self.call("POST", path, "", body).await
    }

    /// With more headers, each with its line end.
    pub(crate) async fn call(&self, method: &str, path: &str, more: &str, body: &Value) -> Said {
        let headers = format!("content-type: application/json\r\n{more}");
        self.send(method, path, &headers, &body.to_string()).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Said {
        let (host, token, length) = (address(self.server), &self.token, body.len());
        let asked = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
             {headers}content-length: {length}\r\n\r\n{body}"
        );
        let answer = request(self.server, asked).await;
        let body = match answer.body.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}")),
        };
        Said {
            status: answer.status,
            body,
            answer,
        }
    }

    /// Makes a session; gives its id.
    pub(crate) async fn session(&self) -> String {
        let made = self.post("/sessions", &json!({})).await.is(201);
        made["id"].as_str().unwrap().to_owned()
    }
}

impl Said {
    /// The body, if the status is that one.
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.answer);
        self.body
    }

    /// Holds a refusal against what it should be.
    pub(crate) fn is_refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.answer);
        assert_eq!(self.body["error"], code, "{}", self.answer);
        for key in ["message", "requestId"] {
            assert!(self.body[key].as_str().is_some_and(|text| !text.is_empty()));
        }
    }
}

#[tokio::test]
async fn a_session_is_made_shown_changed_and_deleted() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let cwd = server.home().workspace();
    let made = rest
        .post("/sessions", &json!({"cwd": cwd, "title": "first"}))
        .await;
    let place = made.answer.header("location").unwrap().to_owned();
    let made = made.is(201);
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(place, format!("/api/v1/sessions/{id}"));
    assert_eq!(
        (&made["cwd"], &made["title"]),
        (&json!(cwd), &json!("first"))
    );
    assert_eq!(made["turn"], json!({"id": 0, "state": "idle"}));
    assert_eq!(made["archived"], false);
    for key in ["model", "createdAt", "updatedAt"] {
        assert!(made[key].is_string(), "{made}");
    }
    assert_eq!(rest.get(&format!("/sessions/{id}")).await.is(200), made);

    let path = format!("/sessions/{id}");
    let change = json!({"title": "second", "archived": true});
    let changed = rest.call("PATCH", &path, "", &change).await.is(200);
    assert_eq!(changed["title"], "second");
    assert_eq!(changed["archived"], true);
    assert!(changed["head"].as_u64() > made["head"].as_u64());
    // What is so already is no event.
    let again = rest.call("PATCH", &path, "", &change).await.is(200);
    assert_eq!(again["head"], changed["head"]);
    // An ACP client sees the same title.
    let mut client = AcpClient::connect_ws(&server).await;
    let listed = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"][0]["title"], "second");

    assert_eq!(rest.delete(&path).await.is(204), Value::Null);
    rest.get(&path).await.is_refused(404, "not_found");
    rest.delete(&path).await.is_refused(404, "not_found");
}

#[tokio::test]
async fn a_list_has_pages_and_can_be_of_one_directory() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(rest.session().await);
    }
    let elsewhere = server.home().workspace().join("below");
    std::fs::create_dir(&elsewhere).unwrap();
    rest.post("/sessions", &json!({"cwd": elsewhere}))
        .await
        .is(201);
    let all = rest.get("/sessions").await.is(200);
    assert_eq!(all["sessions"].as_array().unwrap().len(), 4);
    assert_eq!(all["nextCursor"], Value::Null);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = rest
            .get(&format!("/sessions?limit=2{cursor}"))
            .await
            .is(200);
        let page_of = page["sessions"].as_array().unwrap();
        assert!(page_of.len() <= 2);
        seen.extend(page_of.iter().map(|session| session["id"].clone()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let ids = all["sessions"].as_array().unwrap().iter();
    assert_eq!(seen, ids.map(|s| s["id"].clone()).collect::<Vec<_>>());
    let path = format!("/sessions?cwd={}", elsewhere.display());
    let below = rest.get(&path).await.is(200);
    assert_eq!(below["sessions"].as_array().unwrap().len(), 1);
    for wrong in [
        "limit=0",
        "limit=101",
        "limit=x",
        "cursor=x",
        "other=1",
        "limit=1&limit=2",
    ] {
        let path = format!("/sessions?{wrong}");
        rest.get(&path).await.is_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn events_come_as_they_are_stored_page_by_page() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let prompt = json!({"prompt": "hello"});
    let path = format!("/sessions/{id}/prompts");
    rest.call("POST", &path, "prefer: wait=60\r\n", &prompt)
        .await
        .is(200);
    let all = rest.get(&format!("/sessions/{id}/events")).await.is(200);
    let stored: Vec<Value> = server
        .home()
        .events(&id)
        .into_iter()
        .map(|mut event| {
            let event_fields = event.as_object_mut().unwrap();
            event_fields.remove("crc");
            event_fields.remove("$batch");
            event
        })
        .collect();
    assert_eq!(all["events"], json!(stored));
    assert_eq!(all["head"], stored.len());
    assert_eq!(all["epoch"], 0);
    let path = format!("/sessions/{id}/events?after=1&limit=2");
    let some = rest.get(&path).await.is(200);
    assert_eq!(some["events"], json!(stored[1..3]));
    let path = format!("/sessions/{id}/events?after=999");
    assert_eq!(rest.get(&path).await.is(200)["events"], json!([]));
    for wrong in ["limit=0", "limit=1001", "after=-1", "after=0.1"] {
        let path = format!("/sessions/{id}/events?{wrong}");
        rest.get(&path).await.is_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn d_11_a_fork_ends_with_a_finished_turn_and_goes_its_own_way() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let (wait, path) = ("prefer: wait=60\r\n", format!("/sessions/{id}/prompts"));
    for prompt in ["one", "two"] {
        let prompt = json!({"prompt": prompt});
        rest.call("POST", &path, wait, &prompt).await.is(200);
    }
    let head = rest.get(&format!("/sessions/{id}")).await.is(200)["head"].clone();
    let at = head.as_u64().unwrap() - 1;
    let fork = format!("/sessions/{id}/fork");
    let copy = rest.post(&fork, &json!({"at": at})).await.is(201);
    assert_ne!(copy["id"], id.as_str());
    assert_eq!(copy["turn"]["id"], 1);
    let path = format!("/sessions/{}/prompts", copy["id"].as_str().unwrap());
    let said = rest
        .call("POST", &path, wait, &json!({"prompt": "three"}))
        .await;
    assert_eq!(said.is(200)["text"], "you said three");
    assert_eq!(
        rest.get(&format!("/sessions/{id}")).await.is(200)["head"],
        head
    );
    for wrong in [
        json!({"at": 0}),
        json!({"at": 9_999}),
        json!({"at": "1"}),
        json!({}),
    ] {
        rest.post(&fork, &wrong)
            .await
            .is_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_01_strangers_cannot_tell_your_sessions_from_none() {
    let server = serve(echo()).await;
    let stranger = token(server.home(), &["stranger"]).await;
    let (owner, other) = (Rest::of(&server), Rest::with(&server, &stranger));
    let id = owner.session().await;
    let paths = [
        ("GET", "", json!(null)),
        ("PATCH", "", json!({"title": "mine"})),
        ("DELETE", "", json!(null)),
        ("GET", "/events", json!(null)),
        ("GET", "/stream", json!(null)),
        ("POST", "/fork", json!({"at": 1})),
        ("POST", "/prompts", json!({"prompt": "hello"})),
        ("POST", "/cancel", json!(null)),
        ("POST", "/share", json!({})),
        ("GET", "/shares", json!(null)),
        ("DELETE", "/shares/x", json!(null)),
    ];
    for (method, path, body) in paths {
        let mut refusals = Vec::new();
        for named in [id.as_str(), &"0".repeat(32), "nonsense", "%ff"] {
            let path = format!("/sessions/{named}{path}");
            let said = other.call(method, &path, "", &body).await;
            said.is_refused(404, "not_found");
            refusals.push(said.body["message"].clone());
        }
        assert!(refusals.iter().all(|refusal| *refusal == refusals[0]));
    }
    assert_eq!(other.get("/sessions").await.is(200)["sessions"], json!([]));
    assert_eq!(other.get("/usage").await.is(200)["sessions"], 0);
    assert_eq!(owner.get("/usage").await.is(200)["sessions"], 1);
    owner.get(&format!("/sessions/{id}")).await.is(200);
}

#[tokio::test]
async fn an_observer_sees_and_cannot_act() {
    let server = serve(echo()).await;
    let observer = token(server.home(), &["looker", "--scope", "observe"]).await;
    let (owner, other) = (Rest::of(&server), Rest::with(&server, &observer));
    let id = owner.session().await;
    other.get(&format!("/sessions/{id}")).await.is(200);
    other.get(&format!("/sessions/{id}/events")).await.is(200);
    let refused = [
        ("POST", "/sessions".to_owned(), json!({})),
        ("PATCH", format!("/sessions/{id}"), json!({"title": "x"})),
        ("DELETE", format!("/sessions/{id}"), json!({})),
        ("POST", format!("/sessions/{id}/fork"), json!({"at": 1})),
        ("POST", format!("/sessions/{id}/share"), json!({})),
        ("GET", format!("/sessions/{id}/shares"), json!({})),
        ("DELETE", format!("/sessions/{id}/shares/x"), json!({})),
        (
            "POST",
            format!("/sessions/{id}/prompts"),
            json!({"prompt": "x"}),
        ),
    ];
    for (method, path, body) in refused {
        let said = other.call(method, &path, "", &body).await;
        said.is_refused(403, "forbidden_scope");
    }
    let cancel = format!("/sessions/{id}/cancel");
    let said = other.post(&cancel, &json!({})).await;
    said.is_refused(403, "forbidden_scope");
    assert_eq!(
        other.get("/permissions").await.is(200)["permissions"],
        json!([])
    );
}

#[tokio::test]
async fn c_3_every_route_refuses_what_it_does_not_take() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let unknown = "0".repeat(32);
    let bodies = [
        ("POST", "/sessions".to_owned()),
        ("PATCH", format!("/sessions/{id}")),
        ("POST", format!("/sessions/{id}/fork")),
        ("POST", format!("/sessions/{id}/share")),
        ("POST", format!("/sessions/{id}/prompts")),
        ("POST", format!("/sessions/{unknown}/prompts")),
        ("POST", "/permissions/none".to_owned()),
    ];
    let json = "content-type: application/json\r\n";
    for (method, path) in &bodies {
        let send = async |headers: &str, body: &str| rest.send(method, path, headers, body).await;
        for text in ["{not-json", "", "{\"a\":"] {
            send(json, text).await.is_refused(400, "invalid_json");
        }
        for text in ["[]", "1", "null", "\"x\"", "{\"unheard\":1}"] {
            send(json, text).await.is_refused(400, "invalid_request");
        }
        send("", "{}")
            .await
            .is_refused(415, "unsupported_media_type");
        let large = format!("{json}content-length: 99999999\r\n");
        let (host, token) = (address(&server), server.token());
        let asked = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{large}\r\n"
        );
        assert_eq!(request(&server, asked).await.status, 413, "{method} {path}");
    }
    let cwd = json!({"cwd": server.home().data_dir()});
    for wrong in [
        cwd,
        json!({"cwd": "here"}),
        json!({"model": "none:x"}),
        json!({"title": ""}),
    ] {
        let said = rest.post("/sessions", &wrong).await;
        said.is_refused(400, "invalid_request");
    }
    rest.send("PUT", "/sessions", json, "{}")
        .await
        .is_refused(405, "method_not_allowed");
    rest.get("/nothing").await.is_refused(404, "not_found");
    let nobody = Rest::with(&server, "wrong");
    for path in ["/sessions", "/openapi.json", "/info", "/nothing"] {
        nobody.get(path).await.is_refused(401, "unauthorized");
    }
}

#[tokio::test]
async fn the_server_says_what_it_is() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let info = rest.get("/info").await.is(200);
    assert!(
        info["version"].is_string() && info["model"].is_string(),
        "{info}"
    );
    assert_eq!(info["limits"]["bodyBytesMax"], 2_000_000);
    let id = rest.session().await;
    let session = rest.get(&format!("/sessions/{id}")).await.is(200);
    assert_eq!(session["model"], info["model"]);
    let model = json!({"model": info["models"][0]});
    let chosen = rest.post("/sessions", &model).await.is(201);
    assert_eq!(chosen["model"], info["models"][0]);
    let openapi = rest.get("/openapi.json").await.is(200);
    assert!(
        openapi["openapi"].as_str().unwrap().starts_with("3.1"),
        "{openapi}"
    );
}

#[tokio::test]
async fn session_in_a_missing_directory_is_refused_and_named_by_rest() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let missing = server.home().workspace().join("no-such-folder");
    let refused = rest.post("/sessions", &json!({"cwd": missing})).await;
    let said = refused.is(400).to_string();
    assert!(said.contains("no-such-folder does not exist"), "{said}");
}
