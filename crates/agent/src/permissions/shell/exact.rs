//! The strict reader for rules that allow: every word of a command is known, or the command is not.
//!
//! [`read`] accepts a small language that all POSIX shells and bash read alike: simple commands,
//! joined by `;`, `&`, `&&`, `||`, `|` and line ends, in `( … )` and `{ …; }`. A word is text and
//! quotes. An expansion, a redirection to a file or a word of the shell makes the whole text
//! [`Unknown`]. What is accepted here is compared with what a real bash runs (`permissions::soak`).

use domain::limits::{COMMAND_DEPTH_MAX, COMMAND_JUDGED_BYTES_MAX, COMMAND_PARTS_MAX};

/// Why a text is not known exactly, as the rest of a sentence about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Unknown(pub(in super::super) &'static str);

type Known<T> = Result<T, Unknown>;

/// Pipelines, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct List(pub(in super::super) Vec<(Pipeline, Joint)>);

/// What follows a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Joint {
    /// `;`, a line end, or the end.
    Then,
    /// `&`
    Background,
    /// `&&`
    And,
    /// `||`
    Or,
}

/// Commands whose output is the next one's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Pipeline {
    /// Whether `!` turns its exit status around.
    pub(in super::super) is_negated: bool,
    pub(in super::super) steps: Vec<Step>,
}

/// One command of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    Simple(SimpleCommand),
    /// `( … )`
    Subshell(List),
    /// `{ …; }`
    Group(List),
}

/// A program or builtin with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct SimpleCommand {
    /// Variables that are set for it, as `NAME=value`.
    pub(in super::super) set: Vec<String>,
    /// Its name and its arguments; at least the name.
    pub(in super::super) words: Vec<ExactWord>,
}

/// A word without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct ExactWord {
    pub(in super::super) text: String,
    /// Where the first `*`, `?` or `[` stands that the shell replaces by names of files. Each
    /// name begins with the text before it, and so none is an option.
    pub(in super::super) glob: Option<usize>,
    is_quoted: bool,
    /// Whether it has a `{` without quotes.
    has_brace: bool,
    /// How much of the beginning is written without quotes.
    bare: usize,
}

/// Words that the shell does not take for the name of a command.
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

const NOT_CLOSED: Unknown = Unknown("a quote or a bracket in it is not closed");
const EXPANDED: Unknown = Unknown("the shell replaces something in it");
const FILES: Unknown = Unknown("it reads or writes a file through a redirection");
const SYNTAX: Unknown = Unknown("it is more than plain commands");
const TOO_MUCH: Unknown = Unknown("it is too long or too deep");

impl List {
    /// Every simple command in it, in the order in which they are written.
    pub(in super::super) fn commands(&self) -> Vec<&SimpleCommand> {
        let mut commands = Vec::new();
        self.collect(&mut commands);
        commands
    }

    fn collect<'a>(&'a self, into: &mut Vec<&'a SimpleCommand>) {
        for step in self.0.iter().flat_map(|(pipeline, _)| &pipeline.steps) {
            match step {
                Step::Simple(command) => into.push(command),
                Step::Subshell(list) | Step::Group(list) => list.collect(into),
            }
        }
    }
}

/// Which shell reads a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Dialect {
    Bash,
    /// Any that knows POSIX: neither `|&` nor `&>`, and `time` is a program.
    Posix,
}

/// Reads `text`.
///
/// # Errors
/// If it is anything but commands whose words are all known.
pub(in super::super) fn read(text: &str, dialect: Dialect) -> Known<List> {
    if text.len() > COMMAND_JUDGED_BYTES_MAX {
        return Err(TOO_MUCH);
    }
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.chars().any(is_control) {
        return Err(Unknown("it has control characters"));
    }
    let mut reader = Reader {
        text,
        dialect,
        at: 0,
        depth: 0,
        commands: 0,
    };
    let list = reader.list(Closer::End)?;
    match reader.at == text.len() && !list.0.is_empty() {
        true => Ok(list),
        false => Err(SYNTAX),
    }
}

/// What ends a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closer {
    End,
    Bracket,
    Brace,
}

