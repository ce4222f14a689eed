//! Hunks as they should be, and their limits.

use domain::limits::{DIFF_LINES_MAX, DIFF_TIME_MAX};
use proptest::prelude::{ProptestConfig, Strategy, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{Hunk, LineChange, TooManyLines, hunks};

fn marked(hunk: &Hunk<'_>) -> Vec<String> {
    let mark = |change: &LineChange| match change {
        LineChange::Kept => ' ',
        LineChange::Removed => '-',
        LineChange::Added => '+',
    };
    let lines = hunk.lines.iter();
    lines
        .map(|(change, line)| format!("{}{line}", mark(change)))
        .collect()
}

#[test]
fn hunks_say_where_they_begin() {
    let old: String = (1..=20).map(|number| format!("{number}\n")).collect();
    let new = old.replace("10\n", "ten\nmore\n").replace("20\n", "20");
    let found = hunks(&old, &new, 1).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].old_start, found[0].new_start), (8, 8));
    assert_eq!(
        marked(&found[0]),
        [" 9\n", "-10\n", "+ten\n", "+more\n", " 11\n"]
    );
    assert_eq!((found[1].old_start, found[1].new_start), (18, 19));
    assert_eq!(marked(&found[1]), [" 19\n", "-20\n", "+20"]);
    assert_eq!(hunks(&old, &old, 3), Ok(Vec::new()));
    assert_eq!(hunks("", "", 3), Ok(Vec::new()));
}

#[test]
fn long_equal_parts_are_free_and_long_differences_refused() {
    let same = "\n".repeat(2 * DIFF_LINES_MAX);
    let (old, new) = (format!("{same}a\n{same}"), format!("{same}b\n{same}"));
    let found = hunks(&old, &new, 3).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].old_start, 2 * DIFF_LINES_MAX - 3);
    let too_many = TooManyLines {
        old: DIFF_LINES_MAX,
        new: 1,
    };
    assert_eq!(
        hunks(&"a\n".repeat(DIFF_LINES_MAX), "b\n", 3),
        Err(too_many)
    );
}

#[test]
fn lines_in_another_order_take_bounded_time() {
    // Of a few words in two orders: without a deadline, the worst that a comparison can meet.
    let shuffled = |factor: u64| -> String {
        let words = (0..DIFF_LINES_MAX as u64 / 2 - 8).scan(1_u64, |state, _| {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(factor);
            Some(format!("{}\n", (*state >> 33) % 50))
        });
        words.collect()
    };
    let (old, new) = (shuffled(1), shuffled(3));
    let begun = std::time::Instant::now();
    let found = hunks(&old, &new, 3).unwrap();
    let took = begun.elapsed();
    assert!(!found.is_empty());
    // Splitting and collecting is not timed. Without the deadline it takes half a minute.
    assert!(took < DIFF_TIME_MAX * 40, "{took:?}");
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a\n", "b\n", "a\r\n", "\n", "c", "d\n", "é\n"]),
        0..40,
    )
    .prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn applying_the_hunks_gives_the_new_text(old in text(), new in text(), context in 0_usize..5) {
        let found = hunks(&old, &new, context).unwrap();
        prop_assert_eq!(found.is_empty(), old == new);
        let lines: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut applied, mut at) = (String::new(), 0);
        for hunk in &found {
            prop_assert!(hunk.old_start >= at);
            applied.extend(lines[at..hunk.old_start].iter().copied());
            prop_assert_eq!(applied.split_inclusive('\n').count(), hunk.new_start);
            at = hunk.old_start + hunk.count(LineChange::Kept) + hunk.count(LineChange::Removed);
            prop_assert_eq!(lines[hunk.old_start..at].concat(), hunk.old_text());
            applied.push_str(&hunk.new_text());
        }
        applied.extend(lines[at..].iter().copied());
        prop_assert_eq!(applied, new);
    }
}
