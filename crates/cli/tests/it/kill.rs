//! Faults from outside: the process is killed, the disk is full, files may not grow.
//!
//! Names begin with the row of `faults.json` that they answer.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use testkit::kill;
use testkit::rounds::Plan;
use testkit::script::{Script, say, stream};
use testkit::{AcpClient, Home, Program, RpcError};

use crate::support::{binary, serve_with};

/// Rounds of the kill harness in every run; `cargo xtask soak kill` has more.
const ROUNDS: u64 = 25;

/// Chooses when the server dies; any other would do.
const SEED: u64 = 3;

#[tokio::test]
async fn f_01_a_server_killed_at_any_moment_loses_nothing_that_was_seen() {
    let plan = Plan {
        binary: binary().into(),
        seed: SEED,
        rounds: ROUNDS,
    };
    let report = kill::run(&plan, &mut |_| {})
        .await
        .unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    assert_eq!(report.rounds, ROUNDS);
    assert!(report.answered > 0 && report.interrupted > 0, "{report}");
}

#[tokio::test]
async fn f_11_a_file_size_limit_is_an_error_of_that_session_and_kills_nothing() {
    // Without the check of free space: the limit is what must be noticed.
    let settings = [("FASTNESS_LIMITS_DISK_FREE_MIN", "0")];
    let script = Script::new().call([stream(&"words ".repeat(200), 4, 0), say("${prompt}")]);
    let server = serve_with(script, &settings).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let (long, other) = (client.new_session().await, client.new_session().await);
    limit_file_size(&server, Some(48 * 1024));
    let (answered, error) = prompt_until_refused(&mut client, &long).await;
    assert!(answered.len() > 2, "{answered:?}");
    check_storage_error(&error, &["storage_full", "storage_failed"]);
    // The process lives, other sessions work, and nobody can write the full one.
    client.prompt(&other, "are you there").await;
    let refused = client.try_prompt(&long, "again").await;
    check_storage_error(&refused.unwrap_err(), &["storage_full", "storage_failed"]);

    limit_file_size(&server, None);
    client.prompt(&long, "with room again").await;
    let server = server.restart().await;
    let events = strictly(server.home(), &long);
    check_prompts(&events, &answered);
    check_prompts(&events, &["with room again".to_owned()]);
    check_prompts(
        &strictly(server.home(), &other),
        &["are you there".to_owned()],
    );
}

#[tokio::test]
async fn f_11_what_was_acknowledged_under_a_file_size_limit_is_there_without_it() {
    let settings = [("FASTNESS_LIMITS_DISK_FREE_MIN", "0")];
    let script = Script::new().call([stream(&"words ".repeat(200), 4, 0), say("${prompt}")]);
    let mut server = serve_with(script, &settings).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    limit_file_size(&server, Some(48 * 1024));
    let (answered, _) = prompt_until_refused(&mut client, &session).await;
    server.kill9().await;
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "in a new process").await;
    check_prompts(&strictly(server.home(), &session), &answered);
}

#[tokio::test]
async fn f_11_how_a_turn_ended_that_the_store_failed_under_is_told_to_everyone_and_stays_so() {
    let settings = [
        ("FASTNESS_LIMITS_DISK_FREE_MIN", "0"),
        ("FASTNESS_GREETING", "false"),
    ];
    let script = Script::new().call([stream(&"words ".repeat(200), 100, 0)]);
    let server = serve_with(script, &settings).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut watcher = dialed.unwrap().in_directory(server.home().workspace());
    let capabilities = json!({"_meta": {"fastness": {"turns": true}}});
    watcher.initialize_with(capabilities).await;
    watcher.load_session(&session).await.unwrap();

    // Its text does not fit, so it fails in the middle of a message.
    limit_file_size(&server, Some(48 * 1024));
    let lost = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}],
        "_meta": {"fastness": {"promptId": "lost"}}});
    let error = client.call("session/prompt", lost.clone()).await;
    let error = error.unwrap_err();
    check_storage_error(&error, &["storage_full", "storage_failed"]);
    let started = watcher.next_notification("_fastness/turn").await;
    assert_eq!(
        (&started["turn"], &started["state"]),
        (&json!(1), &json!("running"))
    );
    let ended = watcher.next_notification("_fastness/turn").await;
    assert_eq!(
        (&ended["turn"], &ended["state"]),
        (&json!(1), &json!("idle"))
    );
    assert_eq!(ended["error"]["kind"], error.data["kind"]);

    // With room again the journal says the same, and so does whoever is asked.
    limit_file_size(&server, None);
    let again = client.call("session/prompt", lost).await.unwrap_err();
    assert_eq!(again.data["kind"], error.data["kind"]);
    let stored = watcher.next_notification("_fastness/turn").await;
    assert_eq!(
        (&stored["turn"], &stored["error"]),
        (&ended["turn"], &ended["error"])
    );
    assert!(stored["seq"].as_u64() > ended["seq"].as_u64(), "{stored}");
    client.prompt(&session, "with room again").await;
    let started = watcher.next_notification("_fastness/turn").await;
    assert_eq!(
        (&started["turn"], &started["state"]),
        (&json!(2), &json!("running"))
    );
    let events = strictly(server.home(), &session);
    let kinds = events.iter().map(|event| &event["type"]);
    assert!(!kinds.clone().any(|kind| kind == "turn.interrupted"));

    // What the watcher saw of the message before and after is all of it, once.
    let first = events
        .iter()
        .find(|event| event["type"] == "assistant.message");
    let whole = first.unwrap()["text"].as_str().unwrap();
    let seen = watcher.take_updates(&session);
    assert!(testkit::client::text_of(&seen, "agent_message_chunk").starts_with(whole));
}

