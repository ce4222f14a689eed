//! How fast events become durable, and text becomes readable.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use domain::MessageId;
use domain::clock::Timestamp;
use domain::event::{MessageKind, MessageStarted};
use journal::{Entry, FileStore, SharedWriter, Writer};

use super::counted::Counted;
use super::{failed, new_session, short_event};
use crate::Failure;
use crate::bench::table::{Row, Table};
use crate::bench::{Plan, because};

/// Sessions that are written at the same time, each by a thread of its own.
const SESSIONS: [usize; 3] = [1, 8, 64];

/// Threads that write to one session.
const WRITERS: [usize; 2] = [8, 64];

/// Slices in which ours and the bare way take turns.
const SLICES: usize = 8;

/// Chunks of streamed text in one slice, and the bytes of each.
const CHUNKS: u32 = 20_000;
const CHUNK: &str = "a few words of an answer as a model ";

/// Longest time that streamed text may be unsynced, as in the server.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Durable appends to as many sessions as threads, beside a bare loop of `write` + `fdatasync`.
pub(in crate::bench) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    for sessions in SESSIONS {
        let folder = plan.scratch()?;
        let store = FileStore::open(folder.path()).map_err(failed)?;
        let writers = (0..sessions).map(|_| new_session(&store));
        let mut writers = writers.collect::<Result<Vec<Writer>, Failure>>()?;
        let mut files = bare_files(folder.path(), sessions)?;
        // About as many in all, however many write.
        let each = (plan.rounds * 20 / sessions / SLICES).max(4);
        let (mut ours, mut bare) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..SLICES {
            ours += at_once(&mut writers, |writer| append_all(writer, each))?;
            bare += at_once(&mut files, |file| bare_appends(file, each))?;
        }
        let count = (each * sessions * SLICES) as f64;
        let (ours, bare) = (count / ours.as_secs_f64(), count / bare.as_secs_f64());
        table.push(Row {
            what: &format!("durable appends, {}", counted(sessions, "session")),
            measured: format!("{ours:.0}/s"),
            beside: format!(
                "write + fdatasync, {}: {bare:.0}/s",
                counted(sessions, "file")
            ),
            ratio: Some(ours / bare),
            aim: if sessions == 1 { "≥ 0.8×" } else { "" },
        });
    }
    Ok(())
}

/// Durable appends of many threads to one session, beside one that waits for each sync.
pub(in crate::bench) fn measure_shared(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    for writers in WRITERS {
        let folder = plan.scratch()?;
        let (storage, syncs) = Counted::open(folder.path())?;
        let writer = new_session(&FileStore::with_storage(storage))?;
        let shared = SharedWriter::new(writer);
        let mut handles: Vec<SharedWriter> = (0..writers).map(|_| shared.clone()).collect();
        let mut file = bare_files(folder.path(), 1)?;
        let each = (plan.rounds * 20 / writers / SLICES).max(8);
        let (mut ours, mut bare) = (Duration::ZERO, Duration::ZERO);
        let before = syncs.load(Ordering::Relaxed);
        for _ in 0..SLICES {
            ours += at_once(&mut handles, |handle| shared_appends(handle, each))?;
            bare += at_once(&mut file, |file| bare_appends(file, each))?;
        }
        let synced = (syncs.load(Ordering::Relaxed) - before).max(1) as f64;
        let count = (each * writers * SLICES) as f64;
        let ours = count / ours.as_secs_f64();
        let bare = (each * SLICES) as f64 / bare.as_secs_f64();
        table.push(Row {
            what: &format!("durable appends, {writers} writers on one session"),
            measured: format!("{ours:.0}/s, {:.1} per sync", count / synced),
            beside: format!("write + fdatasync, one file: {bare:.0}/s"),
            ratio: Some(ours / bare),
            aim: "> 1×",
        });
    }
    Ok(())
}

/// Text that is streamed, beside plain writes that nobody syncs.
pub(in crate::bench) fn measure_text(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let store = FileStore::open(folder.path()).map_err(failed)?;
    let mut writer = new_session(&store)?;
    let mut file = bare_files(folder.path(), 1)?;
    let (mut ours, mut bare) = (Duration::ZERO, Duration::ZERO);
    for slice in 0..SLICES {
        ours += stream(&mut writer, slice)?;
        bare += at_once(&mut file, plain_writes)?;
    }
    let count = f64::from(CHUNKS) * SLICES as f64;
    let (ours, bare) = (count / ours.as_secs_f64(), count / bare.as_secs_f64());
    table.push(Row {
        what: "streamed text, chunks",
        measured: format!("{ours:.0}/s"),
        beside: format!("plain write: {bare:.0}/s"),
        ratio: Some(ours / bare),
        aim: "≥ 0.5×",
    });
    Ok(())
}

/// Runs `work` for each item on a thread of its own; gives the time until all were done.
fn at_once<T: Send>(
    items: &mut [T],
    work: impl Fn(&mut T) -> Result<(), Failure> + Sync,
) -> Result<Duration, Failure> {
    let started = Instant::now();
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .iter_mut()
            .map(|item| scope.spawn(|| work(item)))
            .collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|outcome| outcome.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    let elapsed = started.elapsed();
    outcomes.into_iter().collect::<Result<(), Failure>>()?;
    Ok(elapsed)
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn append_all(writer: &mut Writer, count: usize) -> Result<(), Failure> {
    for _ in 0..count {
        let entry = Entry::Event(short_event(writer.head().0));
        writer
            .append(vec![entry], Timestamp::now())
            .map_err(failed)?;
    }
    Ok(())
}

fn shared_appends(writer: &mut SharedWriter, count: usize) -> Result<(), Failure> {
    for number in 0..count {
        let entry = Entry::Event(short_event(number as u64));
        writer
            .append(vec![entry], Timestamp::now())
            .map_err(failed)?;
    }
    Ok(())
}

/// As many bytes as an append writes, each synced.
fn bare_appends(file: &mut File, count: usize) -> Result<(), Failure> {
    let line = [b'x'; 240];
    for _ in 0..count {
        file.write_all(&line).map_err(because("cannot write"))?;
        file.sync_data().map_err(because("cannot sync"))?;
    }
    Ok(())
}

/// One message in many chunks, synced once a second, and made an event at the end.
fn stream(writer: &mut Writer, slice: usize) -> Result<Duration, Failure> {
    let started = MessageStarted {
        message_id: MessageId::new(format!("message-{slice}")),
        kind: MessageKind::Text,
    };
    writer
        .start_message(started, Timestamp::now())
        .map_err(failed)?;
    let begin = Instant::now();
    let mut synced = Instant::now();
    for _ in 0..CHUNKS {
        writer.push_text(CHUNK).map_err(failed)?;
        if synced.elapsed() > SYNC_EVERY {
            writer
                .unsynced()
                .map_or(Ok(()), journal::SyncJob::run)
                .map_err(failed)?;
            synced = Instant::now();
        }
    }
    let elapsed = begin.elapsed();
    let end = Entry::EndMessage { partial: false };
    writer.append(vec![end], Timestamp::now()).map_err(failed)?;
    Ok(elapsed)
}

fn plain_writes(file: &mut File) -> Result<(), Failure> {
    for _ in 0..CHUNKS {
        let written = file.write_all(CHUNK.as_bytes());
        written.map_err(because("cannot write"))?;
    }
    Ok(())
}

fn bare_files(folder: &Path, count: usize) -> Result<Vec<File>, Failure> {
    let open = |index: usize| {
        let path = folder.join(format!("bare-{index}"));
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        options.open(path).map_err(because("cannot make a file"))
    };
    (0..count).map(open).collect()
}
