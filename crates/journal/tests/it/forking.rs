//! Forks, verification and the suite that every store must pass.

use std::ops::ControlFlow;
use std::sync::Arc;

use domain::event::{MessageKind, StopReason, TurnResult, UserMessage};
use domain::limits::BLOB_BYTES_MIN;
use domain::{Event, EventSeq, PrincipalId, SessionId, TurnId};
use journal::storage::power::PowerStorage;
use journal::{FileStore, Store, StoreError, Verified, conformance};
use serde_json::json;

use crate::world::{NOW, World, entries, message, notice, texts, turn_started, unknown};

fn prompt() -> Event {
    UserMessage {
        text: "do it".into(),
        blocks: Vec::new(),
        message_id: None,
        prompt_id: None,
    }
    .into()
}

fn turn_ended() -> Event {
    TurnResult {
        turn: TurnId(1),
        stop_reason: Some(StopReason::EndTurn),
        error: None,
        usage: None,
    }
    .into()
}

fn fork(world: &World, at: u64) -> Result<World, StoreError> {
    let to = SessionId::random();
    let owner = PrincipalId::new("bob");
    world.store.fork(world.id, EventSeq(at), to, &owner, NOW)?;
    Ok(World {
        dir: tempfile::tempdir().unwrap(),
        store: world.store.clone(),
        id: to,
    })
}

#[test]
fn the_file_store_conforms_on_disk_and_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let on_disk = || -> Arc<dyn Store> { Arc::new(FileStore::open(dir.path()).unwrap()) };
    conformance::check(&on_disk).unwrap();
    let storage = PowerStorage::new(7);
    let in_memory =
        || -> Arc<dyn Store> { Arc::new(FileStore::with_storage(Arc::new(storage.clone()))) };
    conformance::check(&in_memory).unwrap();
}

#[test]
fn f_17_a_fork_keeps_what_this_version_does_not_understand_byte_for_byte() {
    let log = concat!(
        r#"{"seq":1,"ts":1,"type":"session.created","owner":"ann","cwd":"/w","epoch":0,"later":{"x":1}}"#,
        "\n\n",
        r#"{"seq":2, "ts":2, "type":"future.thing", "deep":[1.50, null]}"#,
        "\n",
        r#"{"seq":3,"ts":3,"type":"notice","kind":"k","text":"t\ud800","more":true}"#,
    );
    let world = World::with_log(log);
    let forked = fork(&world, 3).unwrap();
    let path = world
        .dir
        .path()
        .join(format!("sessions/{}/events.jsonl", forked.id));
    let copied = std::fs::read_to_string(path).unwrap();
    let rest = copied.strip_prefix(&format!("{log}\n")).unwrap();
    let rest: serde_json::Value = serde_json::from_str(rest).unwrap();
    let told = (&rest["seq"], &rest["type"], &rest["from"], &rest["at"]);
    let from = json!(world.id.to_string());
    assert_eq!(
        told,
        (&json!(4), &json!("session.forked"), &from, &json!(3))
    );
    assert_eq!(rest["owner"], "bob");
}

