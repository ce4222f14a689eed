//! Output of every size, and what is shown of it.

use std::path::Path;

use domain::limits::{
    COMMAND_OUTPUT_BYTES_MAX, COMMAND_OUTPUT_FILES_MAX, PROGRESS_BYTES_MAX, TOOL_RESULT_LINES_MAX,
};

use super::{Output, SCHEME};

fn printed(place: &Path, chunks: &[&[u8]]) -> Output {
    let mut output = Output::new(place.to_owned());
    chunks.iter().for_each(|chunk| output.push(chunk));
    output
}

fn kept(place: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(place).into_iter().flatten();
    entries
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn short_output_is_shown_whole_and_makes_no_file() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(
        printed(place.path(), &[b"one\n", b"two"]).shown(),
        "one\ntwo"
    );
    assert!(kept(place.path()).is_empty());
}

#[test]
fn long_output_keeps_its_beginning_and_its_end_and_the_rest_in_a_file() {
    let place = tempfile::tempdir().unwrap();
    let line = [b'x'; 99];
    let mut whole = Vec::new();
    for number in 0..10_000 {
        whole.extend_from_slice(format!("{number} ").as_bytes());
        whole.extend_from_slice(&line);
        whole.push(b'\n');
    }
    let chunks: Vec<&[u8]> = whole.chunks(7_777).collect();
    let shown = printed(place.path(), &chunks).shown();
    assert!(shown.starts_with("0 xxx"), "{}", &shown[..100]);
    assert!(shown.ends_with("x\n"));
    assert!(shown.contains("\n9999 x"));
    let note = format!("of {} bytes left out", whole.len());
    assert!(shown.contains(&note), "{}", shown.len());
    assert!(shown.contains(SCHEME));
    assert!(shown.len() < COMMAND_OUTPUT_BYTES_MAX + 1_000);
    assert_eq!(kept(place.path()), [whole]);
}

#[test]
fn many_short_lines_are_cut_by_their_number() {
    let place = tempfile::tempdir().unwrap();
    let whole: String = (1..=5_000).map(|number| format!("{number}\n")).collect();
    let shown = printed(place.path(), &[whole.as_bytes()]).shown();
    assert!(shown.contains("\n1000\n[3000 lines of "), "{shown}");
    assert!(shown.ends_with("\n5000\n"));
    assert_eq!(shown.lines().count(), TOOL_RESULT_LINES_MAX + 1);
    assert_eq!(kept(place.path()), [whole.into_bytes()]);
}

#[test]
fn f_35_a_line_without_end_is_cut() {
    let place = tempfile::tempdir().unwrap();
    let shown = printed(place.path(), &["ä".repeat(30_000).as_bytes(), b"\nnext"]).shown();
    assert!(shown.len() < 10_000);
    assert!(
        shown.ends_with(" bytes of this line left out]\nnext"),
        "{shown}"
    );
}

#[test]
fn who_watches_sees_the_newest_lines() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(
        printed(place.path(), &[b"one\n\x1b[1mtwo"]).newest(),
        "one\ntwo"
    );
    let many: String = (0..1_000_000).map(|number| format!("{number}\n")).collect();
    for bytes in [many.as_bytes(), &many.as_bytes()[..100_000]] {
        let newest = printed(place.path(), &[bytes]).newest();
        assert!(newest.len() <= PROGRESS_BYTES_MAX + "…\n".len());
        assert!(newest.starts_with("…\n"), "{newest}");
        let last = std::str::from_utf8(bytes).unwrap().lines().last().unwrap();
        assert_eq!(newest.lines().last(), Some(last));
    }
}

#[test]
fn a_session_keeps_a_bounded_number_of_outputs() {
    let place = tempfile::tempdir().unwrap();
    let much = vec![b'x'; COMMAND_OUTPUT_BYTES_MAX + 1];
    for _ in 0..COMMAND_OUTPUT_FILES_MAX + 3 {
        drop(printed(place.path(), &[&much]));
    }
    assert_eq!(kept(place.path()).len(), COMMAND_OUTPUT_FILES_MAX);
}

#[test]
fn output_that_cannot_be_kept_says_so() {
    let place = tempfile::tempdir().unwrap();
    let blocked = place.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let much = vec![b'x'; COMMAND_OUTPUT_BYTES_MAX + 1];
    let shown = printed(&blocked, &[&much]).shown();
    assert!(shown.contains("it was not kept"), "{}", shown.len());
}
