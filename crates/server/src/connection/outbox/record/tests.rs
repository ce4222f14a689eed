//! A reader that comes back misses nothing and gets nothing twice.

use std::collections::VecDeque;

use domain::{Cursor, EventSeq};

use super::{Conflict, Mark, Reader};
use crate::connection::outbox::{Frame, Kind, Outbox};

const SERIAL: u64 = 7;

fn at(seq: u64) -> Cursor {
    let seq = EventSeq(seq);
    Cursor {
        seq,
        ..Cursor::default()
    }
}

fn update(seq: u64) -> Frame {
    Frame::update(format!("update {seq}"), at(seq))
}

fn followed() -> Outbox {
    let outbox = Outbox::recording(1_000);
    outbox.begin(SERIAL, at(0));
    outbox
}

async fn fill(outbox: &Outbox, frames: impl IntoIterator<Item = Frame>) {
    let mut frames = frames.into_iter().collect();
    outbox.stream(&mut frames).await.unwrap();
}

/// What waits for the reader, and the place after it.
async fn read(reader: &Reader) -> (Vec<String>, Option<Mark>) {
    let frames = reader.next().await.unwrap();
    let mark = frames.last().and_then(|frame| frame.mark);
    (frames.into_iter().map(|frame| frame.text).collect(), mark)
}

#[tokio::test]
async fn updates_come_again_from_the_journal_and_answers_at_their_place_among_them() {
    let outbox = followed();
    let first = outbox.read_after(None).unwrap();
    fill(&outbox, [update(1)]).await;
    let (_, mark) = read(&first).await;
    fill(&outbox, [update(2)]).await;
    outbox.answer("answer after 2".to_owned());
    fill(&outbox, [update(3)]).await;
    read(&first).await;
    // Not read yet when the reader is replaced.
    fill(&outbox, [update(4)]).await;
    outbox.answer("answer after 4".to_owned());

    let second = outbox.read_after(mark).unwrap();
    assert!(first.next().await.is_none());
    assert_eq!(outbox.rewound().await, at(1));
    // While updates are read again an answer waits for its turn.
    outbox.answer("late answer".to_owned());
    fill(&outbox, [update(2), update(3), update(4)]).await;
    outbox.caught_up();
    let (texts, _) = read(&second).await;
    assert_eq!(
        texts,
        [
            "update 2",
            "answer after 2",
            "update 3",
            "update 4",
            "answer after 4",
            "late answer"
        ]
    );
}

#[tokio::test]
async fn what_the_pump_was_about_to_send_is_read_again_and_not_sent_twice() {
    let outbox = Outbox::recording(10);
    outbox.begin(SERIAL, at(0));
    let first = outbox.read_after(None).unwrap();
    fill(&outbox, [update(1)]).await;
    let (_, mark) = read(&first).await;
    fill(&outbox, [update(2)]).await;
    read(&first).await;
    fill(&outbox, [update(3)]).await;
    let mut frames = VecDeque::from([update(4), Frame::once("asks".to_owned())]);
    let filling = outbox.stream(&mut frames);
    tokio::pin!(filling);
    assert!(futures_util::poll!(&mut filling).is_pending());
    let second = outbox.read_after(mark).unwrap();
    filling.await.unwrap();
    assert_eq!(outbox.rewound().await, at(1));
    let mut told = Vec::new();
    for seq in 2..=4 {
        fill(&outbox, [update(seq)]).await;
        told.extend(read(&second).await.0);
    }
    outbox.caught_up();
    told.extend(read(&second).await.0);
    assert_eq!(told, ["update 2", "update 3", "update 4", "asks"]);
}

#[tokio::test]
async fn an_answer_that_got_lost_is_sent_again_without_reading_anything_again() {
    let outbox = followed();
    let first = outbox.read_after(None).unwrap();
    fill(&outbox, [update(1)]).await;
    let (_, mark) = read(&first).await;
    outbox.answer("answer".to_owned());
    read(&first).await;
    drop(first);
    for _ in 0..3 {
        let again = outbox.read_after(mark).unwrap();
        assert_eq!(read(&again).await.0, ["answer"]);
    }
    outbox.end(SERIAL);
    let again = outbox.read_after(mark).unwrap();
    assert_eq!(read(&again).await.0, ["answer"]);
}

/// An outbox whose second reader wants an update again that the first has got, and an answer behind it.
async fn owing() -> (Outbox, Reader, Option<Mark>) {
    let outbox = followed();
    let first = outbox.read_after(None).unwrap();
    fill(&outbox, [update(1)]).await;
    let (_, mark) = read(&first).await;
    fill(&outbox, [update(2)]).await;
    read(&first).await;
    outbox.answer("answer".to_owned());
    let second = outbox.read_after(mark).unwrap();
    (outbox, second, mark)
}