#[test]
fn a_fork_inside_a_turn_ends_with_the_turn_before() {
    let turn = [prompt(), turn_started(), notice("work"), turn_ended()];
    let mut events = vec![notice("hello")];
    events.extend(turn.clone());
    events.push(notice("between"));
    events.extend(turn);
    let (world, writer) = World::with(events);
    // created 1, hello 2, turn 3-6, between 7, turn 8-11
    for (at, kept) in [
        (1, 1),
        (2, 2),
        (3, 2),
        (4, 2),
        (5, 2),
        (6, 6),
        (7, 7),
        (8, 6),
        (9, 6),
        (10, 6),
        (11, 11),
    ] {
        let forked = fork(&world, at).unwrap();
        let meta = world.store.meta(forked.id).unwrap();
        assert_eq!(meta.head, EventSeq(kept + 1), "at {at}");
        assert_eq!((meta.owner.as_str(), &*meta.cwd), ("bob", "/home/ann"));
    }
    for at in [0, 12, u64::MAX] {
        assert!(matches!(fork(&world, at), Err(StoreError::NoFork { .. })));
    }
    drop(writer);
    let (in_turn, _writer) = World::with(Vec::new());
    assert!(fork(&in_turn, 1).is_ok());
    let first = World::with_log(r#"{"seq":1,"ts":1,"type":"turn.started","turn":1}"#);
    assert!(matches!(
        fork(&first, 1),
        Err(StoreError::NoFork { at: EventSeq(1) })
    ));
}

#[test]
fn a_fork_has_its_own_blobs_and_outlives_its_source() {
    let long = "x".repeat(BLOB_BYTES_MIN + 1);
    let (world, mut writer) = World::with(vec![notice(&long)]);
    writer
        .start_message(message("m", MessageKind::Text), NOW)
        .unwrap();
    writer.push_text(&long).unwrap();
    let open = fork(&world, 3).unwrap();
    assert_eq!(world.store.meta(open.id).unwrap().head, EventSeq(3));
    writer
        .append(vec![journal::Entry::EndMessage { partial: false }], NOW)
        .unwrap();
    let forked = fork(&world, 4).unwrap();
    drop(writer);
    world.store.delete(world.id).unwrap();
    let verified = world.store.verify(forked.id).unwrap();
    assert_eq!((verified.events, verified.blobs), (5, 2));
    assert_eq!(verified.damaged_at, None);
    let (mut writer, _) = world
        .store
        .open_session(forked.id, NOW, &mut |_| {})
        .unwrap();
    writer.append(entries([notice("goes on")]), NOW).unwrap();
}

#[test]
fn a_damaged_session_can_be_forked_before_the_damage_and_not_after() {
    let (world, writer) = World::with((2..=9).map(|n| notice(&n.to_string())).collect());
    drop(writer);
    let log = world.log().replace("\"text\":\"5\"", "\"text\":\"6\"");
    world.put("events.jsonl", log);
    assert!(fork(&world, 4).is_ok());
    assert!(matches!(
        fork(&world, 5),
        Err(StoreError::Damaged { at: EventSeq(5) })
    ));
}

#[test]
fn verifying_counts_what_is_whole_and_says_where_it_ends() {
    let long = "x".repeat(BLOB_BYTES_MIN + 1);
    let (world, mut writer) = World::with(vec![notice("two"), notice(&long)]);
    let whole = Verified {
        events: 3,
        bytes: world.log().len() as u64,
        blobs: 1,
        blob_bytes: long.len() as u64,
        torn_bytes: 0,
        damaged_at: None,
        is_text_damaged: false,
    };
    assert_eq!(world.store.verify(world.id).unwrap(), whole);
    writer
        .append(entries([unknown("later", json!({"$blob": 1}))]), NOW)
        .unwrap();
    drop(writer);
    let log = world.log();
    world.put("events.jsonl", &log[..log.len() - 5]);
    let torn = world.store.verify(world.id).unwrap();
    assert_eq!((torn.events, torn.damaged_at), (3, None));
    assert_eq!(torn.torn_bytes, log.len() as u64 - 5 - whole.bytes);
    world.put("events.jsonl", log.replace("two", "2wo"));
    let damaged = world.store.verify(world.id).unwrap();
    assert_eq!((damaged.events, damaged.damaged_at), (1, Some(EventSeq(2))));
    world.put("events.jsonl", &log);
    let blob = std::fs::read_dir(world.path("blobs")).unwrap().next();
    std::fs::write(blob.unwrap().unwrap().path(), "other").unwrap();
    let damaged = world.store.verify(world.id).unwrap();
    assert_eq!((damaged.events, damaged.damaged_at), (2, Some(EventSeq(3))));
    assert!(world.store.free_bytes().unwrap() > 0);
}

#[test]
fn verifying_beside_a_writer_finds_neither_damage_nor_a_torn_end() {
    let (world, mut writer) = World::with(Vec::new());
    let store = world.store.clone();
    std::thread::scope(|scope| {
        let checks = scope.spawn(move || {
            let mut events = 0;
            while events < 301 {
                let verified = store.verify(world.id).unwrap();
                assert_eq!(verified.damaged_at, None);
                assert!(verified.events >= events);
                events = verified.events;
            }
        });
        for n in 0..100 {
            let batch = (0..3).map(|m| notice(&format!("{n}.{m}").repeat(200)));
            writer.append(entries(batch), NOW).unwrap();
        }
        checks.join().unwrap();
    });
}

#[test]
fn every_event_is_visited_in_bounded_batches_until_told_to_stop() {
    let (world, _writer) = World::with((0..700).map(|n| notice(&n.to_string())).collect());
    let mut seen = Vec::new();
    let mut reader = world.reader();
    reader
        .for_each(EventSeq(1), &mut |stored| {
            seen.push(Arc::new(stored.clone()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((seen.len(), &*texts(&seen)[699]), (700, "699"));
    let mut count = 0;
    let mut stop = |_: &journal::Stored| {
        count += 1;
        match count {
            300 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    reader.for_each(EventSeq(0), &mut stop).unwrap();
    assert_eq!(count, 300);
}
