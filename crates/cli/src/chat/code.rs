//! Source code in colour: a small lexer that knows what strings, comments, numbers and keywords look
//! like in most languages, one line at a time.

use super::text::{Line, Style};

/// How a language writes things.
#[derive(Clone, Copy, Debug)]
struct Language {
    names: &'static [&'static str],
    /// What begins a comment that ends with the line.
    comments: &'static [&'static str],
    /// Whether `/* … */` is one.
    has_block_comments: bool,
    quotes: &'static [char],
    keywords: &'static [&'static str],
}

const C_LIKE: &[&str] = &[
    "abstract",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "final",
    "finally",
    "for",
    "from",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "of",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "struct",
    "super",
    "switch",
    "this",
    "throw",
    "throws",
    "true",
    "try",
    "type",
    "typedef",
    "typeof",
    "undefined",
    "union",
    "unsigned",
    "using",
    "var",
    "void",
    "while",
    "yield",
    "int",
    "char",
    "bool",
    "float",
    "double",
    "long",
    "short",
    "namespace",
    "template",
    "virtual",
];

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        comments: &["//"],
        has_block_comments: true,
        quotes: &['"'],
        keywords: &[
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum",
            "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod",
            "move", "mut", "pub", "ref", "return", "self", "Self", "static", "struct", "super",
            "trait", "true", "type", "unsafe", "use", "where", "while", "None", "Some", "Ok",
            "Err",
        ],
    },
    Language {
        names: &["python", "py"],
        comments: &["#"],
        has_block_comments: false,
        quotes: &['"', '\''],
        keywords: &[
            "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
            "elif", "else", "except", "False", "finally", "for", "from", "global", "if", "import",
            "in", "is", "lambda", "None", "nonlocal", "not", "or", "pass", "raise", "return",
            "self", "True", "try", "while", "with", "yield", "match", "case",
        ],
    },
    Language {
        names: &["go", "golang"],
        comments: &["//"],
        has_block_comments: true,
        quotes: &['"', '\'', '`'],
        keywords: &[
            "break",
            "case",
            "chan",
            "const",
            "continue",
            "default",
            "defer",
            "else",
            "false",
            "for",
            "func",
            "go",
            "goto",
            "if",
            "import",
            "interface",
            "map",
            "nil",
            "package",
            "range",
            "return",
            "select",
            "struct",
            "switch",
            "true",
            "type",
            "var",
        ],
    },
    Language {
        names: &["sh", "bash", "shell", "zsh", "console", "fish"],
        comments: &["#"],
        has_block_comments: false,
        quotes: &['"', '\''],
        keywords: &[
            "case", "do", "done", "elif", "else", "esac", "exit", "export", "fi", "for",
            "function", "if", "in", "local", "return", "set", "then", "until", "while",
        ],
    },
    Language {
        names: &[
            "toml",
            "yaml",
            "yml",
            "ini",
            "conf",
            "dockerfile",
            "make",
            "makefile",
        ],
        comments: &["#", ";"],
        has_block_comments: false,
        quotes: &['"', '\''],
        keywords: &["true", "false", "null", "yes", "no"],
    },
    Language {
        names: &["sql"],
        comments: &["--"],
        has_block_comments: true,
        quotes: &['\'', '"'],
        keywords: &[
            "select", "from", "where", "insert", "into", "values", "update", "set", "delete",
            "create", "table", "index", "drop", "alter", "join", "left", "inner", "outer", "on",
            "group", "order", "by", "limit", "and", "or", "not", "null", "as", "distinct",
            "SELECT", "FROM", "WHERE", "INSERT", "INTO", "VALUES", "UPDATE", "SET", "DELETE",
            "CREATE", "TABLE", "INDEX", "DROP", "ALTER", "JOIN", "LEFT", "INNER", "OUTER", "ON",
            "GROUP", "ORDER", "BY", "LIMIT", "AND", "OR", "NOT", "NULL", "AS", "DISTINCT",
        ],
    },
    Language {
        names: &[
            "js",
            "javascript",
            "ts",
            "typescript",
            "tsx",
            "jsx",
            "json",
            "jsonc",
        ],
        comments: &["//"],
        has_block_comments: true,
        quotes: &['"', '\'', '`'],
        keywords: C_LIKE,
    },
    Language {
        names: &[
            "c", "cpp", "c++", "h", "hpp", "java", "kotlin", "kt", "swift", "cs", "csharp", "php",
            "scala", "css", "dart", "zig",
        ],
        comments: &["//"],
        has_block_comments: true,
        quotes: &['"', '\''],
        keywords: C_LIKE,
    },
];

