//! Stories that need a second process: who holds a session, and limits that the system sets.
//!
//! The other process is this test binary again, told by its environment to play a part.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use domain::{EventSeq, SessionId};
use journal::{FileStore, StoreError};

use crate::world::{NOW, World, entries, notice};

/// What the other process is to do, and where.
const PART: &str = "FASTNESS_JOURNAL_TEST_PART";
const PLACE: &str = "FASTNESS_JOURNAL_TEST_PLACE";

/// Exit code of a shell that could not set the stage.
const NO_STAGE: i32 = 77;

fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Starts this binary in `part`, through a shell that first runs `stage`.
fn start(part: &str, place: &Path, stage: &str) -> Child {
    start_in(&["sh"], part, place, stage).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "these stories are about another process"
)]
fn start_in(shell: &[&str], part: &str, place: &Path, stage: &str) -> std::io::Result<Child> {
    let run = "exec \"$0\" --exact processes::a_part_in_another_story --nocapture";
    Command::new(shell[0])
        .args(&shell[1..])
        .args(["-c", &format!("{stage}; {run}")])
        .arg(std::env::current_exe()?)
        .env(PART, part)
        .env(PLACE, place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

/// Reads what the other process prints up to a line that begins with `word`; gives its rest.
fn hear(child: &mut Child, word: &str) -> Option<String> {
    let output = BufReader::new(child.stdout.as_mut().unwrap());
    let mut lines = output.lines().map_while(Result::ok);
    lines.find_map(|line| {
        line.split_once(word)
            .map(|(_, rest)| rest.trim().to_owned())
    })
}

#[test]
fn a_part_in_another_story() {
    let (Some(part), Some(place)) = (env(PART), env(PLACE)) else {
        return;
    };
    let store = FileStore::open(Path::new(&place)).unwrap();
    match part.to_str().unwrap() {
        "hold" => {
            let id = store.list().unwrap()[0];
            let (_writer, _) = store.open_session(id, NOW, &mut |_| {}).unwrap();
            println!("\nholding {}", std::process::id());
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "fill" => {
            let (id, acknowledged) = fill(&store);
            println!("\nfilled {id} {acknowledged}");
        }
        "fill and free" => {
            // What fills the place can be removed again.
            let ballast = Path::new(&place).join("ballast");
            std::fs::write(&ballast, vec![1; 100_000]).unwrap();
            let (id, acknowledged) = fill(&store);
            let mut seen = 0;
            let full = store.open_session(id, NOW, &mut |_| seen += 1);
            assert!(matches!(full, Ok(_) | Err(StoreError::Full)));
            drop(full);
            std::fs::remove_file(ballast).unwrap();
            seen = 0;
            let (mut writer, _) = store.open_session(id, NOW, &mut |_| seen += 1).unwrap();
            assert!(seen >= acknowledged, "{seen} of {acknowledged}");
            writer.append(entries([notice("goes on")]), NOW).unwrap();
            let verified = store.verify(id).unwrap();
            assert_eq!((verified.torn_bytes, verified.damaged_at), (0, None));
            println!("\nfreed");
        }
        "fill and delete" => {
            let (kept, _) = store
                .create(SessionId::random(), vec![notice("kept")], NOW)
                .unwrap();
            let kept_id = kept.session();
            drop(kept);
            let (id, _) = fill(&store);
            // Nor any room for a new name, of which there is one for each inode.
            let names = (0..).map(|n| Path::new(&place).join(format!("name-{n}")));
            let made = names.take_while(|name| std::fs::File::create(name).is_ok());
            assert!(made.count() < 1_000);
            store.delete(id).unwrap();
            assert!(!store.exists(id));
            let again = store.create(id, vec![notice("again")], NOW);
            assert!(matches!(again.err(), Some(StoreError::Exists)));
            // And the others have what it took.
            let (mut writer, _) = store.open_session(kept_id, NOW, &mut |_| {}).unwrap();
            for _ in 0..100 {
                let batch = entries([notice(&"x".repeat(400))]);
                writer.append(batch, NOW).unwrap();
            }
            println!("\nfreed");
        }
        other => panic!("no such part: {other}"),
    }
}

/// Appends until the disk is full; returns the session and how many events were acknowledged.
fn fill(store: &FileStore) -> (SessionId, u64) {
    let id = SessionId::random();
    let (mut writer, _) = store.create(id, vec![notice("0")], NOW).unwrap();
    for _ in 0..10_000 {
        let batch = entries((0..3).map(|_| notice(&"x".repeat(400))));
        match writer.append(batch, NOW) {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, StoreError::Full), "{error}");
                let again = writer.append(entries([notice("never")]), NOW);
                assert!(matches!(again, Err(StoreError::Fenced)));
                return (id, writer.head().0);
            }
        }
    }
    panic!("the disk has no end");
}

