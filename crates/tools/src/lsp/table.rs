//! Which program knows which language, by the ends of file names.

use std::path::Path;

/// A language, or some that one server knows.
#[derive(Debug)]
pub struct Language {
    /// What settings call it.
    pub key: &'static str,
    /// What people call it.
    pub name: &'static str,
    /// Ends of file names, each with what the protocol calls the language of such a file.
    files: &'static [(&'static str, &'static str)],
    /// Programs that know it and their arguments; the first that is there is used.
    pub servers: &'static [&'static [&'static str]],
    /// How to get one.
    pub install: &'static str,
}

impl Language {
    /// The language of the file `path`, and the protocol's name for it.
    #[must_use]
    pub fn of(path: &Path) -> Option<(&'static Self, &'static str)> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        LANGUAGES.iter().find_map(|language| {
            let mut files = language.files.iter();
            let (_, id) = files.find(|(known, _)| *known == extension)?;
            Some((language, *id))
        })
    }

    /// The language that settings call `key`.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        LANGUAGES.iter().find(|language| language.key == key)
    }

    /// What settings call each of them.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        LANGUAGES.iter().map(|language| language.key)
    }

    /// The names of its servers.
    pub fn server_names(&self) -> impl Iterator<Item = &'static str> {
        self.servers
            .iter()
            .filter_map(|words| words.first().copied())
    }
}

const fn language(
    (key, name): (&'static str, &'static str),
    files: &'static [(&'static str, &'static str)],
    servers: &'static [&'static [&'static str]],
    install: &'static str,
) -> Language {
    Language {
        key,
        name,
        files,
        servers,
        install,
    }
}

/// Every language that we know a server for.
static LANGUAGES: &[Language] = &[
    language(
        ("rust", "Rust"),
        &[("rs", "rust")],
        &[&["rust-analyzer"]],
        "rustup component add rust-analyzer",
    ),
    language(
        ("python", "Python"),
        &[("py", "python"), ("pyi", "python")],
        &[
            &["pyright-langserver", "--stdio"],
            &["basedpyright-langserver", "--stdio"],
            &["pylsp"],
            &["jedi-language-server"],
        ],
        "pip install python-lsp-server",
    ),
    language(
        ("typescript", "TypeScript and JavaScript"),
        &[
            ("ts", "typescript"),
            ("mts", "typescript"),
            ("cts", "typescript"),
            ("tsx", "typescriptreact"),
            ("js", "javascript"),
            ("mjs", "javascript"),
            ("cjs", "javascript"),
            ("jsx", "javascriptreact"),
        ],
        &[&["typescript-language-server", "--stdio"]],
        "npm install -g typescript-language-server typescript",
    ),
    language(
        ("go", "Go"),
        &[("go", "go")],
        &[&["gopls"]],
        "go install golang.org/x/tools/gopls@latest",
    ),
    language(
        ("c", "C and C++"),
        &[
            ("c", "c"),
            ("h", "c"),
            ("cc", "cpp"),
            ("cpp", "cpp"),
            ("cxx", "cpp"),
            ("hh", "cpp"),
            ("hpp", "cpp"),
            ("hxx", "cpp"),
        ],
        &[&["clangd"]],
        "the package clangd of your system",
    ),
    language(
        ("java", "Java"),
        &[("java", "java")],
        &[&["jdtls"]],
        "the package jdtls of your system",
    ),
    language(
        ("csharp", "C#"),
        &[("cs", "csharp")],
        &[&["csharp-ls"]],
        "dotnet tool install --global csharp-ls",
    ),
    language(
        ("ruby", "Ruby"),
        &[("rb", "ruby")],
        &[&["ruby-lsp"], &["solargraph", "stdio"]],
        "gem install ruby-lsp",
    ),
    language(
        ("php", "PHP"),
        &[("php", "php")],
        &[
            &["intelephense", "--stdio"],
            &["phpactor", "language-server"],
        ],
        "npm install -g intelephense",
    ),
    language(
        ("shell", "Shell"),
        &[("sh", "shellscript"), ("bash", "shellscript")],
        &[&["bash-language-server", "start"]],
        "npm install -g bash-language-server",
    ),
    language(
        ("lua", "Lua"),
        &[("lua", "lua")],
        &[&["lua-language-server"]],
        "the package lua-language-server of your system",
    ),
    language(
        ("zig", "Zig"),
        &[("zig", "zig")],
        &[&["zls"]],
        "the package zls of your system",
    ),
    language(
        ("json", "JSON"),
        &[("json", "json"), ("jsonc", "jsonc")],
        &[&["vscode-json-language-server", "--stdio"]],
        "npm install -g vscode-langservers-extracted",
    ),
    language(
        ("yaml", "YAML"),
        &[("yaml", "yaml"), ("yml", "yaml")],
        &[&["yaml-language-server", "--stdio"]],
        "npm install -g yaml-language-server",
    ),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Language;

    #[test]
    fn a_language_is_known_by_the_end_of_a_file_s_name() {
        let name = |path| Language::of(Path::new(path)).map(|(language, id)| (language.name, id));
        assert_eq!(name("src/lib.rs"), Some(("Rust", "rust")));
        assert_eq!(
            name("A.TSX"),
            Some(("TypeScript and JavaScript", "typescriptreact"))
        );
        for unknown in ["Makefile", "rs", ".rs", "notes.txt", "x.rs/"] {
            let expected = (unknown == "x.rs/").then_some(("Rust", "rust"));
            assert_eq!(name(unknown), expected, "{unknown}");
        }
    }
}
