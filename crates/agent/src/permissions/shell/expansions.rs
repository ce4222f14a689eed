//! What the shell puts in place of something: parameters, arithmetic, and the output of commands,
//! which are read like any others.

use super::words::{Quotes, Word};
use super::{Clear, End, Reader, Unclear, read_into};

/// Why arithmetic with variables is not seen through.
pub(super) const EVALUATED: &str = "arithmetic in it evaluates a text once more";

impl Reader<'_> {
    /// The commands of `$(…)`, `<(…)` or `>(…)`, whose opening has been read.
    pub(super) fn substitution(&mut self) -> Clear<()> {
        self.substitutions += 1;
        let read = self.list(End::Bracket);
        self.substitutions -= 1;
        read.map(|_| ())
    }

    /// `$` and what belongs to it.
    pub(super) fn dollar(&mut self, word: &mut Word, quotes: Quotes) -> Clear<()> {
        self.at += 1;
        match self.peek() {
            Some('(') => {
                word.is_open = true;
                if self.take("((") {
                    return self.nested(Self::arithmetic);
                }
                self.at += 1;
                self.substitution()
            }
            Some('{') => {
                word.is_open = true;
                // `"${x[@]}"` is several words.
                let inside = self.text[self.at..].split('}').next().unwrap_or_default();
                word.may_split |= inside.contains('@');
                self.at += 1;
                self.nested(Self::parameter)
            }
            Some('\'') if quotes == Quotes::None => self.ansi(word),
            Some('"') if quotes == Quotes::None => {
                // Another language may have other words for it.
                word.is_open = true;
                self.double(word)
            }
            Some('[') => Err(Unclear("`$[` is read differently by different shells")),
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                word.is_open = true;
                let rest = &self.text[self.at..];
                let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                self.at += end.unwrap_or(rest.len());
                Ok(())
            }
            Some(c @ ('0'..='9' | '@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                word.is_open = true;
                word.may_split |= c == '@';
                self.at += 1;
                Ok(())
            }
            Some(_) | None => {
                word.push_quoted('$');
                Ok(())
            }
        }
    }

    /// The rest of `$((…))`. A bracket that closes too early means that it was no arithmetic.
    fn arithmetic(&mut self) -> Clear<()> {
        let (mut open, mut inside) = (0_usize, Word::unknown());
        loop {
            match self.peek() {
                Some('(') => {
                    open += 1;
                    self.at += 1;
                }
                Some(')') if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                Some(')') if self.take("))") => return Ok(()),
                Some('$') => {
                    let is_number = ["$#", "$?", "$$", "${#"];
                    if !is_number.iter().any(|number| self.starts(number)) {
                        self.script.hide(EVALUATED);
                    }
                    self.dollar(&mut inside, Quotes::Double)?;
                }
                Some('`') => self.backticks(Quotes::Double)?,
                Some(')' | '\'' | '"' | '\\' | '[' | '\n' | ';') | None => {
                    return Err(Unclear("arithmetic in it is written in an odd way"));
                }
                Some(c) => {
                    // A variable's value is evaluated once more, and may have an index that runs something.
                    let is_hexadecimal = matches!(c, 'x' | 'X' | 'a'..='f' | 'A'..='F');
                    if c == '_'
                        || c.is_alphabetic() && !is_hexadecimal
                        || is_hexadecimal && !self.is_in_number()
                    {
                        self.script.hide(EVALUATED);
                    }
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// Whether what comes next continues a number.
    fn is_in_number(&self) -> bool {
        let before = self.text[..self.at].trim_end_matches(|c: char| c.is_ascii_alphanumeric());
        self.text[before.len()..self.at].starts_with(|c: char| c.is_ascii_digit())
    }

    /// The rest of `${…}`.
    fn parameter(&mut self) -> Clear<()> {
        let mut inside = Word::unknown();
        let name = self.text[self.at..]
            .trim_start_matches(|c: char| c == '_' || c.is_ascii_alphanumeric());
        let rest = name.strip_prefix(':').unwrap_or(name);
        if rest.starts_with('=') {
            self.script.hide("`${…=…}` sets a variable");
        }
        let is_part = rest.len() < name.len() && !rest.starts_with(['-', '=', '?', '+']);
        let numbers = rest.split('}').next().unwrap_or_default();
        if is_part
            && !numbers
                .chars()
                .all(|c| c.is_ascii_digit() || " :-()".contains(c))
        {
            self.script.hide(EVALUATED);
        }
        if self.starts("!") {
            self.script.hide("`${!` runs what stands in a variable");
        }
        loop {
            match self.peek() {
                Some('}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    self.bump();
                }
                Some('"') => self.double(&mut inside)?,
                Some('$') => self.dollar(&mut inside, Quotes::Double)?,
                Some('`') => self.backticks(Quotes::Double)?,
                Some('[') if !self.starts("[@]") && !self.starts("[*]") => {
                    return Err(Unclear("an index in it may run something"));
                }
                Some('@') if !self.starts("@}") && !self.starts("@]") => {
                    return Err(Unclear("`${…@…}` may run what stands in a variable"));
                }
                Some('<' | '>') if self.starts("<(") || self.starts(">(") => {
                    return Err(Unclear("`${…}` in it may start something"));
                }
                Some('\'' | '{') | None => {
                    return Err(Unclear("`${…}` in it is written in an odd way"));
                }
                Some(c) => self.at += c.len_utf8(),
            }
        }
    }

    /// `` `…` ``, in which backslashes are taken away before it is read.
    pub(super) fn backticks(&mut self, quotes: Quotes) -> Clear<()> {
        self.at += 1;
        let mut inside = String::new();
        loop {
            match self.bump() {
                Some('`') => break,
                Some('\\') => match self.bump() {
                    Some(c @ ('`' | '\\' | '$')) => inside.push(c),
                    Some('"') if quotes == Quotes::Double => inside.push('"'),
                    Some(c) => {
                        inside.push('\\');
                        inside.push(c);
                    }
                    None => return Err(Unclear("a backtick is not closed")),
                },
                Some(c) => inside.push(c),
                None => return Err(Unclear("a backtick is not closed")),
            }
        }
        if inside.contains("<<") {
            return Err(Unclear("a here-document stands in a substitution"));
        }
        self.nested(|reader| {
            read_into(reader.script, &inside, reader.depth);
            Ok(())
        })
    }

    /// `$'…'`, with its escapes.
    fn ansi(&mut self, word: &mut Word) -> Clear<()> {
        self.at += 1;
        word.is_quoted = true;
        loop {
            match self.bump() {
                Some('\'') => return Ok(()),
                Some('\\') => match self.escape() {
                    Some(c) => word.push_quoted(c),
                    None => word.is_open = true,
                },
                Some(c) => word.push_quoted(c),
                None => return Err(Unclear("a quote is not closed")),
            }
        }
    }

    /// What an escape of `$'…'` stands for, if it is a letter.
    fn escape(&mut self) -> Option<char> {
        match self.bump()? {
            'n' => Some('\n'),
            't' => Some('\t'),
            'x' => self.digits(16, 2),
            'u' => self.digits(16, 4),
            'U' => self.digits(16, 8),
            '0'..='7' => {
                self.at -= 1;
                self.digits(8, 3)
            }
            c @ ('\\' | '\'' | '"' | '?') => Some(c),
            // Control characters: nothing that a name has.
            _ => None,
        }
    }

    fn digits(&mut self, radix: u32, most: usize) -> Option<char> {
        let rest = self.text[self.at..].chars();
        let count = rest.take(most).take_while(|c| c.is_digit(radix)).count();
        let digits = &self.text[self.at..self.at + count];
        self.at += count;
        let code = u32::from_str_radix(digits, radix).ok()?;
        // Single bytes above these are parts of letters.
        let is_whole = most > 3 || code < 0x80;
        char::from_u32(code).filter(|c| is_whole && !c.is_control())
    }
}
