//! Commands on the server: what they print, how they end, and that nothing of them stays.

use std::path::Path;
use std::time::Duration;

use domain::event::ToolStatus;
use domain::{CallId, EventSeq, Permit};
use serde_json::{Value, json};

use crate::builtin::Outcome;
use crate::progress::Progress;
use crate::roots::Roots;
use crate::sandbox::supervisor;
use crate::shell::Shell;
use crate::toolbox::Toolbox;

/// Tells the test below that it is started as a supervisor.
const SUPERVISES: &str = "TEST_SUPERVISES";

/// How this program is started as a supervisor.
const SUPERVISOR: &[&str] = &[
    "builtin::tests::commands::this_program_supervises_when_it_is_asked_to",
    "--exact",
    "--nocapture",
];

#[test]
fn this_program_supervises_when_it_is_asked_to() {
    if std::env::var_os(SUPERVISES).is_some() {
        supervisor::run();
        std::process::exit(0);
    }
}

struct Place {
    workspace: tempfile::TempDir,
    outputs: tempfile::TempDir,
    progress: Progress,
}

impl Place {
    fn new() -> Self {
        Self {
            workspace: tempfile::tempdir().unwrap(),
            outputs: tempfile::tempdir().unwrap(),
            progress: Progress::default(),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.workspace.path().join(name)
    }

    fn toolbox(&self) -> Toolbox {
        self.toolbox_hiding(Vec::new())
    }

    fn toolbox_hiding(&self, hidden: Vec<std::path::PathBuf>) -> Toolbox {
        let root = self.workspace.path().to_owned();
        let roots = Roots::new(root, Vec::new(), hidden);
        let environment = [("PATH", "/usr/bin:/bin"), (SUPERVISES, "1")];
        let shell = Shell::of_test(SUPERVISOR, &environment, self.outputs.path());
        Toolbox::new(roots)
            .with_shell(Some(shell))
            .with_progress(self.progress.clone())
    }

    async fn call(&self, tool: &str, input: Value) -> Outcome {
        let permit = Permit::granted(CallId::new("c"), EventSeq(1));
        self.toolbox().run(permit, tool, input).await
    }

    async fn bash(&self, command: &str) -> Outcome {
        self.call("bash", json!({"command": command})).await
    }
}

/// Whether the process that wrote its number to `file` is still there.
fn lives(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    status.is_ok_and(|status| !status.contains(") Z "))
}

async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !happened() {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts children that go out of their way to stay; each writes its number to a file.
const STUBBORN: &str = r#"
trap '' TERM HUP INT
child() { echo "trap '' TERM HUP INT; echo \$\$ > $1.new; mv $1.new $1; while :; do sleep 1; done"; }
sh -c "$(child ignores)" &
setsid sh -c "$(child session)" &
(setsid sh -c "$(child orphan)" &)
(env -i PATH="$PATH" setsid sh -c "$(child nameless)" > /dev/null 2>&1 < /dev/null &)
until [ -e ignores ] && [ -e session ] && [ -e orphan ] && [ -e nameless ]; do sleep 0.01; done
"#;

const CHILDREN: [&str; 4] = ["ignores", "session", "orphan", "nameless"];

#[tokio::test]
async fn a_command_gives_both_streams_in_order_and_says_how_it_ended() {
    let place = Place::new();
    let outcome = place.bash("echo one; echo two >&2; echo three").await;
    assert_eq!(outcome, Outcome::completed("one\ntwo\nthree\n"));
    let outcome = place.bash("printf half; exit 3").await;
    assert_eq!(outcome, Outcome::failed("[exit code 3]\nhalf"));
    let outcome = place.bash("kill -9 $$").await;
    assert_eq!(outcome, Outcome::failed("[ended by signal 9]"));
    assert_eq!(place.bash("true").await, Outcome::completed("[no output]"));
}

#[tokio::test]
async fn a_command_has_no_input_and_no_terminal() {
    let place = Place::new();
    let outcome = place.bash("cat; cat /dev/tty; tty; echo $TERM").await;
    assert!(outcome.text.contains("not a tty"), "{}", outcome.text);
    assert_eq!(outcome.status, ToolStatus::Completed);
}

#[tokio::test]
async fn a_command_begins_beneath_the_roots_however_its_place_is_spelled() {
    let place = Place::new();
    std::fs::create_dir(place.path("sub")).unwrap();
    std::os::unix::fs::symlink("/", place.path("link")).unwrap();
    let run = |cwd: &str| {
        let input = json!({"command": "pwd -P", "cwd": cwd});
        let place = &place;
        async move { place.call("bash", input).await }
    };
    let inside = place.path("sub").canonicalize().unwrap();
    assert_eq!(run("sub").await.text.trim(), inside.to_str().unwrap());
    for outside in [
        "..",
        "/",
        "link",
        "link/tmp",
        "sub/../..",
        "/proc/self/root",
    ] {
        let outcome = run(outside).await;
        assert_eq!(outcome.status, ToolStatus::Failed, "{outside}");
        assert!(outcome.text.contains("cannot run in"), "{}", outcome.text);
    }
}

#[tokio::test]
async fn command_is_refused_if_a_root_holds_hidden_files_without_a_sandbox() {
    let place = Place::new();
    std::fs::create_dir(place.path("private")).unwrap();
    let toolbox = place.toolbox_hiding(vec![place.path("private")]);
    let permit = Permit::granted(CallId::new("c"), EventSeq(1));
    let input = json!({"command": "cat private/key"});
    let outcome = toolbox.run(permit, "bash", input).await;
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(
        outcome.text.contains("there is no sandbox"),
        "{}",
        outcome.text
    );
}

#[tokio::test]
async fn f_34_nothing_outlives_a_command_that_has_ended() {
    let place = Place::new();
    let begun = tokio::time::Instant::now();
    let outcome = place.bash(&format!("{STUBBORN} echo done")).await;
    assert_eq!(outcome, Outcome::completed("done\n"));
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "it was waited for"
    );
    for child in CHILDREN {
        assert!(!lives(&place.path(child)), "{child}");
    }
}

#[tokio::test]
async fn f_34_nothing_outlives_a_command_whose_time_is_up() {
    let place = Place::new();
    let command = format!("{STUBBORN} echo ready; while :; do sleep 1; done");
    let input = json!({"command": command, "timeoutMs": 2_000});
    let outcome = place.call("bash", input).await;
    assert_eq!(
        outcome,
        Outcome::failed("[timed out: stopped after 2 s]\nready\n")
    );
    for child in CHILDREN {
        assert!(!lives(&place.path(child)), "{child}");
    }
}

#[tokio::test]
async fn f_34_nothing_outlives_a_command_that_nobody_waits_for() {
    let place = Place::new();
    let command = format!("{STUBBORN} touch ready; while :; do sleep 1; done");
    {
        let running = place.bash(&command);
        tokio::pin!(running);
        tokio::select! {
            outcome = &mut running => panic!("it ended: {outcome:?}"),
            () = until("it begins", || place.path("ready").exists()) => {}
        }
        assert!(CHILDREN.iter().all(|child| lives(&place.path(child))));
    }
    let dropped = tokio::time::Instant::now();
    until("they end", || {
        !CHILDREN.iter().any(|child| lives(&place.path(child)))
    })
    .await;
    let took = dropped.elapsed();
    assert!(took < Duration::from_secs(1), "it took {took:?}");
}

#[tokio::test]
async fn f_34_a_command_that_kills_its_supervisor_is_ended_all_the_same() {
    let place = Place::new();
    let command = "setsid sh -c 'echo $$ > child; sleep 100' & \
                   until [ -s child ]; do sleep 0.01; done; kill -9 $PPID; sleep 100";
    let outcome = place.bash(command).await;
    assert_eq!(outcome.status, ToolStatus::Unknown, "{}", outcome.text);
    until("the child ends", || !lives(&place.path("child"))).await;
}

#[tokio::test]
async fn a_command_may_put_things_in_order_before_it_ends() {
    let place = Place::new();
    let command = "trap 'rm lock; exit' TERM; touch lock; sleep 100 & wait";
    let input = json!({"command": command, "timeoutMs": 500});
    assert_eq!(place.call("bash", input).await.status, ToolStatus::Failed);
    assert!(!place.path("lock").exists());
}

#[tokio::test]
async fn who_watches_sees_what_a_running_command_prints() {
    let place = Place::new();
    let mut board = place.progress.follow();
    let running = place.bash("echo begun; until [ -e go ]; do sleep 0.01; done; echo ended");
    tokio::pin!(running);
    let mut seen = 0;
    loop {
        tokio::select! {
            outcome = &mut running => panic!("it ended: {outcome:?}"),
            rung = board.changed() => rung.unwrap(),
        }
        let news = board.borrow_and_update().news(&mut seen, EventSeq(1));
        if let [live] = &news[..] {
            assert_eq!(&*live.text, "begun\n");
            break;
        }
    }
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(running.await.text, "begun\nended\n");
    assert!(board.borrow().news(&mut 0, EventSeq(1)).is_empty());
}

#[tokio::test]
async fn f_35_output_of_any_size_and_kind_is_shown_as_plain_text_and_the_rest_can_be_read() {
    let place = Place::new();
    let outcome = place
        .bash("head -c 100000 /dev/urandom; yes | head -c 5000000; printf end")
        .await;
    assert_eq!(outcome.status, ToolStatus::Completed);
    assert!(outcome.text.ends_with("y\nend"));
    assert!(
        !outcome
            .text
            .contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t'))
    );
    let (_, name) = outcome.text.split_once("read as output:").unwrap();
    let name = &name[..32];
    let read = |path: String| {
        let input = json!({"path": path, "offset": 2_000_000});
        let place = &place;
        async move { place.call("read", input).await }
    };
    let rest = read(format!("output:{name}")).await;
    assert!(
        rest.text.starts_with("2000000\ty\n2000001\ty\n"),
        "{rest:?}"
    );
    for wrong in [
        "output:../../etc/passwd",
        "output:",
        &format!("output:{}", "0".repeat(32)),
    ] {
        assert_eq!(
            read(wrong.to_owned()).await.status,
            ToolStatus::Failed,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_started_says_why() {
    let place = Place::new();
    let outcome = place.bash(&format!(": {}", "x".repeat(200_000))).await;
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(
        outcome.text.contains("could not be started"),
        "{}",
        outcome.text
    );
}