#[tokio::test]
async fn f_07_a_full_disk_is_told_to_the_client_and_forgotten_when_there_is_space() {
    let script = Script::new().call([stream(&"words ".repeat(100), 4, 0), say("${prompt}")]);
    let disk = SmallDisk::serve(script).await;
    let mut client = AcpClient::connect_ws(&disk.server).await;
    let (session, other) = (client.new_session().await, client.new_session().await);
    let before = client.try_prompt(&session, "with room").await.map(drop);
    assert_eq!(before, Ok(()));

    let ballast = disk.fill();
    let (answered, error) = prompt_until_refused(&mut client, &session).await;
    check_storage_error(&error, &["storage_full"]);
    let refused = client.try_prompt(&other, "and here").await;
    check_storage_error(&refused.unwrap_err(), &["storage_full"]);

    std::fs::remove_file(ballast).unwrap();
    client.prompt(&session, "space again").await;
    client.prompt(&other, "here too").await;
    let events = testkit::journal::read_strictly(&disk.journal(&session)).unwrap();
    check_prompts(&events, &["with room".to_owned(), "space again".to_owned()]);
    check_prompts(&events, &answered);
    testkit::journal::read_strictly(&disk.journal(&other)).unwrap();
}

#[tokio::test]
async fn f_07_a_session_deleted_from_a_full_disk_gives_its_space_to_the_others() {
    let script = Script::new().call([stream(&"words ".repeat(100), 4, 0), say("${prompt}")]);
    let disk = SmallDisk::serve(script).await;
    let mut client = AcpClient::connect_ws(&disk.server).await;
    let (long, other) = (client.new_session().await, client.new_session().await);
    let before = client.try_prompt(&other, "with room").await.map(drop);
    assert_eq!(before, Ok(()));
    let (answered, error) = prompt_until_refused(&mut client, &long).await;
    assert!(answered.len() > 5, "{answered:?}");
    check_storage_error(&error, &["storage_full"]);
    disk.fill();
    disk.take_all_names();
    let refused = client.try_prompt(&other, "no room").await;
    check_storage_error(&refused.unwrap_err(), &["storage_full"]);

    let params = json!({"sessionId": long});
    client.call("session/delete", params).await.unwrap();
    client.prompt(&other, "room again").await;
    let gone = client.load_session(&long).await.unwrap_err();
    assert_eq!(gone.code, -32002);
    let events = testkit::journal::read_strictly(&disk.journal(&other)).unwrap();
    check_prompts(&events, &["with room".to_owned(), "room again".to_owned()]);
}

#[tokio::test]
async fn f_11_a_disk_that_became_read_only_is_told_and_what_is_stored_can_be_looked_at() {
    let disk = SmallDisk::serve(Script::new().call([say("${prompt}")])).await;
    let mut client = AcpClient::connect_ws(&disk.server).await;
    let session = client.new_session().await;
    client.prompt(&session, "while it could be written").await;
    let close = json!({"sessionId": session});
    client.call("session/close", close).await.unwrap();
    disk.remount("ro").await;
    let refused = client.load_session(&session).await;
    check_storage_error(&refused.unwrap_err(), &["storage_failed"]);
    let cwd = disk.server.home().workspace();
    let refused = client.new_session_in(&cwd).await;
    check_storage_error(&refused.unwrap_err(), &["storage_failed"]);
    let delete = json!({"sessionId": session});
    let refused = client.call("session/delete", delete).await;
    check_storage_error(&refused.unwrap_err(), &["storage_failed"]);
    let listed = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], json!(session));
    testkit::journal::read_strictly(&disk.journal(&session)).unwrap();

    disk.remount("rw").await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "and once it can be again").await;
    let events = testkit::journal::read_strictly(&disk.journal(&session)).unwrap();
    let prompts = ["while it could be written", "and once it can be again"];
    check_prompts(&events, &prompts.map(str::to_owned));
}

/// A server whose sessions are on a disk of a few hundred KiB, in a mount namespace of its own: it
/// goes with the server, and nobody else sees it.
struct SmallDisk {
    server: Program,
    /// The disk as seen from outside.
    sessions: PathBuf,
    /// Whether it has a user namespace too.
    has_users: bool,
}

