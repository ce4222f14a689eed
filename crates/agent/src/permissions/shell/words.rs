//! Words: quotes taken away, substitutions looked into, and a note of what is not known before it
//! runs.

use super::{Clear, Reader, Unclear};

/// One word of a command.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Word {
    /// What it is without quotes; only its beginning if the rest is not known before it runs.
    pub(in super::super) text: String,
    /// Whether the shell puts something into it that is not written there.
    pub(in super::super) is_open: bool,
    /// Whether that may make several words of it.
    pub(in super::super) may_split: bool,
    /// Whether the shell may take it for the names of files.
    pub(in super::super) is_pattern: bool,
    /// Where in the text it begins to be a pattern, if it is known exactly.
    pub(in super::super) glob: Option<usize>,
    /// Whether quotes were taken away.
    pub(super) is_quoted: bool,
    /// How much of the beginning is written without quotes.
    bare: usize,
}

/// Whether `c` ends a word unless it is quoted.
pub(super) fn ends_word(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>'
    )
}

impl Word {
    /// A word of which nothing is known.
    pub(in super::super) fn unknown() -> Self {
        Self {
            is_open: true,
            may_split: true,
            ..Self::default()
        }
    }

    /// A word that is all known.
    pub(in super::super) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// The same with names of files in the place of a pattern.
    pub(in super::super) fn opened(&self) -> Self {
        let mut word = self.clone();
        if let (true, Some(at)) = (self.is_pattern, self.text.find(['*', '?', '['])) {
            word.text.truncate(at);
            word.is_open = true;
        }
        word
    }

    /// Its text, if it is written without quotes and all known.
    pub(super) fn plain(&self) -> Option<&str> {
        let is_plain = !self.is_open && !self.is_quoted;
        is_plain.then_some(self.text.as_str())
    }

    pub(super) fn is_descriptor(&self) -> bool {
        let digits = self.plain().unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether it sets a variable if it stands before a command.
    pub(super) fn is_assignment(&self) -> bool {
        let bare = &self.text[..self.bare];
        let name_end = bare.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        let Some(end) = name_end else {
            return false;
        };
        let starts = bare.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
        let rest = &bare[end..];
        starts && (rest.starts_with('=') || rest.starts_with("+=") || rest.starts_with('['))
    }

    fn push_bare(&mut self, c: char) {
        if self.is_open {
            return;
        }
        if !self.is_quoted {
            self.bare += c.len_utf8();
        }
        self.text.push(c);
    }

    pub(super) fn push_quoted(&mut self, c: char) {
        self.is_quoted = true;
        if !self.is_open {
            self.text.push(c);
        }
    }
}

impl Reader<'_> {
    /// Reads a word, which must be there.
    pub(super) fn word(&mut self) -> Clear<Word> {
        let (mut word, start) = (Word::default(), self.at);
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.starts("<(") || self.starts(">(") => {
                    self.at += 2;
                    self.substitution()?;
                    word.is_open = true;
                }
                c if ends_word(c) => break,
                '\\' => self.escaped(&mut word)?,
                '\'' => self.single(&mut word)?,
                '"' => self.double(&mut word)?,
                '$' => {
                    self.dollar(&mut word, Quotes::None)?;
                    word.may_split |= word.is_open;
                }
                '`' => {
                    self.backticks(Quotes::None)?;
                    (word.is_open, word.may_split) = (true, true);
                }
                '{' => self.brace(&mut word),
                c => {
                    self.at += c.len_utf8();
                    if c.is_whitespace() || is_invisible(c) {
                        self.script
                            .hide("it has blanks that no shell takes for blanks");
                    }
                    word.is_pattern |= matches!(c, '*' | '?' | '[');
                    word.push_bare(c);
                }
            }
        }
        match self.at > start {
            true => Ok(word),
            false => Err(Unclear("a word is missing")),
        }
    }

    fn escaped(&mut self, word: &mut Word) -> Clear<()> {
        self.at += 1;
        match self.bump() {
            // Two lines become one.
            Some('\n') => Ok(()),
            Some(c) => {
                word.push_quoted(c);
                Ok(())
            }
            None => Err(Unclear("it ends with a backslash")),
        }
    }

    fn single(&mut self, word: &mut Word) -> Clear<()> {
        self.at += 1;
        let rest = &self.text[self.at..];
        let end = rest.find('\'').ok_or(Unclear("a quote is not closed"))?;
        rest[..end].chars().for_each(|c| word.push_quoted(c));
        word.is_quoted = true;
        self.at += end + 1;
        Ok(())
    }

    pub(super) fn double(&mut self, word: &mut Word) -> Clear<()> {
        self.at += 1;
        word.is_quoted = true;
        loop {
            match self.peek() {
                None => return Err(Unclear("a quote is not closed")),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    match self.bump() {
                        Some('\n') => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => word.push_quoted(c),
                        Some(c) => {
                            word.push_quoted('\\');
                            word.push_quoted(c);
                        }
                        None => return Err(Unclear("a quote is not closed")),
                    }
                }
                Some('$') => self.dollar(word, Quotes::Double)?,
                Some('`') => {
                    self.backticks(Quotes::Double)?;
                    word.is_open = true;
                }
                Some(c) => {
                    self.at += c.len_utf8();
                    word.push_quoted(c);
                }
            }
        }
    }

    /// `{a,b}` becomes several words, `{}` and a lone `{` stay what they are.
    fn brace(&mut self, word: &mut Word) {
        let rest = &self.text[self.at..];
        let rest = &rest[..rest.find(ends_word).unwrap_or(rest.len())];
        // `{}a,b}` is two words.
        let is_list = rest.contains(',') || rest.contains("..");
        if !is_list && self.take("{}") {
            word.push_bare('{');
            word.push_bare('}');
            return;
        }
        self.at += 1;
        let is_alone = word.text.is_empty() && self.peek().is_none_or(|c| c.is_ascii_whitespace());
        match is_alone {
            true => word.push_bare('{'),
            false => (word.is_open, word.may_split) = (true, true),
        }
    }
}

/// What stands around something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    None,
    Double,
}

/// Letters that show nothing, or turn what follows around.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{ad}')
}
