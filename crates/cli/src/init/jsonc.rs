//! JSON with comments and trailing commas, read only as far as an edit needs: where each member of
//! an object begins and ends. Nothing is rewritten; [`super::merge`] puts text in between.
//!
//! Editors keep their settings in this form, and people's comments in it are theirs.

use std::ops::Range;

/// Deepest nesting that is followed: settings are flat, and deeper ones are not settings.
const DEPTH_MAX: usize = 64;

/// Why a text is not JSON with comments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct SyntaxError {
    /// Counted from one.
    pub(crate) line: usize,
    pub(crate) problem: &'static str,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) span: Range<usize>,
    /// Its members, if it is an object.
    pub(crate) object: Option<Vec<Member>>,
}

/// One name and its value in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where the quoted name begins.
    pub(crate) start: usize,
    pub(crate) value: Value,
    /// Where the comma after it stands, if there is one.
    pub(crate) comma: Option<usize>,
}

impl Value {
    /// The last member of that name: of several, readers take that one.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        let members = self.object.as_ref()?;
        members.iter().rev().find(|member| member.name == name)
    }
}

/// The one value of a text; `None` if there is nothing but space and comments.
///
/// # Errors
/// If the text is neither.
pub(crate) fn parse(text: &str) -> Result<Option<Value>, SyntaxError> {
    let mut parser = Parser {
        text,
        at: usize::from(text.starts_with('\u{feff}')) * '\u{feff}'.len_utf8(),
    };
    parser.skip()?;
    if parser.peek().is_none() {
        return Ok(None);
    }
    let value = parser.value(0)?;
    parser.skip()?;
    match parser.peek() {
        None => Ok(Some(value)),
        Some(_) => Err(parser.wrong("something stands after the end")),
    }
}

/// The same text without comments and trailing commas, for a reader of plain JSON.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parser = Parser { text, at: 0 };
    while let Some(byte) = parser.peek() {
        let from = parser.at;
        match byte {
            b'"' => {
                if parser.string().is_err() {
                    parser.at = text.len();
                }
                out.push_str(&text[from..parser.at]);
            }
            b'/' => {
                if parser.skip().is_err() || parser.at == from {
                    return out;
                }
            }
            b',' => {
                parser.at += 1;
                if parser.skip().is_ok() && !matches!(parser.peek(), Some(b'}' | b']')) {
                    out.push(',');
                }
            }
            _ => {
                let length = text[from..].chars().next().map_or(1, char::len_utf8);
                parser.at += length;
                out.push_str(&text[from..parser.at]);
            }
        }
    }
    out
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        if depth == DEPTH_MAX {
            return Err(self.wrong("it is nested too deeply"));
        }
        let start = self.at;
        let object = match self.peek() {
            Some(b'{') => Some(self.object(depth)?),
            Some(b'[') => {
                self.array(depth)?;
                None
            }
            Some(b'"') => {
                self.string()?;
                None
            }
            Some(_) => {
                self.word()?;
                None
            }
            None => return Err(self.wrong("a value is missing")),
        };
        let span = start..self.at;
        Ok(Value { span, object })
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Member>, SyntaxError> {
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        loop {
            self.skip()?;
            let may_follow = members.last().is_none_or(|member| member.comma.is_some());
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(members);
                }
                Some(b'"') if may_follow => {}
                Some(b'"') => return Err(self.wrong("a comma is missing")),
                Some(_) => return Err(self.wrong("a name in double quotes is missing")),
                None => return Err(self.wrong("a closing brace is missing")),
            }
            let start = self.at;
            self.string()?;
            let name = serde_json::from_str(&self.text[start..self.at]);
            let name = name.map_err(|_| self.wrong("a name is not a string"))?;
            self.skip()?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("a colon is missing"));
            }
            self.at += 1;
            self.skip()?;
            let value = self.value(depth + 1)?;
            let comma = self.comma()?;
            members.push(Member {
                name,
                start,
                value,
                comma,
            });
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.at += 1;
        let mut may_follow = true;
        loop {
            self.skip()?;
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) if may_follow => {}
                Some(_) => return Err(self.wrong("a comma is missing")),
                None => return Err(self.wrong("a closing bracket is missing")),
            }
            self.value(depth + 1)?;
            may_follow = self.comma()?.is_some();
        }
    }

    fn comma(&mut self) -> Result<Option<usize>, SyntaxError> {
        self.skip()?;
        let is_there = self.peek() == Some(b',');
        let at = self.at;
        self.at += usize::from(is_there);
        Ok(is_there.then_some(at))
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.at += 2,
                Some(b'\n') | None => {
                    self.at = start;
                    return Err(self.wrong("a string has no end"));
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), SyntaxError> {
        let rest = &self.text[self.at..];
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | '}' | ']' | ':' | '/');
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        if serde_json::from_str::<serde_json::Value>(word).is_err() {
            return Err(self.wrong("this is not a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Leaves space and comments behind.
    fn skip(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = &self.text[self.at..];
            let space = rest.len() - rest.trim_start().len();
            let rest = &rest[space..];
            self.at += space;
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                let end = rest.find("*/");
                end.ok_or_else(|| self.wrong("a comment has no end"))? + 2
            } else {
                return Ok(());
            };
            self.at += length;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong(&self, problem: &'static str) -> SyntaxError {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        SyntaxError { line, problem }
    }
}
