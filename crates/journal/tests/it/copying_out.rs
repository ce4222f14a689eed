//! Events as they are stored: whoever copies a session out loses nothing of it.

use domain::EventSeq;
use domain::limits::BLOB_BYTES_MIN;
use journal::{Entry, Raw, StoreError};
use serde_json::{Value, json};

use crate::world::{NOW, World, entries, message, notice, unknown};

/// All events as text, in pages of `page`.
fn texts(world: &World, page: usize) -> Result<Vec<String>, StoreError> {
    let mut reader = world.reader();
    let mut texts = Vec::new();
    let mut after = EventSeq(0);
    loop {
        let raws = reader.raw_after(after, page, usize::MAX)?;
        let Some(last) = raws.last().map(Raw::seq) else {
            return Ok(texts);
        };
        after = last;
        for raw in raws {
            let mut text = String::new();
            reader.raw_pieces(&raw, |piece| {
                text.push_str(piece);
                Ok::<_, StoreError>(())
            })?;
            texts.push(text);
        }
    }
}

fn values(world: &World) -> Vec<Value> {
    let texts = texts(world, 2).unwrap();
    assert!(texts.iter().all(|text| !text.contains('\n')));
    let value = |text: &String| serde_json::from_str(text).unwrap();
    texts.iter().map(value).collect()
}

#[test]
fn unknown_types_and_unknown_fields_of_known_types_are_there_and_the_journals_own_are_not() {
    let (world, mut writer) = World::with(Vec::new());
    // More than one in a batch, so that the second has `$batch`.
    writer
        .append(
            entries([notice("a"), unknown("later.event", json!({"x": 1}))]),
            NOW,
        )
        .unwrap();
    drop(writer);
    // A later version wrote a field that this one does not have.
    let log = world.log();
    assert!(log.contains("$batch"));
    let line = "{\"seq\":4,\"ts\":5.0,\"type\":\"notice\",\"kind\":\"k\",\"text\":\"t\",\
                \"mood\":{\"is\":[\"good\",1e3]}";
    let crc = crc(line);
    world.put(
        "events.jsonl",
        format!("{log}{line},\"crc\":\"{crc:08x}\"}}\n"),
    );
    let found = values(&world);
    assert_eq!(found.len(), 4);
    assert_eq!(found[3]["mood"], json!({"is": ["good", 1e3]}));
    assert_eq!(found[2]["type"], "later.event");
    for (value, line) in found.iter().zip(world.log().lines()) {
        let mut stored: Value = serde_json::from_str(line).unwrap();
        let fields = stored.as_object_mut().unwrap();
        fields.shift_remove("crc");
        fields.shift_remove("$batch");
        assert_eq!(*value, stored);
    }
}

#[test]
fn long_strings_are_in_place_wherever_they_stand_and_real_keys_are_themselves() {
    let long = "long \u{2028}\"żółw\"\\ ".repeat(BLOB_BYTES_MIN / 8);
    let (world, mut writer) = World::with(vec![notice(&long)]);
    let started = message("m", domain::event::MessageKind::Text);
    writer.start_message(started, NOW).unwrap();
    writer.push_text(&long).unwrap();
    writer
        .append(vec![Entry::EndMessage { partial: false }], NOW)
        .unwrap();
    let odd = json!({"$blob": "a".repeat(64), "deep": [{"$$blob": long}]});
    writer
        .append(entries([unknown("odd", odd.clone())]), NOW)
        .unwrap();
    let found = values(&world);
    assert!(found[1]["text"] == json!(long) && found[3]["text"] == json!(long));
    assert_eq!(found[4]["$blob"], odd["$blob"]);
    assert!(found[4]["deep"] == odd["deep"]);

    // Of an event whose text is damaged there is nothing, not half of it.
    let blobs = std::fs::read_dir(world.path("blobs")).unwrap();
    for blob in blobs.map(Result::unwrap) {
        std::fs::write(blob.path(), long.replace("long", "LONG")).unwrap();
    }
    let mut reader = world.reader();
    let raws = reader.raw_after(EventSeq(1), 1, usize::MAX).unwrap();
    let broken = reader.raw_pieces(&raws[0], |_| -> Result<(), StoreError> {
        panic!("a piece")
    });
    assert!(matches!(broken, Err(StoreError::Damaged { at }) if at == EventSeq(2)));
}

#[test]
fn f_17_lines_of_other_tools_are_valid_json_with_a_number() {
    let log =
        "{\"type\":\"a\",\"x\":\"\\ud800\"}\n{}\n\n{ \"seq\": 3, \"type\": \"b\", \"y\": 1 }\n";
    let found = values(&World::with_log(log));
    assert_eq!(found[0], json!({"seq": 1, "type": "a", "x": "\u{fffd}"}));
    assert_eq!(found[1], json!({"seq": 2}));
    assert_eq!(found[2], json!({"seq": 3, "type": "b", "y": 1}));
}

#[test]
fn damage_is_told_after_all_that_comes_before_it() {
    let (world, writer) = World::with(vec![notice("a"), notice("b"), notice("c")]);
    drop(writer);
    let log = world.log().replacen("\"b\"", "\"B\"", 1);
    world.put("events.jsonl", log);
    let mut reader = world.reader();
    let before = reader.raw_after(EventSeq(0), 10, usize::MAX).unwrap();
    assert_eq!(before.last().map(Raw::seq), Some(EventSeq(2)));
    let damaged = reader.raw_after(EventSeq(2), 10, usize::MAX);
    assert!(matches!(damaged, Err(StoreError::Damaged { at }) if at == EventSeq(3)));
    assert_eq!(reader.raw_after(EventSeq(u64::MAX), 1, 1).unwrap(), []);
}

/// CRC-32C, bit by bit.
fn crc(line: &str) -> u32 {
    !line.bytes().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| match crc & 1 {
            1 => (crc >> 1) ^ 0x82F6_3B78,
            _ => crc >> 1,
        })
    })
}
