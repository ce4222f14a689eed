//! What is printed, for a person and for a program.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use client::ToolCall;

use super::{Audience, Reader, Screen, Sinks};
use crate::ask::tally::Ending;
use crate::render::Palette;

/// A sink whose content the test can read. Both streams of a terminal share one.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn read(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// What stands on stdout and stderr after `story`; a terminal shows both in one.
fn printed(out: Reader, err: Reader, story: impl Fn(&mut Screen) -> io::Result<()>) -> [String; 2] {
    let papers = [Paper::default(), Paper::default()];
    let shared = usize::from(out != Reader::Person);
    let sinks = Sinks {
        out: Box::new(papers[0].clone()),
        err: Box::new(papers[shared].clone()),
        audience: Audience { out, err },
    };
    let mut screen = Screen::new(sinks, Palette::default(), 1_000);
    story(&mut screen).unwrap();
    screen.finish().unwrap();
    papers.map(|paper| paper.read())
}

fn call(id: &str, title: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        title: Some(title.to_owned()),
        ..ToolCall::default()
    }
}

fn whole_turn(screen: &mut Screen) -> io::Result<()> {
    screen.note("offline assistant")?;
    screen.thought("hm")?;
    screen.text(None, "I will ")?;
    screen.text(None, "look.")?;
    screen.tool_started(&call("1", "read a.txt"))?;
    screen.tool_ended(&call("1", "read a.txt"), Ending::Done)?;
    screen.text(None, "It says hi")
}

#[test]
fn a_program_gets_nothing_but_the_text_and_a_last_line_break() {
    let [out, err] = printed(Reader::Program, Reader::Program, whole_turn);
    assert_eq!(out, "I will look.It says hi\n");
    assert_eq!(err, "");
    let [out, _] = printed(Reader::Program, Reader::Program, |screen| {
        screen.text(None, "x\n")
    });
    assert_eq!(out, "x\n");
    let [out, _] = printed(Reader::Program, Reader::Program, |_| Ok(()));
    assert_eq!(out, "");
}

#[test]
fn a_person_also_gets_a_line_for_each_thing() {
    let [shown, _] = printed(Reader::Person, Reader::Person, whole_turn);
    assert_eq!(
        shown,
        "offline assistant\nhm\nI will look.\n● read a.txt … done\nIt says hi\n"
    );
}

#[test]
fn calls_that_overlap_get_a_line_each_when_they_end() {
    let [shown, _] = printed(Reader::Person, Reader::Person, |screen| {
        screen.tool_started(&call("1", "read a"))?;
        screen.tool_started(&call("2", "read b"))?;
        screen.tool_ended(&call("2", "read b"), Ending::Failed)?;
        screen.tool_ended(&call("1", "read a"), Ending::Done)
    });
    assert_eq!(shown, "● read a …\n● read b … failed\n● read a … done\n");
}

#[test]
fn a_piped_answer_is_whole_while_a_person_watches_the_rest() {
    let [out, err] = printed(Reader::Program, Reader::Person, whole_turn);
    assert_eq!(out, "I will look.It says hi\n");
    assert_eq!(err, "offline assistant\nhm\n● read a.txt … done\n");
}

#[test]
fn a_terminal_is_not_sent_what_it_would_act_on() {
    let [shown, _] = printed(Reader::Person, Reader::Person, |screen| {
        screen.text(None, "a\x1b]0;title\x07b")?;
        screen.tool_started(&call("1", "write\n\x1b[1A"))
    });
    assert_eq!(shown, "a]0;titleb\n● write <U+001B>[1A …\n");
    let [out, _] = printed(Reader::Program, Reader::Program, |screen| {
        screen.text(None, "a\x1bb")
    });
    assert_eq!(out, "a\x1bb\n");
}

#[test]
fn collected_text_has_a_limit() {
    let collect = |text: &str| {
        let sinks = Sinks {
            out: Box::new(io::sink()),
            err: Box::new(io::sink()),
            audience: Audience {
                out: Reader::Collected,
                err: Reader::Program,
            },
        };
        let mut screen = Screen::new(sinks, Palette::default(), 3);
        screen.text(None, text).unwrap();
        screen.text(None, "!").unwrap();
        screen.collected().ok()
    };
    assert_eq!(collect("ab").as_deref(), Some("ab!"));
    assert_eq!(collect("abc"), None);
}
