//! Stories of processes that end, and of those that would rather not.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use super::{Exit, Finished, Job, run};

static TOP: std::sync::LazyLock<std::fs::File> =
    std::sync::LazyLock::new(|| std::fs::File::open("/").unwrap());

const SECOND: Duration = Duration::from_secs(1);

fn job(command: &str) -> Job<'_> {
    Job {
        command,
        cwd: TOP.as_fd(),
        environment: &[],
        input: Vec::new(),
        time_max: 20 * SECOND,
        output_bytes_max: 1024,
    }
}

async fn text(job: Job<'_>) -> (Exit, String, String) {
    let Finished {
        exit,
        stdout,
        stderr,
    } = run(job).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (exit, text(stdout), text(stderr))
}

/// Whether the process that wrote its number to `file` is still there.
fn lives(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // One that was killed may wait to be collected.
    status.is_ok_and(|status| !status.contains(") Z "))
}

async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + 20 * SECOND;
    while !happened() {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_job_reads_its_input_and_says_how_it_ended() {
    let asked = Job {
        input: b"hello".to_vec(),
        ..job("cat; echo oh >&2; exit 3")
    };
    let (exit, stdout, stderr) = text(asked).await;
    assert_eq!((exit, &*stdout, &*stderr), (Exit::Code(3), "hello", "oh\n"));
    assert_eq!(text(job("kill -TERM $$")).await.0, Exit::Signal(15));
}

#[tokio::test]
async fn a_job_that_ignores_its_input_ends_all_the_same() {
    let asked = Job {
        input: vec![b'x'; 4 * 1024 * 1024],
        ..job("exit 0")
    };
    assert_eq!(text(asked).await.0, Exit::Code(0));
}

#[tokio::test]
async fn a_job_sees_only_the_variables_it_is_given() {
    let asked = Job {
        environment: &[("COLOUR".to_owned(), "blue".to_owned())],
        ..job("echo \"$COLOUR$HOME$USER$CARGO_MANIFEST_DIR\"")
    };
    assert_eq!(text(asked).await.1, "blue\n");
}

#[tokio::test]
async fn time_that_is_up_ends_the_whole_group() {
    let place = tempfile::tempdir().unwrap();
    let directory = std::fs::File::open(place.path()).unwrap();
    let asked = Job {
        cwd: directory.as_fd(),
        environment: &[("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        time_max: Duration::from_millis(300),
        ..job("trap '' TERM; sleep 100 & echo $! > child; wait")
    };
    assert_eq!(text(asked).await.0, Exit::TimedOut);
    let child = place.path().join("child");
    until("the child ends", || !lives(&child)).await;
}

#[tokio::test]
async fn a_job_that_prints_without_end_is_stopped() {
    let asked = Job {
        environment: &[("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..job("yes")
    };
    let (exit, stdout, _) = text(asked).await;
    assert_eq!((exit, stdout.len()), (Exit::TooLong, 1024));
}

#[tokio::test]
async fn what_a_job_leaves_behind_neither_holds_it_up_nor_stays() {
    let place = tempfile::tempdir().unwrap();
    let directory = std::fs::File::open(place.path()).unwrap();
    let asked = Job {
        cwd: directory.as_fd(),
        environment: &[("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..job("sleep 100 & echo $! > child; echo done")
    };
    let begun = tokio::time::Instant::now();
    let (exit, stdout, _) = text(asked).await;
    assert_eq!((exit, &*stdout), (Exit::Code(0), "done\n"));
    assert!(begun.elapsed() < 10 * SECOND, "it was waited for");
    let child = place.path().join("child");
    until("the child ends", || !lives(&child)).await;
}

#[tokio::test]
async fn nobody_waiting_ends_the_whole_group() {
    let place = tempfile::tempdir().unwrap();
    let directory = std::fs::File::open(place.path()).unwrap();
    let child = place.path().join("child");
    let environment = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let asked = Job {
        cwd: directory.as_fd(),
        environment: &environment,
        ..job("sleep 100 & echo $! > part; mv part child; wait")
    };
    {
        let running = run(asked);
        tokio::pin!(running);
        tokio::select! {
            _ = &mut running => panic!("it ended by itself"),
            () = until("it begins", || child.exists()) => {}
        }
        assert!(lives(&child));
    }
    until("the child ends", || !lives(&child)).await;
}
