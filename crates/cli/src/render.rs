//! How the program speaks to people: colour when it is wanted, errors as a sentence and a hint.

pub(crate) mod advice;
mod line_endings;
mod output;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use client::{ClientError, TransportError};
use wire::rpc::code;

use crate::safe_text::TextFilter;
pub(crate) use crate::safe_text::{exact_line, one_line, printable};
use crate::settings::Environment;

pub(crate) use advice::advise;
pub(crate) use line_endings::LineEndings;
pub(crate) use output::{is_broken_pipe, stdout, unwritten};

/// Whether a stream takes colour, and the words in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Palette {
    is_coloured: bool,
    is_terminal: bool,
}

impl Palette {
    /// The palette of stdout.
    pub(crate) fn stdout(environment: &Environment) -> Self {
        Self::of(environment, io::stdout().is_terminal())
    }

    /// The palette of stderr.
    pub(crate) fn stderr(environment: &Environment) -> Self {
        Self::of(environment, io::stderr().is_terminal())
    }

    /// Whether colour is wanted at all.
    pub(crate) fn is_coloured(self) -> bool {
        self.is_coloured
    }

    /// What makes the text of others safe for the stream: all of it on a terminal, and as exact as people
    /// can read it in a pipe.
    pub(crate) fn filter(self) -> TextFilter {
        match self.is_terminal {
            true => TextFilter::default(),
            false => TextFilter::for_files(),
        }
    }

    /// Less prominent than the rest.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// More prominent than the rest.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Good.
    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Bad.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn of(environment: &Environment, is_terminal: bool) -> Self {
        let is_no = environment.value("NO_COLOR").is_some()
            || environment.value("CLICOLOR") == Some("0")
            || environment.value("TERM") == Some("dumb");
        Self {
            is_coloured: is_terminal && !is_no,
            is_terminal,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.is_coloured {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Success,
    /// It did not work.
    Failure,
    /// It was asked for in a wrong way.
    Usage,
    /// A policy did not allow it.
    Refused,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(u8::from(exit))
    }
}

/// An error that says what to do about it and how the program ends.
#[derive(Debug)]
pub(crate) struct Failure {
    sentence: String,
    hint: Option<String>,
    exit: Exit,
}

impl Failure {
    /// It did not work.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            hint: None,
            exit: Exit::Failure,
        }
    }

    /// It was asked for in a wrong way.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            ..Self::new(sentence)
        }
    }

    /// A policy did not allow it.
    pub(crate) fn refused(sentence: impl Into<String>) -> Self {
        Self {
            exit: Exit::Refused,
            ..Self::new(sentence)
        }
    }

    /// Somebody pressed Ctrl-C.
    pub(crate) fn interrupted(sentence: impl Into<String>) -> Self {
        Self {
            exit: Exit::Interrupted,
            ..Self::new(sentence)
        }
    }

    /// What the person can do.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Failure {}

/// Prints an error to stderr and says how the program ends.
pub(crate) fn report(error: &anyhow::Error, environment: &Environment) -> ExitCode {
    // The reader of our output has seen enough, as `| head` has; other programs die silently, too.
    if is_broken_pipe(error) {
        return Exit::Failure.into();
    }
    let palette = Palette::stderr(environment);
    // If stderr is closed there is nobody to tell.
    let _ = io::stderr().write_all(error_text(error, palette).as_bytes());
    exit_of(error).into()
}

/// One `error:` line, and a `hint:` line if there is something to do.
fn error_text(error: &anyhow::Error, palette: Palette) -> String {
    let mut text = format!(
        "{} {}\n",
        palette.red("error:"),
        printable(&advise(&format!("{error:#}")))
    );
    if let Some(hint) = hint_of(error) {
        let hint = printable(&advise(&hint));
        text += &format!("{} {hint}\n", palette.bold("hint:"));
    }
    text
}

/// How the program ends after `error`.
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    let failure = error.downcast_ref::<Failure>();
    failure.map_or(Exit::Failure, |failure| failure.exit)
}

