//! What every store must do, told through [`Store`] alone.
//!
//! [`check`] is called with a way to open the store under test: each call opens it anew, as another
//! process would after the one before has ended. Power loss and failing disks are each store's own
//! to test; the file store's are in `soak`.

use std::sync::Arc;

use domain::clock::Timestamp;
use domain::event::{
    MessageKind, MessageStarted, Notice, SessionCreated, StopReason, Text, TurnResult, TurnStarted,
    Unknown,
};
use domain::limits::BLOB_BYTES_MIN;
use domain::{Event, EventSeq, MessageId, PrincipalId, SessionId, TurnId};

use crate::{Entry, SessionWriter, Store, StoreError, Stored};

/// Opens the store under test; the one opened before is dropped first.
pub type Open<'a> = &'a dyn Fn() -> Arc<dyn Store>;

/// Tells every story on fresh sessions of one store.
///
/// # Errors
/// Which rule is broken.
pub fn check(open: Open<'_>) -> Result<(), String> {
    type Story = fn(Open<'_>) -> Result<(), String>;
    let stories: [(&str, Story); 8] = [
        ("what is appended comes back", appended_comes_back),
        ("an append is all or nothing", all_or_nothing),
        ("one writer", one_writer),
        ("reading after N", reading_after),
        ("a streamed message", streamed_message),
        ("an open message survives the process", open_message),
        ("a name is used once", name_used_once),
        ("a fork is a prefix", fork_is_a_prefix),
    ];
    for (name, story) in stories {
        story(open).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

const NOW: Timestamp = Timestamp(1_700_000_000.5);
const ALL: EventSeq = EventSeq(u64::MAX);

fn appended_comes_back(open: Open<'_>) -> Result<(), String> {
    let id = SessionId::random();
    let long = "long ".repeat(BLOB_BYTES_MIN / 4);
    let hostile = "a\u{2028}\u{2029}\u{85}\0😀\n\"\\";
    let (mut writer, mut stored) = open()
        .create(id, vec![created(), notice("first")], NOW)
        .map_err(say)?;
    let events = [notice(hostile), notice(&long), unknown()];
    stored.extend(writer.append(entries(events), NOW).map_err(say)?);
    let head = writer.meta().head;
    drop(writer);
    ensure(head == EventSeq(5), "the head is another")?;
    let store = open();
    ensure(store.exists(id), "it is not there")?;
    ensure(store.list().map_err(say)?.contains(&id), "it is not listed")?;
    let read = read_all(&*store, id)?;
    ensure(read == stored, "a reader finds other events")?;
    let (writer, seen) = open_session(&*store, id)?;
    ensure(
        seen.iter().eq(read.iter().map(|stored| &**stored)),
        "opening finds other events",
    )?;
    let meta = store.meta(id).map_err(say)?;
    ensure(meta == *writer.meta(), "the meta differs")?;
    ensure(meta.owner == PrincipalId::new("ann"), "the owner differs")?;
    let verified = store.verify(id).map_err(say)?;
    let sound = verified.damaged_at.is_none() && verified.torn_bytes == 0;
    ensure(sound && verified.events == 5, "verify is not content")
}

fn all_or_nothing(open: Open<'_>) -> Result<(), String> {
    let (store, id) = (open(), SessionId::random());
    let (mut writer, _) = store.create(id, vec![created()], NOW).map_err(say)?;
    let refused = writer.append(
        vec![
            Entry::Event(notice("x")),
            Entry::EndMessage { partial: false },
        ],
        NOW,
    );
    ensure(
        matches!(refused, Err(StoreError::NoMessage)),
        "it was taken",
    )?;
    let bare = MessageStarted {
        message_id: MessageId::new("m"),
        kind: MessageKind::Text,
    };
    let refused = writer.append(entries([bare.clone().into()]), NOW);
    ensure(
        matches!(refused, Err(StoreError::StartedBare)),
        "it was taken",
    )?;
    ensure(read_all(&*store, id)?.len() == 1, "half of it was stored")?;
    let end = bare.clone().ended(Text::Inline("whole".into()), false);
    let whole = writer.append(entries([bare.into(), end]), NOW);
    ensure(
        whole.is_ok_and(|stored| stored.len() == 2),
        "it was refused",
    )?;
    let next = writer.append(entries([notice("y")]), NOW).map_err(say)?;
    ensure(next[0].seq == EventSeq(4), "a number was left out")?;
    writer.fence();
    let refused = writer.append(entries([notice("z")]), NOW);
    ensure(
        matches!(refused, Err(StoreError::Fenced)),
        "a fenced writer went on",
    )
}

fn one_writer(open: Open<'_>) -> Result<(), String> {
    let (store, id) = (open(), SessionId::random());
    let (writer, _) = store.create(id, vec![created()], NOW).map_err(say)?;
    let held = |error| matches!(error, Some(StoreError::HeldElsewhere { .. }));
    let second = store.open_session(id, NOW, &mut |_| {});
    ensure(held(second.err()), "a second writer was let in")?;
    ensure(
        held(store.delete(id).err()),
        "it was deleted under its writer",
    )?;
    drop(writer);
    open_session(&*store, id).map(drop)
}

fn reading_after(open: Open<'_>) -> Result<(), String> {
    let (store, id) = (open(), SessionId::random());
    let (mut writer, _) = store.create(id, vec![created()], NOW).map_err(say)?;
    for n in 0..20 {
        let batch = (0..20).map(|m| notice(&format!("{n}.{m} {}", "x".repeat(500))));
        writer.append(entries(batch), NOW).map_err(say)?;
    }
    let mut reader = store.reader(id).map_err(say)?;
    ensure(
        reader.head().map_err(say)? == EventSeq(401),
        "the head is another",
    )?;
    for after in [0, 400, 200, 1, 399, 77] {
        let read = reader.read_after(EventSeq(after), ALL, 3, usize::MAX);
        let numbers: Vec<u64> = read.map_err(say)?.iter().map(|s| s.seq.0).collect();
        let wanted: Vec<u64> = (after + 1..=401).take(3).collect();
        ensure(numbers == wanted, "other events were read")?;
    }
    let limited = reader.read_after(EventSeq(5), EventSeq(7), 99, usize::MAX);
    ensure(limited.map_err(say)?.len() == 2, "the end was not kept")?;
    let small = reader.read_after(EventSeq(5), ALL, 99, 1).map_err(say)?;
    ensure(small.len() == 1, "the size was not kept")
}

fn streamed_message(open: Open<'_>) -> Result<(), String> {
    let (store, id) = (open(), SessionId::random());
    let (mut writer, _) = store.create(id, vec![created()], NOW).map_err(say)?;
    for (round, piece) in ["Grüße ", &"żółw ".repeat(60_000)].into_iter().enumerate() {
        let started = start(&mut *writer, &format!("m{round}"))?;
        writer.push_text(piece).map_err(say)?;
        writer.push_text("end").map_err(say)?;
        let mut reader = store.reader(id).map_err(say)?;
        let text = reader.read_partial(started, 0, usize::MAX).map_err(say)?;
        ensure(text == Some(format!("{piece}end")), "the open text differs")?;
        if let Some(job) = writer.unsynced() {
            job.run().map_err(say)?;
        }
        let end = vec![Entry::EndMessage { partial: false }];
        let ended = writer.append(end, NOW).map_err(say)?;
        let Event::AssistantMessage(message) = &ended[0].event else {
            return Err("it did not become a message".into());
        };
        let whole = read_text(&*reader, &message.text)?;
        ensure(whole == format!("{piece}end"), "the stored text differs")?;
        let text = reader.read_partial(started, 0, 9).map_err(say)?;
        ensure(text.is_none(), "an ended message is still open")?;
    }
    Ok(())
}

fn open_message(open: Open<'_>) -> Result<(), String> {
    let id = SessionId::random();
    let (mut writer, _) = open().create(id, vec![created()], NOW).map_err(say)?;
    let started = start(&mut *writer, "m")?;
    writer.push_text("so far").map_err(say)?;
    ensure(
        writer.open_message() == Some((started, 6)),
        "it is not open",
    )?;
    drop(writer);
    let (writer, seen) = open_session(&*open(), id)?;
    ensure(writer.open_message().is_none(), "it is still open")?;
    let Some(Event::AssistantMessage(message)) = seen.last().map(|stored| &stored.event) else {
        return Err("it was not ended".into());
    };
    let kept = message.partial && message.text == Text::Inline("so far".into());
    ensure(kept, "what was shown is not kept")
}

fn name_used_once(open: Open<'_>) -> Result<(), String> {
    let id = SessionId::random();
    let make = |store: &dyn Store| store.create(id, vec![created()], NOW).map(drop);
    make(&*open()).map_err(say)?;
    ensure(
        matches!(make(&*open()), Err(StoreError::Exists)),
        "it was made twice",
    )?;
    open().delete(id).map_err(say)?;
    let store = open();
    ensure(!store.exists(id), "it is still there")?;
    ensure(
        matches!(make(&*store), Err(StoreError::Exists)),
        "its name was given again",
    )?;
    let gone = |error| matches!(error, Some(StoreError::NotFound));
    ensure(gone(store.delete(id).err()), "it was deleted twice")?;
    ensure(gone(store.reader(id).err()), "it can be read")?;
    ensure(gone(store.meta(id).err()), "it has a meta")
}

fn fork_is_a_prefix(open: Open<'_>) -> Result<(), String> {
    let (store, id) = (open(), SessionId::random());
    let turn = |turn| -> [Event; 2] {
        [
            TurnStarted {
                turn: TurnId(turn),
                prompt_id: None,
                queued: None,
            }
            .into(),
            TurnResult {
                turn: TurnId(turn),
                stop_reason: Some(StopReason::EndTurn),
                error: None,
                usage: None,
            }
            .into(),
        ]
    };
    let long = notice(&"long ".repeat(BLOB_BYTES_MIN / 4));
    let mut first = vec![created(), unknown(), long];
    first.extend(turn(1));
    first.extend(turn(2));
    let (_writer, stored) = store.create(id, first, NOW).map_err(say)?;
    let bob = PrincipalId::new("bob");
    let fork = |at, to| store.fork(id, EventSeq(at), to, &bob, Timestamp(9.0));
    for refused in [0, 8] {
        let outcome = fork(refused, SessionId::random());
        ensure(
            matches!(outcome, Err(StoreError::NoFork { .. })),
            "it was not refused",
        )?;
    }
    ensure(
        matches!(fork(5, id), Err(StoreError::Exists)),
        "it replaced itself",
    )?;
    // 6 lies inside the second turn, 4 inside the first.
    for (at, kept) in [(2, 2), (7, 7), (6, 5), (5, 5), (4, 3)] {
        let to = SessionId::random();
        let meta = fork(at, to).map_err(say)?;
        let read = read_all(&*store, to)?;
        ensure(read[..kept] == stored[..kept], "the copy differs")?;
        ensure(read.len() == kept + 1, "the copy has another length")?;
        let Event::SessionForked(forked) = &read[kept].event else {
            return Err("it does not say where it is from".into());
        };
        let from = (forked.from.clone(), forked.at.0);
        ensure(
            from == (id.to_string(), kept as u64),
            "it is from elsewhere",
        )?;
        ensure(meta.owner == bob && meta.id == to, "it belongs to another")?;
        ensure(meta == store.meta(to).map_err(say)?, "the meta differs")?;
        let (writer, _) = open_session(&*store, to)?;
        ensure(writer.meta().owner == bob, "it belongs to another")?;
    }
    Ok(())
}

fn open_session(
    store: &dyn Store,
    id: SessionId,
) -> Result<(Box<dyn SessionWriter>, Vec<Stored>), String> {
    let mut seen = Vec::new();
    let mut visit = |stored: &Stored| seen.push(stored.clone());
    let (writer, _) = store.open_session(id, NOW, &mut visit).map_err(say)?;
    Ok((writer, seen))
}

fn read_all(store: &dyn Store, id: SessionId) -> Result<Vec<Arc<Stored>>, String> {
    let mut reader = store.reader(id).map_err(say)?;
    let read = reader.read_after(EventSeq(0), ALL, usize::MAX, usize::MAX);
    read.map_err(say)
}

fn read_text(reader: &dyn crate::SessionReader, text: &Text) -> Result<String, String> {
    let mut whole = String::new();
    loop {
        let piece = reader.read_text(text, whole.len() as u64, 50_000);
        let piece = piece.map_err(say)?;
        if piece.is_empty() {
            return Ok(whole);
        }
        whole.push_str(&piece);
    }
}

fn start(writer: &mut dyn SessionWriter, id: &str) -> Result<EventSeq, String> {
    let started = MessageStarted {
        message_id: MessageId::new(id),
        kind: MessageKind::Text,
    };
    Ok(writer.start_message(started, NOW).map_err(say)?.seq)
}

fn created() -> Event {
    SessionCreated {
        owner: PrincipalId::new("ann"),
        cwd: "/home/ann".into(),
        epoch: 0,
        additional_directories: Vec::new(),
        real_directories: Vec::new(),
    }
    .into()
}

fn notice(text: &str) -> Event {
    Notice {
        kind: "test".into(),
        message_id: None,
        text: text.into(),
    }
    .into()
}

fn unknown() -> Event {
    let mut fields = serde_json::Map::new();
    fields.insert("later".into(), serde_json::json!({"deep": [1.5, null]}));
    Event::Unknown(Unknown {
        kind: "future.thing".into(),
        fields,
    })
}

fn entries(events: impl IntoIterator<Item = Event>) -> Vec<Entry> {
    events.into_iter().map(Entry::Event).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn say(error: StoreError) -> String {
    error.to_string()
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        return Ok(());
    }
    Err(otherwise.to_owned())
}
