//! One writer per session, and many readers.

use domain::EventSeq;
use domain::event::MessageKind;
use journal::{Entry, FileStore, StoreError, Writer};

use crate::world::{NOW, World, entries, message, notice};

fn assert_send<T: Send>(_: &T) {}

#[test]
fn a_second_writer_is_refused_and_told_who_holds_the_session() {
    let (world, writer) = World::with(Vec::new());
    let us = Some(std::process::id());
    let held = |error| matches!(error, Some(StoreError::HeldElsewhere { pid }) if pid == us);
    assert!(held(world.open().err()));
    let other = FileStore::open(world.dir.path()).unwrap();
    assert!(held(other.open_session(world.id, NOW, &mut |_| {}).err()));
    assert!(held(other.delete(world.id).err()));
    assert_eq!(
        world.open().err().unwrap().to_string(),
        format!(
            "the session is open elsewhere, in process {}",
            std::process::id()
        )
    );
    drop(writer);
    let (second, _, _) = world.open().unwrap();
    assert!(held(world.open().err()));
    drop(second);
}

/// Files of the session that this process has open.
fn open_files(world: &World) -> Vec<String> {
    let session = world.path("");
    let targets = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = targets.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    let names = targets.filter_map(|target| {
        target
            .strip_prefix(&session)
            .ok()?
            .to_str()
            .map(str::to_owned)
    });
    names.collect()
}

#[test]
fn a_session_at_rest_has_one_file_open_and_a_message_takes_one_more() {
    let (world, mut writer) = World::with(vec![notice("x")]);
    assert_eq!(open_files(&world), ["events.jsonl"]);
    writer
        .start_message(message("m", MessageKind::Text), NOW)
        .unwrap();
    writer.push_text("hello").unwrap();
    assert_eq!(open_files(&world).len(), 2);
    writer
        .append(vec![Entry::EndMessage { partial: false }], NOW)
        .unwrap();
    assert_eq!(world.bytes("partial"), b"");
    assert_eq!(open_files(&world).len(), 2, "the next message is near");
    writer
        .start_message(message("n", MessageKind::Text), NOW)
        .unwrap();
    writer.push_text("again").unwrap();
    assert!(world.bytes("partial").starts_with(b"{\"seq\":5,"));
    assert!(world.bytes("partial").ends_with(b"again"));
    writer
        .append(vec![Entry::EndMessage { partial: false }], NOW)
        .unwrap();
    writer.rest();
    assert_eq!(open_files(&world), ["events.jsonl"]);
    drop(writer);
    let (_writer, _, _) = world.open().unwrap();
    assert_eq!(open_files(&world), ["events.jsonl"]);
}

#[test]
fn c_01_f_13_a_hundred_sessions_are_written_at_once() {
    let world = World::new();
    let open = |_| {
        let id = domain::SessionId::random();
        world.store.create(id, vec![notice("0")], NOW).unwrap().0
    };
    let mut writers: Vec<Writer> = (0..100).map(open).collect();
    std::thread::scope(|scope| {
        for some in writers.chunks_mut(25) {
            scope.spawn(move || {
                for writer in some {
                    writer
                        .append(entries([notice("1"), notice("2")]), NOW)
                        .unwrap();
                }
            });
        }
    });
    for writer in &writers {
        let mut reader = world.store.reader(writer.session()).unwrap();
        assert_send(&reader);
        assert_eq!(reader.head().unwrap(), EventSeq(3));
    }
    assert_send(&writers);
    assert_eq!(world.store.list().unwrap().len(), 100);
}

#[test]
fn a_reader_goes_on_where_a_recovery_has_cut() {
    let (world, writer) = World::with(vec![notice("two"), notice("three, later cut")]);
    let mut reader = world.reader();
    assert_eq!(reader.head().unwrap(), EventSeq(3));
    drop(writer);
    let log = world.bytes("events.jsonl");
    world.put("events.jsonl", &log[..log.len() - 9]);
    let (mut writer, _, _) = world.open().unwrap();
    writer.append(entries([notice("four")]), NOW).unwrap();
    let read = reader
        .read_after(EventSeq(2), EventSeq(9), 9, 9_999)
        .unwrap();
    let texts = crate::world::texts(&read);
    assert_eq!(texts, ["recovered 1 from 3", "four"]);
}
