//! The line format, byte by byte.

use domain::clock::Timestamp;
use domain::event::{SessionClosed, Unknown};
use domain::{Event, EventSeq};
use serde_json::json;

use super::{Unsound, check, decode, encode, replace_lone_surrogates, written_with};
use crate::blobs::BlobSource;
use crate::{StoreError, Stored};

struct NoBlobs;

impl BlobSource for NoBlobs {
    fn read(&self, _sha256: &str) -> Result<String, StoreError> {
        Err(StoreError::DamagedText)
    }
}

fn unknown(fields: serde_json::Value) -> Event {
    let serde_json::Value::Object(fields) = fields else {
        panic!("an object")
    };
    Event::Unknown(Unknown {
        kind: "x.y".into(),
        fields,
    })
}

fn line(event: Event) -> String {
    let stored = Stored {
        seq: EventSeq(7),
        ts: Timestamp(1_700_000_000.25),
        event,
    };
    let mut out = Vec::new();
    encode(&stored, 0, &mut out, &mut Vec::new()).unwrap();
    String::from_utf8(out).unwrap()
}

fn read(line: &str) -> Event {
    let record = check(line.trim_end_matches('\n').as_bytes(), EventSeq(7), false).unwrap();
    decode(&record, &NoBlobs).unwrap().event
}

#[test]
fn a_line_has_its_keys_in_order_and_its_checksum_last() {
    assert_eq!(
        line(SessionClosed {}.into()),
        "{\"seq\":7,\"ts\":1700000000.25,\"type\":\"session.closed\",\"crc\":\"2cc0f308\"}\n"
    );
    assert!(
        line(unknown(json!({"a": 1})))
            .starts_with("{\"seq\":7,\"ts\":1700000000.25,\"type\":\"x.y\",\"a\":1,\"crc\":\"")
    );
}

#[test]
fn an_unknown_event_cannot_speak_for_the_journal() {
    let written = line(unknown(json!({"seq": 1, "a": 2, "crc": "no"})));
    assert!(written.contains("\"type\":\"x.y\",\"a\":2,\"crc\":"));
    assert_eq!(read(&written), unknown(json!({"a": 2})));
}

#[test]
fn real_keys_named_like_a_blob_are_marked_and_come_back() {
    for fields in [
        json!({"in": {"$blob": "x"}}),
        json!({"in": {"$$blob": 1, "$blob": [{"$$$blob": null}]}}),
        json!({"$blob": "0".repeat(64)}),
        json!({"in": ["$blob", "\"$blob\":"], "blob": 1, "x$blob": 2}),
    ] {
        let written = line(unknown(fields.clone()));
        assert!(!written.contains("{\"$blob\""), "{written}");
        assert_eq!(read(&written), unknown(fields));
    }
}

#[test]
fn c_06_every_flipped_bit_of_a_line_is_noticed() {
    let whole = line(unknown(json!({"text": "hello \u{2028} world"})));
    let whole = whole.trim_end().as_bytes();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.to_vec();
            flipped[at] ^= 1 << bit;
            assert_eq!(
                check(&flipped, EventSeq(7), false).err(),
                Some(Unsound::Broken),
                "byte {at} bit {bit}"
            );
        }
    }
}

#[test]
fn a_whole_line_in_the_wrong_place_is_not_a_torn_one() {
    let whole = line(SessionClosed {}.into());
    let misplaced = check(whole.trim_end().as_bytes(), EventSeq(8), true);
    assert_eq!(misplaced.err(), Some(Unsound::Misplaced));
}

#[test]
fn a_line_without_checksum_is_accepted_only_before_the_first_with_one() {
    let old = b"{\"type\":\"assistant.delta\", \"text\":\"x\",\"seq\":7,\"ts\":5}";
    assert!(check(old, EventSeq(7), false).is_ok());
    assert_eq!(check(old, EventSeq(7), true).err(), Some(Unsound::Broken));
}

#[test]
fn c_06_escaped_lone_surrogates_become_the_replacement_character() {
    assert_eq!(
        replace_lone_surrogates(r#"\ud800 \ud83d\ude00 \udc00\\ud800 \n é\ud800"#),
        r#"\ufffd \ud83d\ude00 \ufffd\\ud800 \n é\ufffd"#
    );
    let old = r#"{"seq":7,"ts":1,"type":"notice","kind":"k\udfff","text":"a\ud83d"}"#;
    let Event::Notice(notice) = read(old) else {
        panic!("a notice")
    };
    assert_eq!((&*notice.kind, &*notice.text), ("k\u{fffd}", "a\u{fffd}"));
}

#[test]
fn what_could_not_be_read_back_is_not_written() {
    let nested = |levels: usize| {
        let mut value = json!(1);
        for _ in 0..levels {
            value = json!([value]);
        }
        unknown(json!({ "v": value }))
    };
    let deepest = nested(126);
    assert_eq!(read(&line(deepest.clone())), deepest);
    let stored = Stored {
        seq: EventSeq(1),
        ts: Timestamp(0.0),
        event: nested(127),
    };
    let mut out = b"before".to_vec();
    let refused = encode(&stored, 0, &mut out, &mut Vec::new());
    assert!(matches!(refused, Err(StoreError::TooLarge)));
    assert_eq!(out, b"before");
}

#[test]
fn a_record_says_how_many_before_it_may_be_lost_with_it() {
    let stored = Stored {
        seq: EventSeq(7),
        ts: Timestamp(1.0),
        event: unknown(json!({"$batch": 5, "text": ",\"$batch\":9"})),
    };
    for behind in [0, 3, 120] {
        let mut out = Vec::new();
        encode(&stored, behind, &mut out, &mut Vec::new()).unwrap();
        let line = out.strip_suffix(b"\n").unwrap();
        assert_eq!(written_with(line), Some((EventSeq(7), behind)));
        let record = check(line, EventSeq(7), true).unwrap();
        assert_eq!(record.behind, behind);
        // It is the journal's word, not the event's.
        let event = decode(&record, &NoBlobs).unwrap().event;
        assert_eq!(event, unknown(json!({"text": ",\"$batch\":9"})));
        assert_eq!(written_with(&line[1..]), None);
    }
}
