//! What a prompt asks for, if it has one of the forms the offline assistant knows.

use serde_json::{Value, json};

/// A form of request: how it is written and the tool that carries it out.
pub(super) struct Form {
    /// How people write it.
    pub(super) usage: &'static str,
    /// What it does.
    pub(super) purpose: &'static str,
    /// The tool it needs.
    pub(super) tool: &'static str,
    /// The words it may begin with.
    verbs: &'static [&'static str],
    /// Reads what follows the verb.
    parse: for<'a> fn(&'a str) -> Option<Request<'a>>,
}

/// All forms that take a tool. The order is the order of help.
pub(super) const FORMS: &[Form] = &[
    Form {
        usage: "read FILE",
        purpose: "show a file",
        tool: "read",
        verbs: &["read", "show", "cat", "open"],
        parse: |rest| one_name(rest).map(|path| Request::Read { path }),
    },
    Form {
        usage: "summarise FILE",
        purpose: "its headings, first lines and counts",
        tool: "read",
        verbs: &["summarise", "summarize", "summary"],
        parse: |rest| one_name(rest).map(|path| Request::Summarise { path }),
    },
    Form {
        usage: "list [DIR]",
        purpose: "what is in a directory",
        tool: "list",
        verbs: &["list", "ls", "dir"],
        parse: |rest| directory(rest).map(|path| Request::List { path }),
    },
    Form {
        usage: "find WORD",
        purpose: "files with WORD in their name",
        tool: "glob",
        verbs: &["find", "locate"],
        parse: |rest| one_name(rest).map(|word| Request::Find { word }),
    },
    Form {
        usage: "search TEXT",
        purpose: "lines that contain TEXT",
        tool: "grep",
        verbs: &["search", "grep"],
        parse: |rest| words(rest).map(|text| Request::Search { text }),
    },
    Form {
        usage: "write FILE TEXT",
        purpose: "a new file",
        tool: "write",
        verbs: &["write"],
        parse: write,
    },
    Form {
        usage: "edit FILE replace A with B",
        purpose: "change one place in a file",
        tool: "edit",
        verbs: &["edit"],
        parse: edit,
    },
    Form {
        usage: "run COMMAND",
        purpose: "a shell command",
        tool: "bash",
        verbs: &["run", "execute", "bash"],
        parse: |rest| words(rest).map(|command| Request::Run { command }),
    },
    Form {
        usage: "fetch URL",
        purpose: "a web page as text",
        tool: "web_fetch",
        verbs: &["fetch", "download"],
        parse: |rest| url(rest).map(|url| Request::Fetch { url }),
    },
];

/// What a prompt asks for. Paths, words and texts are the prompt's own.
#[derive(Debug, PartialEq)]
pub(super) enum Request<'a> {
    Read {
        path: &'a str,
    },
    Summarise {
        path: &'a str,
    },
    List {
        path: Option<&'a str>,
    },
    Find {
        word: &'a str,
    },
    Search {
        text: &'a str,
    },
    Write {
        path: &'a str,
        content: &'a str,
    },
    Edit {
        path: &'a str,
        old: &'a str,
        new: &'a str,
    },
    Run {
        command: &'a str,
    },
    Fetch {
        url: &'a str,
    },
    Help,
    Greeting,
    /// A known verb whose rest is missing or not understood.
    Incomplete {
        usage: &'static str,
    },
    /// Anything else: what only a model could answer.
    Other,
}

impl<'a> Request<'a> {
    /// Reads a prompt, plain (`please read README.md`) or as a slash form (`/read README.md`).
    pub(super) fn understand(prompt: &'a str) -> Self {
        let prompt = without_politeness(prompt.trim());
        if is_greeting(prompt) {
            return Self::Greeting;
        }
        if is_call_for_help(prompt) {
            return Self::Help;
        }
        let is_slash = prompt.starts_with('/');
        let (verb, rest) = first_word(prompt.strip_prefix('/').unwrap_or(prompt));
        let verb = verb.to_ascii_lowercase();
        let Some(form) = FORMS
            .iter()
            .find(|form| form.verbs.contains(&verb.as_str()))
        else {
            return Self::Other;
        };
        (form.parse)(rest).unwrap_or_else(|| {
            // A slash, or the bare verb, is meant for us; a longer sentence is meant for a model.
            let is_meant_for_us = is_slash || rest.is_empty() || form.tool == "edit";
            if is_meant_for_us {
                Self::Incomplete { usage: form.usage }
            } else {
                Self::Other
            }
        })
    }

    pub(super) fn is_edit(&self) -> bool {
        matches!(self, Self::Edit { .. })
    }

    /// The tool that is called first, and its input: a file is read before it is edited.
    pub(super) fn first_tool(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Edit { path, .. } => Some(("read", json!({ "path": path }))),
            Self::Read { .. }
            | Self::Summarise { .. }
            | Self::List { .. }
            | Self::Find { .. }
            | Self::Search { .. }
            | Self::Write { .. }
            | Self::Run { .. }
            | Self::Fetch { .. }
            | Self::Help
            | Self::Greeting
            | Self::Incomplete { .. }
            | Self::Other => self.tool(),
        }
    }

    /// The tool that carries the request out, and its input.
    pub(super) fn tool(&self) -> Option<(&'static str, Value)> {
        Some(match *self {
            Self::Read { path } | Self::Summarise { path } => ("read", json!({ "path": path })),
            Self::List { path: None } => ("list", json!({})),
            Self::List { path: Some(path) } => ("list", json!({ "path": path })),
            Self::Find { word } => ("glob", json!({ "pattern": name_pattern(word) })),
            Self::Search { text } => ("grep", json!({ "pattern": literal_pattern(text) })),
            Self::Write { path, content } => ("write", json!({ "path": path, "content": content })),
            Self::Edit { path, old, new } => {
                ("edit", json!({ "path": path, "old": old, "new": new }))
            }
            Self::Run { command } => ("bash", json!({ "command": command })),
            Self::Fetch { url } => ("web_fetch", json!({ "url": url })),
            Self::Help | Self::Greeting | Self::Incomplete { .. } | Self::Other => return None,
        })
    }
}