#[tokio::test]
async fn an_attachment_does_not_end_before_its_reader_has_what_it_wants_again() {
    let (outbox, reader, _) = owing().await;
    assert!(!outbox.end_if_read(SERIAL));
    outbox.rewound().await;
    assert!(!outbox.end_if_read(SERIAL), "it has not begun");
    fill(&outbox, [update(2)]).await;
    outbox.caught_up();
    assert!(outbox.end_if_read(SERIAL));
    assert_eq!(read(&reader).await.0, ["update 2", "answer"]);
}

#[tokio::test]
async fn who_cannot_have_updates_again_gets_answers_and_may_not_come_back_for_the_rest() {
    let (outbox, reader, mark) = owing().await;
    drop(reader);
    assert!(outbox.end_if_read(SERIAL), "nobody is there to wait for it");
    outbox.end(SERIAL);
    assert_eq!(outbox.read_after(mark).err(), Some(Conflict));
    let reader = outbox.read_after(None).unwrap();
    assert_eq!(read(&reader).await.0, ["answer"]);
}

#[tokio::test]
async fn parts_of_an_event_are_no_place_to_come_back_to() {
    let outbox = followed();
    let reader = outbox.read_after(None).unwrap();
    let more = Kind::Update {
        cursor: at(1),
        more: true,
    };
    let part = Frame {
        text: "part".to_owned(),
        kind: more,
    };
    fill(&outbox, [part, update(1)]).await;
    let marks: Vec<_> = reader
        .next()
        .await
        .unwrap()
        .iter()
        .map(|frame| frame.mark)
        .collect();
    assert_eq!(marks[0], None);
    assert_eq!(marks[1].map(|mark| mark.cursor), Some(at(1)));
}

#[tokio::test]
async fn a_reader_that_got_only_part_of_an_event_gets_all_of_it_again() {
    // So little room that the writer takes one part at a time.
    let outbox = Outbox::recording(1);
    outbox.begin(SERIAL, at(0));
    let first = outbox.read_after(None).unwrap();
    fill(&outbox, [update(1)]).await;
    let (_, mark) = read(&first).await;
    let part = || Frame {
        text: "part of 2".to_owned(),
        kind: Kind::Update {
            cursor: at(2),
            more: true,
        },
    };
    fill(&outbox, [part()]).await;
    assert_eq!(read(&first).await.0, ["part of 2"]);
    let mut rest = VecDeque::from([update(2)]);
    outbox.stream(&mut rest).await.unwrap();

    let second = outbox.read_after(mark).unwrap();
    assert_eq!(outbox.rewound().await, at(1));
    fill(&outbox, [part()]).await;
    assert_eq!(read(&second).await.0, ["part of 2"]);
    fill(&outbox, [update(2)]).await;
    outbox.caught_up();
    let (texts, mark) = read(&second).await;
    assert_eq!(texts, ["update 2"]);
    // Now it has all of it, and whoever comes back after it gets nothing again.
    outbox.read_after(mark).unwrap();
    fill(&outbox, [update(3)]).await;
    let third = outbox.read_after(mark).unwrap();
    assert_eq!(read(&third).await.0, ["update 3"]);
}

#[tokio::test]
async fn a_place_that_is_out_of_reach_is_a_conflict() {
    let outbox = followed();
    let reader = outbox.read_after(None).unwrap();
    fill(&outbox, [update(1)]).await;
    let mark = read(&reader).await.1.unwrap();
    let conflict = |mark| outbox.read_after(mark).err() == Some(Conflict);
    assert!(conflict(None), "a second reader");
    assert!(conflict(Some(Mark { serial: 8, ..mark })));
    assert!(conflict(Some(Mark { number: 1, ..mark })));
    assert!(conflict(Some(Mark {
        cursor: at(2),
        ..mark
    })));
    fill(&outbox, [update(2)]).await;
    read(&reader).await;
    // The session has ended here, so nobody can read it again.
    outbox.end(SERIAL);
    assert!(conflict(Some(mark)));
    drop(reader);
    assert!(outbox.read_after(None).is_ok());
}

#[tokio::test]
async fn only_so_much_is_kept() {
    let outbox = Outbox::recording(1_000);
    let reader = outbox.read_after(None).unwrap();
    let mut marks = Vec::new();
    for number in 0..300 {
        outbox.answer(format!("answer {number}"));
        marks.push(read(&reader).await.1);
    }
    assert_eq!(outbox.read_after(marks[42]).err(), Some(Conflict));
    let again = outbox.read_after(marks[43]).unwrap();
    let (texts, last) = read(&again).await;
    assert_eq!(texts.first().map(String::as_str), Some("answer 44"));
    assert_eq!((texts.len(), last), (256, marks[299]));
}
