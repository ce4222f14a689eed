//! Reads a shell command far enough to say which programs it starts, and nothing further.
//!
//! [`read`] goes through the text once and notes every simple command, wherever it stands: behind
//! `;`, `&&` or `|`, in subshells, substitutions, loops, functions and here-documents. It is not a
//! shell. Where two shells might read a text differently, or where what runs is only known when it
//! runs, it says so ([`Script::unseen`]) and whoever judges must take that for any command at all.

pub(super) mod exact;
mod expansions;
mod redirects;
mod words;

use domain::limits::{COMMAND_DEPTH_MAX, COMMAND_JUDGED_BYTES_MAX, COMMAND_PARTS_MAX};

use redirects::HereDocument;
pub(super) use words::Word;

/// What a text would run.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Every simple command in it.
    pub(super) commands: Vec<Command>,
    /// Why no rule about commands covers all of it, if that is so: it does more than start them.
    pub(super) uncovered: Option<&'static str>,
    /// Why it may run more than is seen, if that is so.
    pub(super) unseen: Option<&'static str>,
}

/// A program or builtin with its arguments, as it was written without quotes.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    /// Assignments first.
    pub(super) words: Vec<Word>,
    /// How many of the words are assignments.
    pub(super) assignments: usize,
}

impl Script {
    /// Notes that more may run than is seen.
    pub(super) fn hide(&mut self, why: &'static str) {
        self.unseen.get_or_insert(why);
    }

    /// Notes that it does something that is not starting a command.
    pub(super) fn uncover(&mut self, why: &'static str) {
        self.uncovered.get_or_insert(why);
    }
}

/// Reads `text`, which stands `depth` levels inside another.
pub(super) fn read(text: &str, depth: usize) -> Script {
    let mut script = Script::default();
    read_into(&mut script, text, depth);
    script
}

fn read_into(script: &mut Script, text: &str, depth: usize) {
    if text.len() > COMMAND_JUDGED_BYTES_MAX {
        return script.hide("it is too long");
    }
    if text
        .chars()
        .any(|c| c.is_control() && c != '\n' && c != '\t')
    {
        return script.hide("it has control characters");
    }
    let mut reader = Reader {
        text,
        at: 0,
        depth,
        substitutions: 0,
        documents: Vec::new(),
        script,
    };
    if let Err(Unclear(why)) = reader.list(End::Text) {
        reader.script.hide(why);
    }
}

/// Why a text is not read to its end.
struct Unclear(&'static str);

type Clear<T> = Result<T, Unclear>;

/// What ends a list of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The text's end.
    Text,
    /// `)`
    Bracket,
    /// `;;` or `esac`
    Item,
}

/// How a list ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// As it had to.
    There,
    /// With `esac`, and with it the whole `case`.
    Esac,
}

/// What follows a word that has a meaning of its own.
enum Flow {
    /// Another command may begin here.
    Begin,
    /// It is a word like any other.
    Word,
    /// The list is over.
    Over(Ended),
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// How many substitutions are open.
    substitutions: usize,
    /// Whose text begins after this line.
    documents: Vec<HereDocument>,
    script: &'a mut Script,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn starts(&self, with: &str) -> bool {
        self.text[self.at..].starts_with(with)
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Takes `what`, if it comes next.
    fn take(&mut self, what: &str) -> bool {
        let is_there = self.starts(what);
        if is_there {
            self.at += what.len();
        }
        is_there
    }

    /// Takes `what`, if it comes next as a word of its own.
    fn take_word(&mut self, what: &str) -> bool {
        let rest = self.text[self.at..].strip_prefix(what);
        let is_word = rest.is_some_and(|rest| rest.chars().next().is_none_or(words::ends_word));
        is_word && self.take(what)
    }

