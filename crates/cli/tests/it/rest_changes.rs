//! REST: the list of sessions followed as it changes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::Program;
use testkit::raw::EventStream;
use testkit::script::{Script, say, stream, tool};

use crate::identity::token;
use crate::rest::Rest;
use crate::support::{echo, serve, serve_with};

/// A list that stays open, as its reader knows it.
struct Live {
    events: EventStream,
}

impl Live {
    async fn open(server: &Program, token: &str) -> Self {
        let path = "/api/v1/sessions/changes";
        let events = EventStream::open(server, (token, path), "").await;
        Self { events }
    }

    async fn next(&mut self) -> Value {
        let event = self.events.next_event().await.unwrap();
        assert_eq!(event.event.as_deref(), Some("sessions"), "{event:?}");
        serde_json::from_str(&event.data).unwrap()
    }

    /// The next event that tells of `id` as `is_wanted`.
    async fn until(&mut self, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next().await;
            let rows = event["sessions"].as_array().unwrap();
            let found = rows.iter().find(|row| row["id"] == id && is_wanted(row));
            if let Some(row) = found {
                return row.clone();
            }
        }
    }

    async fn until_removed(&mut self, id: &str) {
        loop {
            let removed = self.next().await["removed"].clone();
            if removed.as_array().unwrap().contains(&json!(id)) {
                return;
            }
        }
    }
}

#[tokio::test]
async fn what_happens_to_sessions_is_told_and_rows_are_those_of_the_list() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a", "content": "x"}))])
        .call([say("done")]);
    let server = serve_with(script, &[("FASTNESS_GREETING", "false")]).await;
    let rest = Rest::of(&server);
    let before = rest.session().await;
    let mut live = Live::open(&server, server.token()).await;
    let first = live.next().await;
    assert_eq!(first["snapshot"], true);
    assert_eq!(first["sessions"][0]["id"], before.as_str());

    let id = rest.session().await;
    live.until(&id, |row| row["turn"]["state"] == "idle").await;
    let path = format!("/sessions/{id}");
    let title = json!({"title": "renamed"});
    rest.call("PATCH", &path, "", &title).await.is(200);
    live.until(&id, |row| row["title"] == "renamed").await;
    let prompt = json!({"prompt": "go"});
    rest.post(&format!("{path}/prompts"), &prompt).await.is(202);
    live.until(&id, |row| row["turn"]["state"] == "waiting")
        .await;
    let open = rest.get("/permissions").await.is(200);
    let asked = open["permissions"][0]["id"].as_str().unwrap().to_owned();
    let chosen = json!({"optionId": "reject_once"});
    rest.post(&format!("/permissions/{asked}"), &chosen)
        .await
        .is(204);
    let row = live
        .until(&id, |row| {
            row["turn"]["state"] == "idle" && row["turn"]["id"] == 1
        })
        .await;
    let listed = rest.get(&path).await.is(200);
    assert_eq!(row, listed);
    let at = json!({"at": listed["head"]});
    let fork = rest.post(&format!("{path}/fork"), &at).await.is(201);
    let fork = fork["id"].as_str().unwrap().to_owned();
    live.until(&fork, |_| true).await;
    rest.delete(&path).await.is(204);
    live.until_removed(&id).await;
    // Who comes back starts with the list as it is.
    let mut back = Live::open(&server, server.token()).await;
    let first = back.next().await;
    let ids: Vec<_> = first["sessions"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|row| row["id"] != id.as_str()));
}

#[tokio::test]
async fn a_01_nobody_hears_of_the_sessions_of_others() {
    let server = serve(echo()).await;
    let owner = Rest::of(&server);
    let shared = owner.session().await;
    let stranger = token(server.home(), &["stranger"]).await;
    let guest = token(
        server.home(),
        &["guest", "--scope", "observe", "--session", &shared],
    )
    .await;
    let mut of_stranger = Live::open(&server, &stranger).await;
    let mut of_guest = Live::open(&server, &guest).await;
    assert_eq!(of_stranger.next().await["sessions"], json!([]));
    assert_eq!(
        of_guest.next().await["sessions"].as_array().unwrap().len(),
        1
    );
    // All this is not theirs; the last thing is.
    let other = owner.session().await;
    owner.delete(&format!("/sessions/{other}")).await.is(204);
    let title = json!({"title": "seen"});
    let path = format!("/sessions/{shared}");
    owner.call("PATCH", &path, "", &title).await.is(200);
    let told = of_guest.next().await;
    assert_eq!(told["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(told["sessions"][0]["title"], "seen");
    assert_eq!(told["removed"], json!([]));
    let own = Rest::with(&server, &stranger);
    let cwd = json!({"cwd": server.home().workspace()});
    let made = own.post("/sessions", &cwd).await.is(201);
    let told = of_stranger.next().await;
    assert_eq!(told["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(told["sessions"][0]["id"], made["id"]);
}

#[tokio::test]
async fn a_busy_session_is_told_of_a_few_times_a_second() {
    // Each call of the tool is several events; without a bound each would be told of.
    let mut script = Script::new();
    for depth in 0..40_usize {
        // The paths differ because identical calls in a row end the turn.
        let path = "./".repeat(depth + 1);
        script = script.call([stream("x", 5, 10), tool("list", json!({"path": path}))]);
    }
    let server = serve_with(script.call([say("done")]), &[]).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let mut live = Live::open(&server, server.token()).await;
    live.next().await;
    let prompt = json!({"prompt": "go"});
    rest.post(&format!("/sessions/{id}/prompts"), &prompt)
        .await
        .is(202);
    let (began, mut count) = (Instant::now(), 0);
    loop {
        let told = live.next().await;
        count += 1;
        let row = &told["sessions"][0];
        if row["turn"]["state"] == "idle" && row["turn"]["id"] == 1 {
            assert!(row["head"].as_u64().unwrap() > 80, "{row}");
            break;
        }
    }
    let most = began.elapsed().as_millis() / 250 + 2;
    assert!(count <= most, "{count} in {:?}", began.elapsed());
}

#[tokio::test]
async fn a_live_list_ends_with_its_token_and_with_the_server() {
    let mut server = serve(echo()).await;
    let named = token(server.home(), &["guest"]).await;
    let mut live = Live::open(&server, &named).await;
    live.next().await;
    let mut command = server.home().clean(server.home().binary());
    command.args(["token", "revoke", "guest", "--data-dir"]);
    let revoking = command.arg(server.home().data_dir()).output().await;
    assert!(revoking.unwrap().status.success());
    let began = Instant::now();
    while live.events.next_event().await.is_some() {}
    assert!(began.elapsed() < Duration::from_secs(1));
    let mut live = Live::open(&server, server.token()).await;
    live.next().await;
    assert!(server.terminate().await.success());
    while live.events.next_event().await.is_some() {}
}