fn without_politeness(mut prompt: &str) -> &str {
    const POLITE: &[&str] = &["please ", "can you ", "could you ", "would you "];
    while let Some(rest) = POLITE
        .iter()
        .find_map(|polite| strip_prefix_ci(prompt, polite))
    {
        prompt = rest.trim_start();
    }
    let end = prompt.trim_end_matches(['?', '!', ' ']);
    match end.len().checked_sub("please".len()) {
        Some(at) if end.is_char_boundary(at) && end[at..].eq_ignore_ascii_case("please") => {
            end[..at].trim_end_matches([' ', ','])
        }
        _ => prompt,
    }
}

fn is_greeting(prompt: &str) -> bool {
    const GREETINGS: &[&str] = &[
        "hi",
        "hello",
        "hey",
        "hi there",
        "hello there",
        "good morning",
        "good afternoon",
        "good evening",
        "hello world",
        "hallo",
        "moin",
    ];
    is_one_of(prompt, GREETINGS)
}

fn is_call_for_help(prompt: &str) -> bool {
    const CALLS: &[&str] = &[
        "help",
        "/help",
        "what can you do",
        "what can you do for me",
        "what do you do",
        "who are you",
        "what are you",
        "help me",
        "you do",
    ];
    is_one_of(prompt, CALLS)
}

fn is_one_of(prompt: &str, phrases: &[&str]) -> bool {
    let bare = prompt.trim_end_matches(['?', '!', '.', ',', ' ']);
    phrases
        .iter()
        .any(|phrase| phrase.eq_ignore_ascii_case(bare))
}

fn strip_prefix_ci<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}

fn first_word(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text, ""),
    }
}

/// The first name, quoted or not, and what follows it as it stands.
fn first_name(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next()?;
    if matches!(quote, '"' | '\'' | '`') {
        let (name, rest) = text[1..].split_once(quote)?;
        return (!name.is_empty()).then_some((name, rest));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    Some((&text[..end], &text[end..]))
}

/// A name that is all there is, perhaps after `the file`.
fn one_name(text: &str) -> Option<&str> {
    let mut text = text;
    for filler in ["me ", "the ", "file ", "files named ", "files called "] {
        text = strip_prefix_ci(text, filler).unwrap_or(text);
    }
    let (name, rest) = first_name(text)?;
    let name = name.trim_end_matches(['?', '!', ',']);
    (rest.trim().is_empty() && !name.is_empty()).then_some(name)
}

/// The directory of `list`, `list DIR`, `list the files in DIR`.
fn directory(text: &str) -> Option<Option<&str>> {
    let mut text = text.trim_end_matches(['?', '!']);
    for filler in ["all ", "the ", "files", "directory", "in ", "the "] {
        text = strip_prefix_ci(text, filler).unwrap_or(text).trim_start();
    }
    match text.trim() {
        "" | "here" => Some(None),
        name => one_name(name).map(Some),
    }
}

/// One or more words; quotes around all of them are dropped.
fn words(text: &str) -> Option<&str> {
    let text = strip_prefix_ci(text, "for ").unwrap_or(text).trim();
    let bare = match first_name(text) {
        Some((name, "")) => name,
        _ => text,
    };
    (!bare.is_empty()).then_some(bare)
}

fn write(text: &str) -> Option<Request<'_>> {
    let (path, content) = first_name(text)?;
    let path = path.trim_end_matches(':');
    // One white space parts name and text; the rest of it belongs to the text.
    let content = content.strip_prefix(':').unwrap_or(content);
    let content = content
        .strip_prefix("\r\n")
        .or_else(|| content.strip_prefix(char::is_whitespace))?;
    (!path.is_empty() && !content.is_empty()).then_some(Request::Write { path, content })
}

fn edit(text: &str) -> Option<Request<'_>> {
    let (path, rest) = first_name(text)?;
    let rest = strip_prefix_ci(rest.trim_start(), "replace ")?.trim_start();
    let (old, new) = match first_name(rest) {
        Some((old, rest_of_it)) if rest.starts_with(['"', '\'', '`']) => {
            (old, strip_prefix_ci(rest_of_it, " with ")?)
        }
        _ => rest.split_once(" with ")?,
    };
    let new = match first_name(new.trim()) {
        Some((name, "")) => name,
        _ => new.trim(),
    };
    let new = if matches!(new, "\"\"" | "''" | "``") {
        ""
    } else {
        new
    };
    (!old.is_empty()).then_some(Request::Edit { path, old, new })
}

fn url(text: &str) -> Option<&str> {
    let name = one_name(text)?;
    let is_url = ["http://", "https://"]
        .iter()
        .any(|scheme| strip_prefix_ci(name, scheme).is_some());
    is_url.then_some(name)
}

/// A glob for names that contain `word`; a word that is a glob already stays as it is.
fn name_pattern(word: &str) -> String {
    if word.contains(['*', '?', '[', '{']) {
        if word.contains('/') {
            word.to_owned()
        } else {
            format!("**/{word}")
        }
    } else {
        format!("**/*{word}*")
    }
}

/// A regular expression that matches `text` and nothing else.
fn literal_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}
