//! Redirections and here-documents. A rule about a command says nothing of the files that it is
//! connected with, so all but the harmless ones need more than a rule.

use super::words::Quotes;
use super::{Clear, Reader, Unclear};

/// A here-document whose text begins after this line.
pub(super) struct HereDocument {
    delimiter: String,
    /// `<<-`: tabs before a line do not count.
    is_indented: bool,
    /// Nothing in it is replaced.
    is_quoted: bool,
}

/// Longest first, so that none is taken for the beginning of another.
const OPERATORS: [&str; 12] = [
    "<<<", "&>>", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">", "&>",
];

impl Reader<'_> {
    /// A redirection, whose number, if it has one, has been read.
    pub(super) fn redirect(&mut self) -> Clear<()> {
        let operator = OPERATORS.into_iter().find(|operator| self.take(operator));
        let operator = operator.ok_or(Unclear("a redirection is written in an odd way"))?;
        self.skip_blanks();
        let target = self.word()?;
        if matches!(operator, "<<" | "<<-") {
            if target.is_open || self.substitutions > 0 {
                return Err(Unclear("a here-document is written in an odd way"));
            }
            self.script.uncover("it has a here-document");
            self.documents.push(HereDocument {
                delimiter: target.text,
                is_indented: operator == "<<-",
                is_quoted: target.is_quoted,
            });
            return Ok(());
        }
        let text = (!target.is_open && !target.is_pattern).then_some(target.text.as_str());
        let is_descriptor = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_harmless = match operator {
            "<&" | ">&" => text.is_some_and(|text| is_descriptor(text) || text == "/dev/null"),
            _ => matches!(text, Some("/dev/null" | "/dev/stdout" | "/dev/stderr")),
        };
        if !is_harmless {
            self.script.uncover(match operator {
                "<" | "<<<" | "<&" => "it is given a file or a text to read",
                _ => "it writes to a file",
            });
        }
        Ok(())
    }

    /// Reads the texts of the here-documents that were named in the line that has ended.
    pub(super) fn take_documents(&mut self) -> Clear<()> {
        for document in std::mem::take(&mut self.documents) {
            let start = self.at;
            let mut end = self.text.len();
            for line in self.text[start..].split_inclusive('\n') {
                let at = self.at;
                self.at += line.len();
                let line = line.strip_suffix('\n').unwrap_or(line);
                let line = match document.is_indented {
                    true => line.trim_start_matches('\t'),
                    false => line,
                };
                if line == document.delimiter {
                    end = at;
                    break;
                }
            }
            if !document.is_quoted {
                let after = std::mem::replace(&mut self.at, start);
                self.document(end)?;
                self.at = after;
            }
        }
        Ok(())
    }

    /// What is replaced in a here-document that ends at `end`.
    fn document(&mut self, end: usize) -> Clear<()> {
        let mut inside = super::Word::unknown();
        while self.at < end {
            match self.peek() {
                // Joined lines hide where it ends.
                Some('\\') if self.starts("\\\n") => {
                    return Err(Unclear("a here-document has joined lines"));
                }
                Some('\\') => {
                    self.at += 1;
                    self.bump();
                }
                Some('$') => self.dollar(&mut inside, Quotes::Double)?,
                Some('`') => self.backticks(Quotes::Double)?,
                Some(c) => self.at += c.len_utf8(),
                None => break,
            }
        }
        match self.at == end {
            true => Ok(()),
            false => Err(Unclear("a here-document ends within a substitution")),
        }
    }
}
