//! Memory that is given back when what needed it is over.

use testkit::script::{Script, stream};
use testkit::{AcpClient, Program};

use crate::metrics::until;
use crate::support::serve_with;

/// What a session that is used holds in memory, at least: the story says a quarter of a megabyte.
const SAID_BYTES: usize = 256 * 1024;

/// What the server may keep of sessions that have left memory.
const LEFT_MAX: u64 = 24 * 1024 * 1024;

/// Sessions at the same time.
const SESSIONS: usize = 200;

#[tokio::test]
async fn a_08_memory_returns_when_sessions_were_used_and_their_grace_has_passed() {
    let chunk = "sixteen letters ".repeat(1024);
    let chunks = u32::try_from(SAID_BYTES / chunk.len()).unwrap();
    let script = Script::new().call([stream(&chunk, chunks, 0)]);
    let settings = [("FASTNESS_LIMITS_GRACE_MS", "200")];
    let server = serve_with(script, &settings).await;
    // What a server keeps once it has worked, it keeps after this.
    let used = use_sessions(&server).await;
    assert!(used > server.resident_bytes() / 8, "{used}");
    let before = server.resident_bytes();
    for _ in 0..2 {
        use_sessions(&server).await;
    }
    let left = server.resident_bytes().saturating_sub(before);
    assert!(
        left < LEFT_MAX,
        "{left} bytes more than the {before} before"
    );
}

/// Uses many sessions at once and leaves them to their grace time; gives what the server used
/// while they lived.
async fn use_sessions(server: &Program) -> u64 {
    let mut client = AcpClient::connect_ws(server).await.without_oracle();
    for _ in 0..SESSIONS {
        let session = client.new_session().await;
        client.prompt(&session, "go").await;
    }
    let during = server.resident_bytes();
    client.leave().await;
    until(server, "no session in memory", |numbers| {
        let phases = ["idle", "running", "waiting"];
        let counted = phases.map(|phase| numbers.get(&format!("sessions{{state=\"{phase}\"}}")));
        counted.iter().sum::<f64>() == 0.0
    })
    .await;
    during
}
