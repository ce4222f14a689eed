//! Programs that are spoken to, in the same cage.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use testkit::wait_for;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tools::roots::Roots;
use tools::sandbox::{
    Bounds, Cage, Grants, Piped, PipedProgram, Sandbox, SandboxMode, SandboxSettings,
};

use crate::support::binary;

const BOUNDS: Bounds = Bounds {
    processes: 500,
    memory_bytes: 1 << 33,
    total_memory_bytes: 1 << 34,
    file_bytes: 1 << 30,
};

/// Variables for programs.
fn environment() -> Arc<[(String, String)]> {
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    Arc::new([("PATH".to_owned(), path)])
}

async fn cage(root: &Path, mode: SandboxMode) -> Cage {
    if mode == SandboxMode::Auto {
        testkit::system::need("bwrap");
    }
    let settings = SandboxSettings {
        mode,
        ..SandboxSettings::default()
    };
    let sandbox = Sandbox::new(
        environment(),
        PathBuf::from(binary()),
        BOUNDS,
        settings,
        None,
    );
    let roots = Roots::new(root.to_owned(), Vec::new(), Vec::new());
    sandbox
        .cage(&roots, Grants::default())
        .await
        .unwrap()
        .unwrap()
}

async fn start(root: &Path, cage: &Cage, script: &str) -> Piped {
    let directory = File::open(root).unwrap();
    let words = ["bash", "-c", script].map(str::to_owned);
    let environment = environment();
    let started = Piped::start(PipedProgram {
        words: &words,
        cwd: directory.as_fd(),
        environment: &environment,
        program: Path::new(binary()),
        cage: Some(cage),
    });
    started.await.unwrap()
}

#[tokio::test]
async fn a_program_in_a_cage_answers_for_as_long_as_it_is_spoken_to() {
    let script = "echo to-stderr >&2; while read -r line; do echo \"heard $line\"; done; \
                  echo x > /usr/x; exit 3";
    for mode in [SandboxMode::Auto, SandboxMode::Landlock] {
        let place = tempfile::tempdir().unwrap();
        let cage = cage(place.path(), mode).await;
        let mut program = start(place.path(), &cage, script).await;
        let mut input = program.input.take().unwrap();
        let mut output = BufReader::new(program.output.take().unwrap()).lines();
        for word in ["one", "two"] {
            input
                .write_all(format!("{word}\n").as_bytes())
                .await
                .unwrap();
            let heard = output.next_line().await.unwrap();
            assert_eq!(
                heard.as_deref(),
                Some(format!("heard {word}").as_str()),
                "{mode:?}"
            );
        }
        drop(input);
        let status = program.wait().await.unwrap();
        assert_eq!(status.code(), Some(3), "{mode:?}");
        let mut complaints = String::new();
        let mut pipe = program.complaints.take().unwrap();
        pipe.read_to_string(&mut complaints).await.unwrap();
        assert!(
            complaints.starts_with("to-stderr\n"),
            "{mode:?}: {complaints}"
        );
        assert!(complaints.contains("/usr/x"), "{mode:?}: {complaints}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_end_when_nobody_speaks_is_ended() {
    for mode in [SandboxMode::Auto, SandboxMode::Landlock] {
        let place = tempfile::tempdir().unwrap();
        let cage = cage(place.path(), mode).await;
        let script =
            "trap '' TERM HUP; (setsid sleep 600 &); touch begun; while :; do sleep 1; done";
        let mut program = start(place.path(), &cage, script).await;
        wait_for("its beginning", || place.path().join("begun").exists()).await;
        drop(program.input.take());
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), program.wait()).await;
        assert!(!ended.unwrap().unwrap().success(), "{mode:?}");
    }
}