impl SmallDisk {
    /// As root, or else as anyone in a user namespace.
    ///
    /// # Panics
    /// Where neither may mount: a story that was not told has shown nothing.
    async fn serve(script: Script) -> Self {
        const MOUNT: &str = "mount -t tmpfs -o size=256k,nr_inodes=60,mode=700 none \"$DISK\" && exec \"$0\" \"$@\"";
        let home = Home::new(binary(), script).env("FASTNESS_LIMITS_DISK_FREE_MIN", "0");
        let way = if can_mount(&home, &["--mount"]).await {
            vec!["unshare", "--mount"]
        } else if can_mount(&home, &["--map-root-user", "--mount"]).await {
            vec!["unshare", "--map-root-user", "--mount"]
        } else {
            panic!(
                "a small disk cannot be mounted here: neither as root nor in a user namespace; \
                 run the tests where `unshare --map-root-user --mount` works"
            );
        };
        let disk = home.data_dir().join("sessions");
        let mut folder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        folder.recursive(true).create(&disk).unwrap();
        let home = home
            .env("DISK", disk.display())
            .under(way.iter().chain(&["sh", "-c", MOUNT]));
        let server = Program::serve_in(home).await;
        let root = PathBuf::from(format!("/proc/{}/root", server.pid().unwrap()));
        let sessions = root.join(disk.strip_prefix("/").unwrap());
        Self {
            server,
            sessions,
            has_users: way.contains(&"--map-root-user"),
        }
    }

    /// Mounts the disk anew, `ro` or `rw`, where the server sees it.
    async fn remount(&self, how: &str) {
        let home = self.server.home();
        let mut command = home.clean("nsenter");
        if self.has_users {
            command.args(["--user", "--preserve-credentials"]);
        }
        command
            .args(["--mount", "--target"])
            .arg(self.server.pid().unwrap().to_string())
            .args(["mount", "-o", &format!("remount,bind,{how}")])
            .arg(home.data_dir().join("sessions"))
            .stdin(Stdio::null());
        assert!(command.status().await.unwrap().success(), "remount {how}");
    }

    /// Uses up the names that the disk can still hold.
    fn take_all_names(&self) {
        let names = (0..).map(|number| self.sessions.join(format!("name-{number}")));
        let made = names.take_while(|name| std::fs::File::create(name).is_ok());
        assert!(made.count() < 60);
    }

    /// Takes all the space that is left; gives the file that has it.
    fn fill(&self) -> PathBuf {
        let path = self.sessions.join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        let block = [0_u8; 1024];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
        path
    }

    fn journal(&self, session: &str) -> PathBuf {
        self.sessions.join(session).join("events.jsonl")
    }
}

async fn can_mount(home: &Home, way: &[&str]) -> bool {
    testkit::system::need("mount");
    let mut command = home.clean("unshare");
    let place = home.workspace();
    command
        .args(way)
        .args(["mount", "-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(place)
        .stdin(Stdio::null());
    matches!(command.status().await, Ok(status) if status.success())
}

/// The running server may write no file beyond `bytes`; `None` takes the limit away.
fn limit_file_size(server: &Program, bytes: Option<u64>) {
    let pid = server
        .pid()
        .and_then(|pid| Pid::from_raw(pid.cast_signed()));
    // Only the soft limit: anyone may raise it again.
    let limit = Rlimit {
        current: bytes,
        maximum: getrlimit(Resource::Fsize).maximum,
    };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

/// Prompts until one is refused; gives the prompts that were answered, and the refusal.
async fn prompt_until_refused(client: &mut AcpClient, session: &str) -> (Vec<String>, RpcError) {
    let mut answered = Vec::new();
    for number in 0..500 {
        let text = format!("prompt {number} {}", "padding ".repeat(16));
        match client.try_prompt(session, &text).await {
            Ok(_) => answered.push(text),
            Err(error) => return (answered, error),
        }
    }
    panic!("the limit was never reached");
}

fn check_storage_error(error: &RpcError, kinds: &[&str]) {
    let kind = error.data["kind"].as_str().unwrap_or_default();
    assert!(error.code == -32603 && kinds.contains(&kind), "{error}");
}

/// The prompts are there, each with the end of its turn.
fn check_prompts(events: &[Value], prompts: &[String]) {
    for prompt in prompts {
        let is_prompt = |event: &Value| event["text"] == json!(prompt);
        let at = events.iter().position(is_prompt);
        let at = at.unwrap_or_else(|| panic!("{prompt} is not there"));
        let end = events[at..].iter().find(|event| event["type"] == "result");
        assert_eq!(end.unwrap()["stopReason"], "end_turn", "{prompt}");
    }
}

fn strictly(home: &Home, session: &str) -> Vec<Value> {
    let path: &Path = &kill::journal_path(home, session);
    testkit::journal::read_strictly(path).unwrap_or_else(|failure| panic!("{failure}"))
}