struct Reader<'a> {
    text: &'a str,
    dialect: Dialect,
    at: usize,
    depth: usize,
    commands: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn starts(&self, with: &str) -> bool {
        self.rest().starts_with(with)
    }

    fn take(&mut self, what: &str) -> bool {
        let is_there = self.starts(what);
        if is_there {
            self.at += what.len();
        }
        is_there
    }

    /// Whether `what` comes next as a word of its own, without quotes.
    fn is_bare_word(&self, what: &str) -> bool {
        let rest = self.rest().strip_prefix(what);
        rest.is_some_and(|rest| rest.chars().next().is_none_or(ends_word))
    }

    /// Passes over blanks and a comment. A line may go on in the next one, but only between words.
    fn blanks(&mut self) {
        let start = self.at;
        loop {
            let is_blank = matches!(self.peek(), Some(' ' | '\t'));
            let is_after_blank = self.at > start;
            if is_blank {
                self.at += 1;
            } else if !(is_after_blank && self.take("\\\n")) {
                break;
            }
        }
        if self.starts("#") {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn lines(&mut self) {
        self.blanks();
        while self.take("\n") {
            self.blanks();
        }
    }

    fn is_closed(&self, closer: Closer) -> bool {
        match closer {
            Closer::End => self.peek().is_none(),
            Closer::Bracket => self.starts(")"),
            Closer::Brace => self.is_bare_word("}"),
        }
    }

    fn list(&mut self, closer: Closer) -> Known<List> {
        if self.depth >= COMMAND_DEPTH_MAX {
            return Err(TOO_MUCH);
        }
        self.depth += 1;
        let mut list = List::default();
        loop {
            self.lines();
            let is_due = matches!(list.0.last(), Some((_, Joint::And | Joint::Or)));
            if !is_due && self.is_closed(closer) {
                break;
            }
            let pipeline = self.pipeline()?;
            self.blanks();
            let joint = self.joint(closer)?;
            list.0.push((pipeline, joint));
        }
        self.depth -= 1;
        Ok(list)
    }

    fn joint(&mut self, closer: Closer) -> Known<Joint> {
        let is_end = self.peek().is_none() || closer == Closer::Bracket && self.starts(")");
        match self.rest() {
            _ if is_end => Ok(Joint::Then),
            rest if rest.starts_with(";;") || rest.starts_with(";&") => Err(SYNTAX),
            // To bash a second `&>` is one more redirection, to others it ends the command.
            rest if rest.starts_with("&>") => Err(SYNTAX),
            _ if self.take("&&") => Ok(Joint::And),
            _ if self.take("||") => Ok(Joint::Or),
            _ if self.take("&") => Ok(Joint::Background),
            _ if self.take(";") || self.take("\n") => Ok(Joint::Then),
            _ => Err(SYNTAX),
        }
    }

    fn pipeline(&mut self) -> Known<Pipeline> {
        let is_negated = self.starts("! ") && self.take("!");
        self.blanks();
        if !is_negated && self.dialect == Dialect::Bash && self.is_bare_word("time") {
            self.time()?;
        }
        let mut steps = vec![self.step()?];
        self.blanks();
        while self.starts("|") && !self.starts("||") {
            if self.take("|&") && self.dialect == Dialect::Posix {
                return Err(SYNTAX);
            }
            self.take("|");
            self.lines();
            steps.push(self.step()?);
            self.blanks();
        }
        Ok(Pipeline { is_negated, steps })
    }

    /// `time` runs the pipeline after it and says how long it took.
    fn time(&mut self) -> Known<()> {
        self.at += "time".len();
        self.blanks();
        if self.is_bare_word("-p") {
            self.at += "-p".len();
            self.blanks();
        }
        let is_name = self.peek().is_some_and(|c| c.is_ascii_alphanumeric());
        is_name.then_some(()).ok_or(SYNTAX)
    }

    fn step(&mut self) -> Known<Step> {
        if self.starts("((") {
            return Err(SYNTAX);
        }
        let step = if self.take("(") {
            let list = self.list(Closer::Bracket)?;
            self.take(")");
            Step::Subshell(list)
        } else if self.is_bare_word("{") {
            self.at += 1;
            // `{(` is fine for some shells only.
            if !matches!(self.peek(), Some(' ' | '\t' | '\n')) {
                return Err(SYNTAX);
            }
            let list = self.list(Closer::Brace)?;
            self.take("}");
            Step::Group(list)
        } else {
            return self.simple().map(Step::Simple);
        };
        let (Step::Subshell(list) | Step::Group(list)) = &step else {
            return Err(SYNTAX);
        };
        if list.0.is_empty() {
            return Err(SYNTAX);
        }
        self.blanks();
        while self.redirection()? == Redirection::Plain {
            self.blanks();
        }
        Ok(step)
    }

    fn simple(&mut self) -> Known<SimpleCommand> {
        let mut command = SimpleCommand::default();
        loop {
            self.blanks();
            match self.redirection()? {
                Redirection::Plain => continue,
                // Where `&>` is not known, what follows is another command.
                Redirection::Both => {
                    self.blanks();
                    break;
                }
                Redirection::None => {}
            }
            match self.peek() {
                Some('(') => return Err(SYNTAX),
                None => break,
                Some(c) if ends_word(c) => break,
                Some(_) => {}
            }
            let word = self.word()?;
            match command.words.is_empty() {
                true => word.begin(&mut command)?,
                false => command.words.push(word),
            }
        }
        self.commands += 1;
        if self.commands > COMMAND_PARTS_MAX {
            return Err(TOO_MUCH);
        }
        match command.words.is_empty() {
            true => Err(Unknown("it sets a variable, or names no program")),
            false => Ok(command),
        }
    }

    /// Takes a redirection to somewhere harmless.
    fn redirection(&mut self) -> Known<Redirection> {
        if self.take("&>") {
            if self.dialect == Dialect::Posix {
                return Err(FILES);
            }
            self.take(">");
            return self.target(&["/dev/null"]).map(|()| Redirection::Both);
        }
        let start = self.at;
        if matches!(self.peek(), Some('0'..='9')) {
            self.at += 1;
        }
        if !self.starts("<") && !self.starts(">") {
            // A longer number also belongs to a redirection.
            let digits = self.text[start..].trim_start_matches(|c: char| c.is_ascii_digit());
            self.at = start;
            let is_long = digits.len() < self.rest().len() && digits.starts_with(['<', '>']);
            return match is_long {
                true => Err(FILES),
                false => Ok(Redirection::None),
            };
        }
        let is_input = self.starts("<");
        self.at += 1;
        if self.take("&") {
            let is_number = matches!(self.peek(), Some('0'..='9'));
            self.at += usize::from(is_number);
            let is_over = self
                .peek()
                .is_none_or(|c| ends_word(c) && c != '<' && c != '>' && c != '(');
            return match is_number && is_over {
                true => Ok(Redirection::Plain),
                false => Err(FILES),
            };
        }
        if !is_input {
            self.take(">");
        }
        let harmless: &[&str] = match is_input {
            true => &["/dev/null"],
            false => &["/dev/null", "/dev/stdout", "/dev/stderr"],
        };
        self.target(harmless).map(|()| Redirection::Plain)
    }

    fn target(&mut self, harmless: &[&str]) -> Known<()> {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        if self.peek().is_none_or(|c| ends_word(c) || c == '#') {
            return Err(FILES);
        }
        let word = self.word()?;
        let is_harmless = word.glob.is_none() && harmless.contains(&word.text.as_str());
        is_harmless.then_some(()).ok_or(FILES)
    }

    /// A word, whose first character has been looked at and is one of a word.
    fn word(&mut self) -> Known<ExactWord> {
        let mut word = ExactWord::default();
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' | '(' => return Err(SYNTAX),
                c if ends_word(c) => break,
                '\'' => self.single(&mut word)?,
                '"' => self.double(&mut word)?,
                '\\' => {
                    self.at += 1;
                    let c = self.peek().filter(|c| *c != '\n').ok_or(SYNTAX)?;
                    self.at += c.len_utf8();
                    word.push_quoted(c);
                }
                c => {
                    self.at += c.len_utf8();
                    self.bare(c, &mut word)?;
                }
            }
        }
        // `{a}b,c}` is two words to bash, and in `{0}\{a,b}` a quoted brace counts as well.
        let is_list = word.text.contains(',') || word.text.contains("..");
        if word.has_brace && (is_list || word.text.matches('{').count() > 1) {
            return Err(EXPANDED);
        }
        if word.text == "[" {
            // Without a `]` it stands for itself.
            word.glob = None;
        }
        let begins = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/';
        match word.glob.is_some() && !word.text.starts_with(begins) {
            true => Err(Unknown("names of files in it may be options")),
            false => Ok(word),
        }
    }

    /// A character without quotes, which has been taken.
    fn bare(&mut self, c: char, word: &mut ExactWord) -> Known<()> {
        let next_ends = self.peek().is_none_or(ends_word);
        match c {
            '*' | '?' | '[' => {
                word.glob.get_or_insert(word.text.len());
            }
            '$' if next_ends && !self.starts("(") => {}
            '!' if next_ends || self.starts("=") => {}
            '$' | '`' | '!' => return Err(EXPANDED),
            '~' if word.text.is_empty() || word.text.ends_with(['=', ':']) => return Err(EXPANDED),
            '{' => {
                let end = self
                    .rest()
                    .find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                let inside = &self.rest()[..end.unwrap_or_default()];
                if end.is_none() || !self.rest()[inside.len()..].starts_with('}') {
                    return Err(EXPANDED);
                }
                word.has_brace = true;
            }
            c if !c.is_ascii() && !c.is_alphanumeric() => {
                return Err(Unknown("it has characters that look like others"));
            }
            _ => {}
        }
        word.push_bare(c);
        Ok(())
    }

    fn single(&mut self, word: &mut ExactWord) -> Known<()> {
        self.at += 1;
        let end = self.rest().find('\'').ok_or(NOT_CLOSED)?;
        self.rest()[..end].chars().for_each(|c| word.push_quoted(c));
        word.is_quoted = true;
        self.at += end + 1;
        Ok(())
    }

    fn double(&mut self, word: &mut ExactWord) -> Known<()> {
        self.at += 1;
        word.is_quoted = true;
        loop {
            let c = self.peek().ok_or(NOT_CLOSED)?;
            self.at += c.len_utf8();
            let next = self.peek();
            match c {
                '"' => return Ok(()),
                '\\' if matches!(next, Some('$' | '`' | '"' | '\\')) => {
                    next.into_iter().for_each(|c| word.push_quoted(c));
                    self.at += 1;
                }
                '\\' if next == Some('\n') => return Err(SYNTAX),
                '$' if !matches!(next, Some('"' | ' ' | '|')) => return Err(EXPANDED),
                '!' if !matches!(next, Some('"' | ' ' | '=')) => return Err(EXPANDED),
                '`' => return Err(EXPANDED),
                c => word.push_quoted(c),
            }
        }
    }
}