/// What colours the lines of one block of code.
#[derive(Clone, Debug, Default)]
pub(super) struct Lexer {
    language: Option<Language>,
    is_in_comment: bool,
}

impl Lexer {
    /// For a language by the name or the ending of file names that it goes by.
    pub(super) fn new(name: &str) -> Self {
        let name = name.trim().to_ascii_lowercase();
        let found = LANGUAGES
            .iter()
            .find(|language| language.names.contains(&name.as_str()));
        Self {
            language: found.copied(),
            is_in_comment: false,
        }
    }

    /// The next line in colour, after `before`.
    pub(super) fn line(&mut self, before: Line, code: &str) -> Line {
        let Some(language) = self.language else {
            return before.with(Style::Code, code);
        };
        let mut line = before;
        let mut rest = code;
        while !rest.is_empty() {
            let (style, length) = self.piece(language, rest);
            let (piece, after) = rest.split_at(length);
            line.push(style, piece);
            rest = after;
        }
        line
    }

    /// What comes first in `rest`, and how many bytes of it: at least one character.
    fn piece(&mut self, language: Language, rest: &str) -> (Style, usize) {
        if self.is_in_comment {
            let end = rest.find("*/").map(|at| at + 2);
            self.is_in_comment = end.is_none();
            return (Style::Comment, end.unwrap_or(rest.len()));
        }
        if language
            .comments
            .iter()
            .any(|start| rest.starts_with(start))
        {
            return (Style::Comment, rest.len());
        }
        if language.has_block_comments && rest.starts_with("/*") {
            self.is_in_comment = true;
            return (Style::Comment, 2);
        }
        let Some(first) = rest.chars().next() else {
            return (Style::Plain, 0);
        };
        if language.quotes.contains(&first) {
            return (Style::Literal, quoted(rest, first));
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if !is_word(first) {
            return (Style::Plain, first.len_utf8());
        }
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        let style = match first {
            '0'..='9' => Style::Number,
            _ if language.keywords.contains(&word) => Style::Keyword,
            _ => Style::Plain,
        };
        (style, length)
    }
}

/// The bytes of a string that begins `text`, up to its end or that of the line.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::super::text::{Line, Paint};
    use super::Lexer;

    fn painted(language: &str, lines: &[&str]) -> Vec<String> {
        let mut lexer = Lexer::new(language);
        let lines = lines.iter();
        lines
            .map(|code| lexer.line(Line::default(), code).painted(Paint::Coloured))
            .collect()
    }

    #[test]
    fn words_strings_numbers_and_comments_have_their_colours() {
        assert_eq!(
            painted("rust", &["let x = \"a\\\"b\" + 12; // done"]),
            [
                "\x1b[35mlet\x1b[0m x = \x1b[32m\"a\\\"b\"\x1b[0m + \x1b[33m12\x1b[0m; \x1b[2;3m// done\x1b[0m"
            ]
        );
        assert_eq!(
            painted("c", &["a /* b", "c */ d"]),
            ["a \x1b[2;3m/* b\x1b[0m", "\x1b[2;3mc */\x1b[0m d"]
        );
    }

    #[test]
    fn every_character_of_the_code_is_there() {
        for language in ["rust", "python", "nothing known", "json"] {
            for code in [
                "",
                "'",
                "\"open \\",
                "é + 'ü' # ä",
                "a/*b*/c",
                "日本 = \"語\"",
            ] {
                let line = Lexer::new(language).line(Line::default(), code);
                assert_eq!(line.plain(), code, "{language}");
            }
        }
    }
}
