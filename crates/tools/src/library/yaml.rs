//! One field of front matter, read as YAML.
//!
//! Front matter is often not valid YAML as a whole (`description: Use when: x`). If it is not, the
//! lines of the wanted field are read alone. A field that cannot be read is told apart from a field
//! that is not there: an unreadable list of tools must not mean all tools.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// There is no such field.
    Absent,
    /// It is there without a value.
    Null,
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// It is there, and it is something else, or no YAML.
    Unreadable,
}

/// The field `key`, in any case, of the front matter `text`.
pub(crate) fn field(text: &str, key: &str) -> Field {
    let mut lines = own_lines(text, key);
    match read(text, key) {
        // `tools:Read: x` is a field of another name to YAML, and not to the person who wrote it.
        Ok(Field::Absent) if lines.next().is_some() => return Field::Unreadable,
        Ok(found) => return found,
        Err(NotYaml) => {}
    }
    match (lines.next(), lines.next()) {
        (Some(own), None) => match read(&own, key) {
            Ok(Field::Absent) | Err(NotYaml) => Field::Unreadable,
            Ok(found) => found,
        },
        (Some(_), Some(_)) => Field::Unreadable,
        // It may be where only YAML would find it.
        (None, _) if mentions(text, key) => Field::Unreadable,
        (None, _) => Field::Absent,
    }
}

/// The text is no YAML, or no mapping.
struct NotYaml;

/// The lines of each field `key` at the top level.
fn own_lines(text: &str, key: &str) -> impl Iterator<Item = String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_own = false;
    for line in text.lines() {
        // Lists may stand at the level of their key.
        let goes_on = line.is_empty() || line.starts_with([' ', '\t', '-', '#', ']', '}']);
        if !goes_on {
            is_own = names(line, key);
            if is_own {
                found.push(String::new());
            }
        }
        if let Some(own) = found.last_mut().filter(|_| is_own) {
            own.push_str(line);
            own.push('\n');
        }
    }
    found.into_iter()
}

/// Whether a line begins with `key` and a colon.
fn names(line: &str, key: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else {
        return false;
    };
    let name = name.trim().trim_matches(['"', '\'']);
    name.eq_ignore_ascii_case(key)
}

fn mentions(text: &str, key: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split(key);
    parts.next();
    parts.any(|after| {
        after
            .trim_start_matches(['"', '\'', ' ', '\t'])
            .starts_with(':')
    })
}

/// The field `key` of a mapping. Two of them cannot be read.
fn read(text: &str, key: &str) -> Result<Field, NotYaml> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|_| NotYaml)?;
        reader.take(event)?;
    }
    let mut found = Field::Absent;
    for (name, value) in reader.fields {
        if name.trim().eq_ignore_ascii_case(key) {
            found = match found {
                Field::Absent => value,
                Field::Null | Field::Text(_) | Field::List(_) | Field::Unreadable => {
                    Field::Unreadable
                }
            };
        }
    }
    Ok(found)
}

/// A mapping on its way, event by event: nothing is nested, so nothing grows.
#[derive(Default)]
struct Reader {
    fields: Vec<(String, Field)>,
    depth: usize,
    /// The key whose value comes next.
    key: Option<String>,
    /// The value that is being read, if it is not one scalar.
    value: Option<Field>,
    /// Scalars that have a name.
    anchors: BTreeMap<usize, Field>,
}

