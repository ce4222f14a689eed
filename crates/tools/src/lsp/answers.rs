//! What language servers answer, as far as it is used: read into small types, with everything
//! else skipped, so that a large answer takes no more memory than its bytes.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::position::Encoding;

/// What a server found.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Places in files.
    Places(Vec<Place>),
    /// What a file declares.
    Symbols(Vec<Symbol>),
    /// What is wrong with a file.
    Problems(Vec<Problem>),
    /// What there is to say about something.
    Said(String),
}

impl Answer {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Places(places) => places.is_empty(),
            Self::Symbols(symbols) => symbols.is_empty(),
            Self::Problems(problems) => problems.is_empty(),
            Self::Said(text) => text.is_empty(),
        }
    }
}

/// A place in a file, as the server counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub uri: String,
    /// Where it begins.
    pub start: Position,
}

/// Where something begins, as the server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Position {
    /// From zero.
    #[serde(default)]
    pub line: u32,
    /// From zero, in units of the encoding.
    #[serde(default)]
    pub character: u32,
}

/// Something that a file declares.
#[derive(Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// The protocol's number for what it is.
    pub kind: u32,
    /// Where its name stands.
    pub start: Position,
    /// How deep it lies in others.
    pub depth: usize,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// Where.
    range: Range,
    /// How bad, from one; one is an error.
    #[serde(default)]
    pub severity: Option<u32>,
    /// What.
    #[serde(default)]
    pub message: String,
    /// Who says so.
    #[serde(default)]
    pub source: Option<String>,
}

impl Problem {
    /// Where it begins.
    #[must_use]
    pub fn start(&self) -> Position {
        self.range.start
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Range {
    start: Position,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Where something is defined.
    #[serde(alias = "definition")]
    Definitions,
    /// Where it is used.
    References,
    /// What a file declares.
    #[serde(alias = "documentSymbols")]
    Symbols,
    /// What is wrong with a file.
    Diagnostics,
    /// What there is to say about something.
    Hover,
}

impl Operation {
    /// Whether it is about a place in the file.
    #[must_use]
    pub fn is_about_a_place(self) -> bool {
        match self {
            Self::Definitions | Self::References | Self::Hover => true,
            Self::Symbols | Self::Diagnostics => false,
        }
    }

    /// The name that a model uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Definitions => "definitions",
            Self::References => "references",
            Self::Symbols => "symbols",
            Self::Diagnostics => "diagnostics",
            Self::Hover => "hover",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Definitions => "textDocument/definition",
            Self::References => "textDocument/references",
            Self::Symbols => "textDocument/documentSymbol",
            Self::Diagnostics => "textDocument/diagnostic",
            Self::Hover => "textDocument/hover",
        }
    }

    /// Reads a server's answer; it is `None` if it has another form than the protocol's.
    pub(super) fn read(self, result: &str) -> Option<Answer> {
        match self {
            Self::Definitions | Self::References => places(result).map(Answer::Places),
            Self::Symbols => symbols(result).map(Answer::Symbols),
            Self::Diagnostics => {
                let report: Report = serde_json::from_str(result).ok()?;
                Some(Answer::Problems(report.items))
            }
            Self::Hover => {
                let hover: Option<Hover> = serde_json::from_str(result).ok()?;
                let text = hover.map(|hover| hover.contents.text());
                Some(Answer::Said(text.unwrap_or_default()))
            }
        }
    }
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    items: Vec<Problem>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Found {
    Location {
        uri: String,
        range: Range,
    },
    #[serde(rename_all = "camelCase")]
    Link {
        target_uri: String,
        target_selection_range: Range,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> OneOrMany<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

fn places(result: &str) -> Option<Vec<Place>> {
    let found: Option<OneOrMany<Found>> = serde_json::from_str(result).ok()?;
    let found = found.map(OneOrMany::into_vec).unwrap_or_default();
    let place = |found| match found {
        Found::Location { uri, range } => Place {
            uri,
            start: range.start,
        },
        Found::Link {
            target_uri,
            target_selection_range,
        } => Place {
            uri: target_uri,
            start: target_selection_range.start,
        },
    };
    Some(found.into_iter().map(place).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Declared {
    name: String,
    #[serde(default)]
    kind: u32,
    #[serde(default)]
    selection_range: Option<Range>,
    #[serde(default)]
    location: Option<Within>,
    #[serde(default)]
    children: Vec<Self>,
}

#[derive(Deserialize)]
struct Within {
    range: Range,
}

/// What is declared, those within others after them.
fn symbols(result: &str) -> Option<Vec<Symbol>> {
    let declared: Option<Vec<Declared>> = serde_json::from_str(result).ok()?;
    let mut symbols = Vec::new();
    let mut waiting: Vec<(usize, Declared)> = Vec::new();
    waiting.extend(declared.into_iter().flatten().rev().map(|one| (0, one)));
    while let Some((depth, one)) = waiting.pop() {
        let range = one.selection_range.or(one.location.map(|at| at.range));
        symbols.push(Symbol {
            name: one.name,
            kind: one.kind,
            start: range.unwrap_or_default().start,
            depth,
        });
        waiting.extend(one.children.into_iter().rev().map(|one| (depth + 1, one)));
    }
    Some(symbols)
}

#[derive(Deserialize)]
struct Hover {
    contents: Contents,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Contents {
    Text(String),
    Marked { value: String },
    Several(Vec<Contents>),
}

impl Contents {
    fn text(self) -> String {
        match self {
            Self::Text(text) | Self::Marked { value: text } => text,
            Self::Several(parts) => {
                let parts: Vec<String> = parts.into_iter().map(Self::text).collect();
                parts.join("\n\n")
            }
        }
    }
}

/// What a server can do, from its answer to `initialize`.
#[derive(Debug, Default)]
pub(super) struct Abilities {
    pub(super) encoding: Encoding,
    operations: Vec<Operation>,
    /// Problems can be asked for; else they are told unasked.
    pub(super) answers_diagnostics: bool,
}

#[derive(Deserialize)]
struct Initialized {
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Capabilities {
    position_encoding: Option<String>,
    definition_provider: Option<Provider>,
    references_provider: Option<Provider>,
    document_symbol_provider: Option<Provider>,
    hover_provider: Option<Provider>,
    diagnostic_provider: Option<Provider>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Provider {
    Said(bool),
    Described(IgnoredAny),
}

impl Abilities {
    pub(super) fn read(result: &str) -> Option<Self> {
        let Initialized { capabilities } = serde_json::from_str(result).ok()?;
        let has = |provider: &Option<Provider>| match provider {
            Some(Provider::Said(is_there)) => *is_there,
            Some(Provider::Described(_)) => true,
            None => false,
        };
        let encoding = match &capabilities.position_encoding {
            Some(name) => Encoding::named(name)?,
            None => Encoding::default(),
        };
        let offered = [
            (Operation::Definitions, &capabilities.definition_provider),
            (Operation::References, &capabilities.references_provider),
            (Operation::Symbols, &capabilities.document_symbol_provider),
            (Operation::Hover, &capabilities.hover_provider),
        ];
        let offered = offered.into_iter().filter(|(_, provider)| has(provider));
        let operations = offered.map(|(operation, _)| operation);
        Some(Self {
            encoding,
            operations: operations.chain([Operation::Diagnostics]).collect(),
            answers_diagnostics: has(&capabilities.diagnostic_provider),
        })
    }

    pub(super) fn has(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }
}

#[cfg(test)]
mod tests;
