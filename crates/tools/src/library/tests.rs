//! Stories of a library: what is found, what is left out, and what a text becomes.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::limits::{LIBRARY_ENTRIES_MAX, LIBRARY_FILE_BYTES_MAX};

use super::{Library, Sources};
use crate::roots::Roots;
use crate::stamps::Stamps;

struct Place {
    directory: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        Self { directory, root }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn library(&self, levels: &[&str]) -> Library {
        let roots = Arc::new(Roots::new(self.root.clone(), Vec::new(), Vec::new()));
        let directories = levels.iter();
        let directories = directories.map(|level| (self.root.join(level), Arc::clone(&roots)));
        let sources = Sources {
            directories: directories.collect(),
        };
        Library::gather(&sources, &mut Stamps::default())
    }
}

fn names(entries: &[super::Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn skills_and_commands_of_both_folders_are_found_and_the_nearest_counts() {
    let place = Place::new();
    place.write(
        ".claude/skills/review/SKILL.md",
        "---\nname: review\ndescription: far\n---\nfar text",
    );
    place.write(
        "sub/.agents/skills/review/SKILL.md",
        "---\ndescription: near\n---\nnear text",
    );
    place.write(".agents/skills/empty/README.md", "no skill");
    place.write(
        ".claude/commands/fix.md",
        "---\ndescription: Fixes\nargument-hint: [issue]\n---\nFix $1",
    );
    place.write(".claude/commands/web/deep/page.md", "Make a page");
    let library = place.library(&["sub", ""]);
    assert_eq!(names(library.skills()), ["review"]);
    assert_eq!(library.skills()[0].description, "near");
    let loaded = library.skill("review").unwrap().load().unwrap();
    assert!(loaded.ends_with(":\n\nnear text"), "{loaded}");
    assert!(loaded.contains("sub/.agents/skills/review)"), "{loaded}");
    assert_eq!(names(library.commands()), ["fix", "web:deep:page"]);
    assert_eq!(library.commands()[0].hint.as_deref(), Some("[issue]"));
    assert_eq!(library.commands()[1].description, "Make a page");
    assert!(library.problems().is_empty(), "{:?}", library.problems());
    drop(place.directory);
}

#[test]
fn a_prompt_that_names_a_command_or_a_skill_is_expanded_and_others_are_not() {
    let place = Place::new();
    place.write(".claude/commands/fix.md", "Fix $ARGUMENTS");
    place.write(".claude/skills/review/SKILL.md", "Look closely");
    place.write(
        ".claude/commands/void.md",
        "---\ndescription: nothing\n---\n",
    );
    let library = place.library(&[""]);
    let text = |prompt: &str| {
        let expanded = library.expand_prompt(prompt)?;
        Some(expanded.map(|expanded| expanded.text))
    };
    let fixed = Some(Ok("/fix bug 7\n\nFix bug 7".to_owned()));
    assert_eq!(text("/fix bug 7"), fixed);
    let reviewed = text("/review").unwrap().unwrap();
    assert!(reviewed.ends_with("\n\nLook closely"), "{reviewed}");
    assert!(text("/void").unwrap().is_err());
    for other in ["fix", "/unknown", "/", "/ fix", "a /fix", "//fix", ""] {
        assert_eq!(text(other), None, "{other}");
    }
}

#[test]
fn a_hostile_project_is_bounded() {
    let place = Place::new();
    for number in 0..4_200 {
        std::fs::create_dir_all(place.root.join(format!(".claude/skills/s{number:05}"))).unwrap();
    }
    for number in 0..300 {
        place.write(&format!(".claude/skills/s{number:05}/SKILL.md"), "skill");
    }
    // A tree of links that looks as if it had a hundred million folders.
    std::fs::create_dir_all(place.root.join(".agents/commands")).unwrap();
    for number in 0..100 {
        symlink(
            ".",
            place.root.join(format!(".agents/commands/l{number:03}")),
        )
        .unwrap();
    }
    place.write(
        ".claude/commands/big.md",
        &"x".repeat(10 * LIBRARY_FILE_BYTES_MAX),
    );
    place.write(".claude/commands/compact.md", "not ours");
    place.write(".claude/commands/bad name.md", "cannot be typed");
    place.write(
        ".claude/commands/lines.md",
        "---\ndescription: |\n  one\n  \u{1b}[31mtwo\n---\nx",
    );
    symlink("/etc/passwd", place.root.join(".claude/commands/out.md")).unwrap();
    symlink("/etc", place.root.join(".claude/commands/etc")).unwrap();
    let begun = std::time::Instant::now();
    let library = place.library(&[""]);
    assert!(
        begun.elapsed().as_secs() < 10,
        "it took {:?}",
        begun.elapsed()
    );
    assert_eq!(library.skills().len(), LIBRARY_ENTRIES_MAX);
    assert_eq!(names(library.commands()), ["big", "lines"]);
    assert_eq!(library.command("lines").unwrap().description, "one [31mtwo");
    let big = library.command("big").unwrap().expand("").unwrap();
    assert!(big.len() < LIBRARY_FILE_BYTES_MAX + 100 && big.contains("[cut: "));
    assert!(library.problems().len() >= 5, "{:?}", library.problems());
}

#[test]
fn a_deep_tree_ends_somewhere() {
    let place = Place::new();
    let mut deep = PathBuf::from(".claude/commands");
    for _ in 0..10 {
        deep.push("d");
        place.write(&format!("{}/c.md", deep.display()), "deep");
    }
    assert_eq!(place.library(&[""]).commands().len(), 3);
}

#[test]
fn what_was_read_is_fresh_until_something_changes() {
    let place = Place::new();
    place.write(".claude/commands/fix.md", "Fix");
    let roots = Arc::new(Roots::new(place.root.clone(), Vec::new(), Vec::new()));
    let sources = Sources {
        directories: vec![(place.root.clone(), roots)],
    };
    let changes: [&dyn Fn(&Place); 3] = [
        &|place| place.write(".claude/commands/fix.md", "Fix it"),
        &|place| place.write(".agents/skills/new/SKILL.md", "new"),
        &|place| {
            std::fs::remove_file(place.root.join(Path::new(".claude/commands/fix.md"))).unwrap()
        },
    ];
    for change in changes {
        let mut stamps = Stamps::default();
        let _ = Library::gather(&sources, &mut stamps);
        assert!(stamps.are_fresh());
        change(&place);
        assert!(!stamps.are_fresh());
    }
}