pub(crate) fn hint_of(error: &anyhow::Error) -> Option<String> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.hint.clone();
    }
    let transport = error
        .chain()
        .find_map(<dyn std::error::Error>::downcast_ref);
    if let Some(error) = transport {
        return transport_hint(error).map(str::to_owned);
    }
    let client = error
        .chain()
        .find_map(<dyn std::error::Error>::downcast_ref);
    client.and_then(client_hint).map(str::to_owned)
}

fn transport_hint(error: &TransportError) -> Option<&'static str> {
    match error {
        TransportError::BadUrl { .. } => Some("an address looks like http://127.0.0.1:4600"),
        TransportError::Unreachable { .. } | TransportError::ConnectTimeout { .. } => {
            Some("is the server running? `fastness serve` starts one, `fastness doctor` looks")
        }
        TransportError::Unauthorized { .. } => {
            Some("set FASTNESS_TOKEN, or name the server's token file with --token-file")
        }
        TransportError::Untrusted { .. } => {
            Some("if the certificate is your own, name it with --ca-file or FASTNESS_CA_FILE")
        }
        TransportError::Refused { .. } => Some("is this the address of a Fastness server?"),
        TransportError::ClosedByServer { .. }
        | TransportError::Silent { .. }
        | TransportError::Stalled { .. }
        | TransportError::Broken { .. } => {
            Some("the session is kept; continue it with --session when the server is back")
        }
        TransportError::GaveUp { cause, .. } => transport_hint(cause),
        TransportError::ClosedHere => None,
    }
}

fn client_hint(error: &ClientError) -> Option<&'static str> {
    match error.code()? {
        code::SESSION_NOT_FOUND => Some("there is no such session for you on that server"),
        code::BUSY => Some("wait until its turn has ended, then ask again"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use client::{ClientError, TransportError};

    use super::{Exit, Failure, Palette, error_text, exit_of, one_line};
    use crate::settings::Environment;

    #[test]
    fn colour_needs_a_terminal_and_nobody_who_minds() {
        let paint = |pairs: &[(&str, &str)], is_terminal| {
            Palette::of(&Environment::of(pairs), is_terminal).dim("x")
        };
        assert_eq!(paint(&[], true), "\x1b[2mx\x1b[0m");
        assert_eq!(paint(&[("NO_COLOR", "")], true), "\x1b[2mx\x1b[0m");
        assert_eq!(paint(&[], false), "x");
        for mind in [("NO_COLOR", "1"), ("CLICOLOR", "0"), ("TERM", "dumb")] {
            assert_eq!(paint(&[mind], true), "x", "{mind:?}");
        }
    }

    #[test]
    fn an_error_is_a_sentence_and_a_hint() {
        let url = "ws://h/acp".to_owned();
        let error = ClientError::Connect(TransportError::Unauthorized { url });
        assert_eq!(
            error_text(&error.into(), Palette::default()),
            "error: could not connect to the server: ws://h/acp did not accept the token\n\
             hint: set FASTNESS_TOKEN, or name the server's token file with --token-file\n"
        );
        let failure = Failure::new("no \x1b[2Jluck").into();
        assert_eq!(
            error_text(&failure, Palette::default()),
            "error: no [2Jluck\n"
        );
    }

    #[test]
    fn exit_codes_are_those_of_the_contract() {
        let codes = [
            Exit::Success,
            Exit::Failure,
            Exit::Usage,
            Exit::Refused,
            Exit::Interrupted,
        ];
        assert_eq!(codes.map(u8::from), [0, 1, 2, 3, 130]);
        assert_eq!(exit_of(&anyhow::anyhow!("x")), Exit::Failure);
        assert_eq!(exit_of(&Failure::usage("x").into()), Exit::Usage);
        let wrapped = anyhow::Error::from(Failure::usage("x")).context("while starting");
        assert_eq!(exit_of(&wrapped), Exit::Usage);
    }

    #[test]
    fn a_title_cannot_move_the_cursor_or_break_the_line() {
        assert_eq!(one_line("write\r\n\x1b[1A a\tb"), "write [1A a b");
    }
}
