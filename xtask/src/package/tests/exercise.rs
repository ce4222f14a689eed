//! What every installed program must be able to do.

use std::process::Command;

use testkit::program::DEADLINE;
use testkit::raw::{authorized, request};
use testkit::{AcpClient, Home, Program};
use tokio::time::timeout;

/// What the scripted model says.
pub(crate) const ANSWER: &str = "Packed and well.";

/// `doctor` finds nothing wrong, an ACP client gets an answer, and the server shows its page.
pub(crate) async fn exercise(home: Home) {
    let doctor = timeout(DEADLINE, home.command("doctor").output()).await;
    let doctor = doctor.expect("doctor ends in time").unwrap();
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&doctor.stderr).into_owned();
    assert!(doctor.status.success(), "{told}{complaint}");

    let mut client = AcpClient::spawn_stdio(&home).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hello").await.text, ANSWER);
    drop(client);

    let mut server = Program::serve_in(home).await;
    let page = request(&server, authorized(&server, "GET", "/", "")).await;
    assert_eq!(page.status, 200, "{page}");
    assert!(page.body.contains("<html"), "{page}");
    let ended = server.terminate().await;
    assert!(ended.success(), "{ended}: {}", server.stderr());
}

/// Runs a tool to its end and gives what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("`{name}` is needed by this test: {error}"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{told}{complaint}");
    told
}