    /// Goes one level down for as long as `inside` reads.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Clear<T>) -> Clear<T> {
        if self.depth >= COMMAND_DEPTH_MAX {
            return Err(Unclear("it is nested too deeply"));
        }
        self.depth += 1;
        let read = inside(self);
        self.depth -= 1;
        read
    }

    /// Passes over blanks, joined lines and comments.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.starts("\\\n") => self.at += 2,
                Some('#') => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                Some(_) | None => return,
            }
        }
    }

    /// Passes over blanks and the ends of lines.
    fn skip_lines(&mut self) -> Clear<()> {
        self.skip_blanks();
        while self.take("\n") {
            self.take_documents()?;
            self.skip_blanks();
        }
        Ok(())
    }

    fn list(&mut self, end: End) -> Clear<Ended> {
        self.nested(|reader| {
            loop {
                if let Some(ended) = reader.one(end)? {
                    return Ok(ended);
                }
            }
        })
    }

    /// A command, or what stands between two; tells if the list is over.
    fn one(&mut self, end: End) -> Clear<Option<Ended>> {
        self.skip_lines()?;
        match self.peek() {
            None if end == End::Text => Ok(Some(Ended::There)),
            None => Err(Unclear("something in it is not closed")),
            Some(';') if self.take(";;&") || self.take(";;") || self.take(";&") => match end {
                End::Item => Ok(Some(Ended::There)),
                End::Text | End::Bracket => Err(Unclear("a `;;` stands in an odd place")),
            },
            Some('&') if self.starts("&>") => self.command(end),
            Some(';' | '|' | '&') => {
                self.at += 1;
                Ok(None)
            }
            Some(')') if end == End::Bracket && self.documents.is_empty() => {
                self.at += 1;
                Ok(Some(Ended::There))
            }
            Some(')') => Err(Unclear("a bracket stands in an odd place")),
            Some('(') if self.starts("((") => Err(Unclear("`((` may be arithmetic or commands")),
            Some('(') => {
                self.at += 1;
                self.list(End::Bracket)?;
                Ok(None)
            }
            Some(_) => self.command(end),
        }
    }

    /// One simple command; the words that hold compound ones together are passed over, for what
    /// matters is what stands between them.
    fn command(&mut self, end: End) -> Clear<Option<Ended>> {
        let mut command = Command::default();
        // Where `&>` is not known, `&` ends a command and another begins behind it.
        let mut split = None;
        let ended = loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')') => break None,
                Some('&') if !self.starts("&>") => break None,
                Some('(') => {
                    self.function(&command)?;
                    command = Command::default();
                    continue;
                }
                Some('<' | '>' | '&') if !self.starts("<(") && !self.starts(">(") => {
                    if self.starts("&>") {
                        split.get_or_insert(command.words.len());
                    }
                    self.redirect()?;
                    continue;
                }
                Some(_) => {}
            }
            let start = self.at;
            let word = self.word()?;
            let is_named = self.text[start..self.at].starts_with('{') && word.is_open;
            if is_named && matches!(self.peek(), Some('<' | '>')) {
                // `{NAME}>f` sets the variable to the number of a descriptor.
                self.script.hide("a redirection sets a variable");
            }
            if word.is_descriptor() && matches!(self.peek(), Some('<' | '>')) {
                self.redirect()?;
                continue;
            }
            match self.flow(&command, &word, end)? {
                Flow::Begin => {}
                Flow::Word => self.add(&mut command, word)?,
                Flow::Over(ended) => break Some(ended),
            }
        };
        let behind = split.and_then(|at| command.words.get(at..));
        let behind = behind.unwrap_or_default().to_vec();
        self.note(command)?;
        let set = behind.iter().take_while(|word| word.is_assignment());
        self.note(Command {
            assignments: set.count(),
            words: behind,
        })?;
        Ok(ended)
    }

    fn note(&mut self, command: Command) -> Clear<()> {
        if command.words.is_empty() {
            return Ok(());
        }
        if self.script.commands.len() >= COMMAND_PARTS_MAX {
            return Err(Unclear("it has too many parts"));
        }
        self.script.commands.push(command);
        Ok(())
    }

    /// Adds a word to a command: an assignment as long as there was nothing else.
    fn add(&mut self, command: &mut Command, word: Word) -> Clear<()> {
        if command.assignments == command.words.len() && word.is_assignment() {
            command.assignments += 1;
            let name = word.text.split('=').next().unwrap_or_default();
            if name.contains('[') {
                self.script.hide("an index in it may run something");
            }
            if word.text.contains("$(") || word.text.contains('`') {
                // Arithmetic and `${!x}` run what stands in a variable.
                self.script.hide("a variable is given a text that may run");
            }
            if word.text.ends_with('=') && self.take("(") {
                self.array()?;
            }
        }
        command.words.push(word);
        Ok(())
    }

    fn array(&mut self) -> Clear<()> {
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some(')') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(c) if !words::ends_word(c) => {
                    self.word()?;
                }
                Some(_) | None => return Err(Unclear("a list of values is not closed")),
            }
        }
    }

    /// What a word means where a command may begin.
    fn flow(&mut self, command: &Command, word: &Word, end: End) -> Clear<Flow> {
        let Some(name) = word.plain().filter(|_| command.words.is_empty()) else {
            return Ok(Flow::Word);
        };
        match name {
            "if" | "then" | "elif" | "else" | "fi" | "while" | "until" | "do" | "done" | "{"
            | "}" | "!" => Ok(Flow::Begin),
            "time" => {
                let start = self.at;
                self.skip_blanks();
                while self.take_word("-p") || self.take_word("--") {
                    self.skip_blanks();
                }
                if self.starts("-") {
                    // A program of that name.
                    self.at = start;
                    return Ok(Flow::Word);
                }
                Ok(Flow::Begin)
            }
            "for" => self.loop_over(),
            "case" => self.case(),
            "esac" if end == End::Item => Ok(Flow::Over(Ended::Esac)),
            "function" => {
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                if self.take("(") {
                    self.close_function()?;
                }
                self.script.uncover("it defines a function");
                Ok(Flow::Begin)
            }
            "[[" => self.condition(),
            "esac" | "select" | "coproc" | "]]" | "in" => {
                Err(Unclear("a word of the shell stands in an odd place"))
            }
            _ => Ok(Flow::Word),
        }
    }

    /// `name()`: what follows is read like any other commands.
    fn function(&mut self, command: &Command) -> Clear<()> {
        let is_name = command.assignments == 0
            && matches!(command.words.as_slice(), [name] if name.plain().is_some());
        if !is_name {
            return Err(Unclear("a bracket stands in an odd place"));
        }
        self.at += 1;
        self.script.uncover("it defines a function");
        self.close_function()
    }

    fn close_function(&mut self) -> Clear<()> {
        self.skip_blanks();
        match self.take(")") {
            true => Ok(()),
            false => Err(Unclear("a bracket stands in an odd place")),
        }
    }

    /// `for NAME in WORDS`: the words run nothing by themselves.
    fn loop_over(&mut self) -> Clear<Flow> {
        self.script.uncover("it sets a variable");
        self.skip_blanks();
        let name = self.word()?;
        let Some(name) = name.plain() else {
            return Err(Unclear("a loop has no plain name"));
        };
        if super::commands::changes_what_runs(name) {
            self.script
                .hide("a loop sets a variable that changes what runs");
        }
        self.skip_lines()?;
        let start = self.at;
        if self.peek().is_none_or(words::ends_word) || self.word()?.plain() != Some("in") {
            self.at = start;
            return Ok(Flow::Begin);
        }
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('\n' | ';') => return Ok(Flow::Begin),
                Some(c) if words::ends_word(c) && !self.starts("<(") => {
                    return Err(Unclear("a loop is written in an odd way"));
                }
                Some(_) => {
                    self.word()?;
                }
            }
        }
    }

    fn case(&mut self) -> Clear<Flow> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        if self.word()?.plain() != Some("in") {
            return Err(Unclear("a `case` is written in an odd way"));
        }
        loop {
            self.skip_lines()?;
            self.take("(");
            loop {
                self.skip_blanks();
                let pattern = self.word()?;
                self.skip_blanks();
                if pattern.plain() == Some("esac") && !self.starts(")") && !self.starts("|") {
                    return Ok(Flow::Begin);
                }
                if self.take(")") {
                    break;
                }
                if !self.take("|") {
                    return Err(Unclear("a `case` is written in an odd way"));
                }
            }
            if self.list(End::Item)? == Ended::Esac {
                return Ok(Flow::Begin);
            }
        }
    }

    /// `[[ … ]]`: judged as a command of that name.
    fn condition(&mut self) -> Clear<Flow> {
        self.script.uncover("it has a condition of the shell");
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some('<' | '>') if self.starts("<(") || self.starts(">(") => {
                    self.word()?;
                }
                Some('<' | '>' | '(' | ')' | '|' | '&') => self.at += 1,
                Some(';') | None => return Err(Unclear("a condition is not closed")),
                Some(_) => {
                    let word = self.word()?;
                    if word.plain() == Some("]]") {
                        return Ok(Flow::Begin);
                    }
                    let evaluates = ["-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
                    let is_evaluating = evaluates.contains(&word.text.as_str());
                    if is_evaluating || word.text.contains("$(") || word.text.contains('`') {
                        self.script.hide("a condition has a text that may run");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