#[test]
fn f_12_a_second_process_is_refused_and_told_who_holds_the_session() {
    let (world, writer) = World::with(vec![notice("x")]);
    drop(writer);
    let mut child = start("hold", world.dir.path(), ":");
    let pid: u32 = hear(&mut child, "holding").unwrap().parse().unwrap();
    let held = world.open().err().unwrap();
    assert!(
        matches!(held, StoreError::HeldElsewhere { pid: Some(holder) } if holder == pid),
        "{held}"
    );
    let delete = world.store.delete(world.id);
    assert!(matches!(delete, Err(StoreError::HeldElsewhere { .. })));
    // Reading takes no lock, and both may work on other sessions.
    assert_eq!(world.read_all().len(), 2);
    assert_eq!(world.store.verify(world.id).unwrap().events, 2);
    let other = SessionId::random();
    let (mut writer, _) = world.store.create(other, vec![notice("y")], NOW).unwrap();
    writer.append(entries([notice("z")]), NOW).unwrap();
    // The holder is killed; its lock dies with it.
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut writer, recovery, _) = world.open().unwrap();
    assert_eq!(recovery, journal::Recovery::default());
    writer.append(entries([notice("ours now")]), NOW).unwrap();
}

#[test]
fn f_11_a_file_size_limit_is_a_full_disk_and_does_not_kill_the_process() {
    let world = World::new();
    let mut child = start("fill", world.dir.path(), "trap '' XFSZ; ulimit -f 64");
    let told = hear(&mut child, "filled").expect("the process was killed or failed");
    let (id, acknowledged) = told.split_once(' ').unwrap();
    let (id, acknowledged): (SessionId, u64) = (id.parse().unwrap(), acknowledged.parse().unwrap());
    assert!(child.wait().unwrap().success());
    assert!(acknowledged > 3);
    let mut seen = 0;
    let (mut writer, _) = world
        .store
        .open_session(id, NOW, &mut |_| seen += 1)
        .unwrap();
    assert!(seen >= acknowledged);
    let goes_on = writer.append(entries([notice("goes on")]), NOW).unwrap();
    assert_eq!(goes_on[0].seq, EventSeq(seen + 1));
}

/// Plays `part` on a small disk of our own. Where the system does not let us have one this fails
/// and says so: a story that was not told has shown nothing.
fn play_on_a_small_disk(part: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=256k,nr_inodes=40 none '{}' 2>&1 || exit {NO_STAGE}",
        dir.path().display()
    );
    let shell = ["unshare", "-rm", "sh"];
    let mut child = start_in(&shell, part, dir.path(), &mount).unwrap();
    let told = hear(&mut child, "freed");
    let status = child.wait().unwrap();
    assert_ne!(
        status.code(),
        Some(NO_STAGE),
        "a tmpfs could not be mounted"
    );
    assert!(told.is_some() && status.success(), "{status}");
}

#[test]
fn f_07_a_disk_that_is_full_refuses_and_goes_on_when_there_is_space() {
    play_on_a_small_disk("fill and free");
}

#[test]
fn f_07_a_session_can_be_deleted_from_a_full_disk_and_makes_room() {
    play_on_a_small_disk("fill and delete");
}
