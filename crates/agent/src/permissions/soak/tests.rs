//! A few thousand commands for every change; `cargo xtask soak bash` makes as many as one likes.

use super::{Choices, Jail, Outcome, check, check_text, run};

/// Commands that each thread makes; together about as many as fit in ten seconds.
const COMMANDS: u64 = 1_500;

/// One thread for each; seeds that no change to the grammar should need to touch.
const SEEDS: [u64; 2] = [1, 2];

#[test]
fn known_commands_run_in_bash_exactly_as_the_reader_says() {
    let place = tempfile::tempdir().unwrap();
    // All are set up before anything runs: a program that is still written to cannot be started.
    let jails = SEEDS.map(|seed| {
        let top = place.path().join(seed.to_string());
        std::fs::create_dir(&top).unwrap();
        (seed, Jail::new(&top).unwrap())
    });
    let tallies = std::thread::scope(|scope| {
        let threads = jails.map(|(seed, jail)| scope.spawn(move || run(seed, COMMANDS, &jail)));
        threads.map(|thread| thread.join().unwrap().unwrap())
    });
    for tally in tallies {
        println!("{tally:?}");
        assert_eq!(tally.generated, COMMANDS);
        assert!(tally.run * 4 > COMMANDS, "too few are known: {tally:?}");
        assert!(tally.programs > tally.run, "they run too little: {tally:?}");
    }
}

#[test]
fn every_byte_string_makes_a_command_that_agrees() {
    let place = tempfile::tempdir().unwrap();
    let jail = Jail::new(place.path()).unwrap();
    for bytes in [&[][..], &[0; 100], &[255; 100], b"any text will do"] {
        check(&mut Choices::from_bytes(bytes), &jail).unwrap();
    }
}

/// Commands that were read otherwise than bash reads them, or that seemed to be.
const ONCE_WRONG: &[&str] = &[
    "no - stash@{0}\\{a,b} \\$x",
    "ls {a}b,-R}",
    "x a &>/dev/null&>/dev/null false b",
    // Nothing reads what `time` prints; that must not end the shell before `no`.
    "{ ls; time -p cat a; no b\n} |& find . </dev/null",
];

#[test]
fn commands_that_were_once_read_wrong_agree_now() {
    let place = tempfile::tempdir().unwrap();
    let jail = Jail::new(place.path()).unwrap();
    for text in ONCE_WRONG {
        for _ in 0..20 {
            check_text(text, &jail).unwrap();
        }
    }
}

#[test]
fn jail_sees_a_command_that_does_more_than_it_was_said_to() {
    let place = tempfile::tempdir().unwrap();
    let jail = Jail::new(place.path()).unwrap();
    let agreed = check_text("ls -l 'a b' && git status", &jail).unwrap();
    assert_eq!(agreed, Outcome::Agreed(2));
    let ran = jail.run("ls $x; echo > P").unwrap();
    let called = |name: &str, words: &[&str]| {
        let words = words.iter().map(ToString::to_string);
        [jail.program(name)]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>()
    };
    assert_eq!(ran.programs, [called("ls", &["touch", "P"])]);
    assert!(ran.change.unwrap().contains("made \"work/P"));
}