/// What was taken where a redirection may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirection {
    None,
    Plain,
    /// `&>`, which only bash knows.
    Both,
}

impl ExactWord {
    fn push_bare(&mut self, c: char) {
        self.text.push(c);
        if !self.is_quoted {
            self.bare = self.text.len();
        }
    }

    fn push_quoted(&mut self, c: char) {
        self.is_quoted = true;
        self.text.push(c);
    }

    /// Puts it where a command's name may stand.
    fn begin(self, command: &mut SimpleCommand) -> Known<()> {
        let is_name = |name: &str| {
            let is_letter = |c: char| c == '_' || c.is_ascii_alphanumeric();
            name.chars().all(is_letter) && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        let sets = self.text[..self.bare].split_once('=');
        let sets = sets.is_some_and(|(name, _)| !name.is_empty() && is_name(name));
        if sets && self.glob.is_none() {
            command.set.push(self.text);
            return Ok(());
        }
        let is_reserved = !self.is_quoted && RESERVED.contains(&self.text.as_str());
        let is_plain = |c: char| c.is_alphanumeric() || "._/+-@:".contains(c);
        // `%1` is a job, `-x` an option of the shell itself.
        let begins = |c: char| c.is_alphanumeric() || "._/:".contains(c);
        let is_odd = !self.text.starts_with(begins) || !self.text.chars().all(is_plain);
        match is_reserved || self.glob.is_some() || is_odd && self.text != "[" {
            true => Err(Unknown("the name of a program in it is not plain")),
            false => {
                command.words.push(self);
                Ok(())
            }
        }
    }
}

/// Whether `c` ends a word unless it is quoted.
fn ends_word(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>'
    )
}