impl Reader {
    fn take(&mut self, event: Event<'_>) -> Result<(), NotYaml> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            // A second document is not front matter.
            Event::DocumentStart(_) if self.fields.is_empty() => Ok(()),
            Event::DocumentStart(_) => Err(NotYaml),
            Event::Scalar(text, style, anchor, _) => {
                let is_null = style == ScalarStyle::Plain
                    && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let field = match is_null {
                    true => Field::Null,
                    false => Field::Text(text.into_owned()),
                };
                if anchor > 0 {
                    self.anchors.insert(anchor, field.clone());
                }
                self.scalar(field)
            }
            Event::Alias(anchor) => {
                let field = self.anchors.get(&anchor).cloned();
                self.scalar(field.unwrap_or(Field::Unreadable))
            }
            Event::MappingStart(..) => self.begin(Field::Unreadable),
            Event::SequenceStart(..) => self.begin(Field::List(Vec::new())),
            Event::MappingEnd | Event::SequenceEnd => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 1
                    && let Some((key, value)) = self.key.take().zip(self.value.take())
                {
                    self.fields.push((key, value));
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, value: Field) -> Result<(), NotYaml> {
        match self.depth {
            0 if value != Field::Unreadable => return Err(NotYaml),
            0 => {}
            // A key that is not text.
            1 if self.key.is_none() => return Err(NotYaml),
            1 => self.value = Some(value),
            _ => self.value = Some(Field::Unreadable),
        }
        self.depth += 1;
        Ok(())
    }

    fn scalar(&mut self, field: Field) -> Result<(), NotYaml> {
        match (self.depth, self.key.take()) {
            (0, _) => return Err(NotYaml),
            (1, Some(key)) => self.fields.push((key, field)),
            (1, None) => {
                let Field::Text(key) = field else {
                    return Err(NotYaml);
                };
                self.key = Some(key);
            }
            (depth, key) => {
                self.key = key;
                match (&mut self.value, field) {
                    (Some(Field::List(list)), Field::Text(text)) if depth == 2 => list.push(text),
                    (value, _) => *value = Some(Field::Unreadable),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, field};

    fn list(names: &[&str]) -> Field {
        Field::List(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn lists_of_every_shape_are_read() {
        let two = list(&["Read", "Grep"]);
        let shapes = [
            "tools: [Read, Grep]",
            "tools: [ 'Read', \"Grep\" ] # both",
            "tools:\n- Read\n- Grep",
            "tools:\n  - Read\n  - Grep",
            "tools: # these\n  - Read # one\n\n  # and\n  - \"Grep\"\nmodel: x",
            "tools: [\n  Read,\n  Grep,\n]",
            "name: a\ntools:\n- Read\n- Grep\ndescription: b",
            "description: Use when: x\ntools:\n- Read\n- Grep\nmodel: y",
            "description: Use when: x\ntools: [Read, Grep]",
            "{name: x, tools: [Read, Grep]}",
            "\"tools\": [Read, Grep]",
            "Tools: [Read, Grep]",
            "  name: x\n  tools: [Read, Grep]",
            "tools: [&a Read, Grep]",
        ];
        for shape in shapes {
            assert_eq!(field(shape, "tools"), two, "{shape}");
        }
        assert_eq!(field("tools: []", "tools"), list(&[]));
        assert_eq!(field("a: &x Read\ntools: [*x]", "tools"), list(&["Read"]));
    }

    #[test]
    fn texts_and_nothing_are_read() {
        let text = |text: &str| Field::Text(text.to_owned());
        let shapes = [
            ("tools: Read, Grep", text("Read, Grep")),
            ("tools: Read, Grep # two", text("Read, Grep")),
            ("tools: \"*\"", text("*")),
            ("tools: 'Read # no comment'", text("Read # no comment")),
            ("tools: >\n  Read,\n  Grep", text("Read, Grep\n")),
            ("tools:", Field::Null),
            ("tools: null", Field::Null),
            ("tools: ~ # none", Field::Null),
            ("name: x\ndescription: y", Field::Absent),
            ("description: Use when: x", Field::Absent),
            ("metadata:\n  tools: x", Field::Absent),
            ("", Field::Absent),
        ];
        for (shape, expected) in shapes {
            let found = field(shape, "tools");
            let found = if let (Field::Text(text), true) = (&found, shape.contains('>')) {
                Field::Text(text.trim_end().to_owned() + "\n")
            } else {
                found
            };
            assert_eq!(found, expected, "{shape}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_absent() {
        let deep = format!("tools: {}", "[".repeat(2_000));
        let shapes = [
            "tools: [Read, Grep",
            "tools:\n\t- Read",
            "tools: *",
            "tools: *missing",
            "tools:\n  read: true",
            "tools:\n  - [Read]",
            "tools:\n  - name: Read",
            "tools: [null]",
            "tools:Read: x",
            "tools: Read\ntools: Grep",
            "description: Use when: x\ntools: Read\nTools: Grep",
            "description: Use when: x\n  tools: Read",
            "list: &l [Read]\ntools: *l",
            &deep,
        ];
        for shape in shapes {
            assert_eq!(field(shape, "tools"), Field::Unreadable, "{shape:.80}");
        }
    }
}
