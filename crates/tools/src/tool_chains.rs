//! Where tool chains live: the variables that name their directories, which commands are told and the
//! sandbox shows, and what of those directories is needed.
//!
//! Tools keep credentials beside what they need, in files with names that change. So only the parts
//! listed here are shown; whatever else is there, or comes with the next version, is not.

use Part::{All, Harmless, Named, Starting};

/// Part of a tool chain's directory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// All of it, except for names of credentials.
    All,
    /// What has this name.
    Named(&'static str),
    /// The settings with this name, unless there is a secret in them.
    Harmless(&'static str),
    /// What has a name that begins like this: a version follows.
    Starting(&'static str),
}

/// Variables whose values are directories of tool chains, or lists of such.
pub(crate) const DIRECTORIES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "JAVA_HOME",
    "GRADLE_USER_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "LD_LIBRARY_PATH",
];

/// Variables that name, in another place, a directory of which a home shows only parts.
const MOVED: &[(&str, &str)] = &[
    ("CARGO_HOME", ".cargo"),
    ("RUSTUP_HOME", ".rustup"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("NVM_DIR", ".nvm"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
];

/// The parts that are shown of a directory that `variable` names.
pub(crate) fn parts_of_variable(variable: &str) -> Option<&'static [Part]> {
    let moved = MOVED.iter().find(|(name, _)| *name == variable);
    moved.and_then(|(_, name)| parts_in_home(name))
}

/// The parts that are shown of the directory `name` in a home.
pub(crate) fn parts_in_home(name: &str) -> Option<&'static [Part]> {
    let found = IN_HOME.iter().find(|(known, _)| *known == name);
    found.map(|(_, parts)| *parts)
}

/// What a home shows although its name begins with a dot.
pub(crate) const IN_HOME: &[(&str, &[Part])] = &[
    (
        ".asdf",
        &[
            Named("asdf.sh"),
            Named("bin"),
            Named("installs"),
            Named("lib"),
            Named("plugins"),
            Named("shims"),
        ],
    ),
    (".bun", &[Named("bin"), Named("install")]),
    (".bundle", &[Named("cache"), Named("ruby")]),
    (".cabal", &[Named("bin"), Named("packages"), Named("store")]),
    (
        ".cache",
        &[
            Named("bazel"),
            Named("bazelisk"),
            Named("black"),
            Named("ccache"),
            Named("composer/files"),
            Named("composer/repo"),
            Named("composer/vcs"),
            Named("coursier/v1"),
            Named("Cypress"),
            Named("deno"),
            Named("electron"),
            Named("electron-builder"),
            Named("fontconfig"),
            Named("go-build"),
            Named("golangci-lint"),
            Named("gopls"),
            Named("huggingface/datasets"),
            Named("huggingface/hub"),
            Named("huggingface/modules"),
            Named("ms-playwright"),
            Named("node"),
            Named("node-gyp"),
            Named("pip"),
            Named("pnpm"),
            Named("pre-commit"),
            Named("puppeteer"),
            Named("pypoetry/artifacts"),
            Named("pypoetry/cache"),
            Named("pypoetry/virtualenvs"),
            Named("ruff"),
            Named("rust-analyzer"),
            Named("sccache"),
            Named("torch"),
            Named("typescript"),
            Named("uv"),
            Named("virtualenv"),
            Named("yarn"),
            Named("zig"),
        ],
    ),
    (
        ".cargo",
        &[
            Named("bin"),
            Named("env"),
            Named("git"),
            Named("registry"),
            Harmless("config"),
            Harmless("config.toml"),
        ],
    ),
    (".config/git/attributes", &[All]),
    (".config/git/ignore", &[All]),
    (".coursier", &[Named("bin"), Named("cache")]),
    (".deno", &[Named("bin"), Named("env")]),
    (
        ".dotnet",
        &[
            Named("dotnet"),
            Named("host"),
            Named("library-packs"),
            Named("packs"),
            Named("sdk"),
            Named("sdk-manifests"),
            Named("shared"),
            Named("templates"),
            Named("tools"),
        ],
    ),
    (
        ".elan",
        &[Named("bin"), Named("settings.toml"), Named("toolchains")],
    ),
    (".fnm", &[Named("aliases"), Named("node-versions")]),
    (".gem", &[Named("ruby"), Named("specs")]),
    (
        ".ghcup",
        &[
            Named("bin"),
            Named("env"),
            Named("ghc"),
            Named("hls"),
            Named("share"),
        ],
    ),
    (".gitignore", &[All]),
    (".gitignore_global", &[All]),
    (
        ".gradle",
        &[
            Named("caches"),
            Named("jdks"),
            Named("native"),
            Named("wrapper"),
        ],
    ),
    (
        ".jenv",
        &[
            Named("bin"),
            Named("libexec"),
            Named("plugins"),
            Named("shims"),
            Named("version"),
            Named("versions"),
        ],
    ),
    (
        ".julia",
        &[
            Named("artifacts"),
            Named("compiled"),
            Named("juliaup"),
            Named("packages"),
            Named("registries"),
        ],
    ),
    (
        ".juliaup",
        &[Named("bin"), Named("juliaup.json"), Starting("julia-")],
    ),
    (
        ".konan",
        &[
            Named("cache"),
            Named("dependencies"),
            Starting("kotlin-native-"),
        ],
    ),
    (".local/bin", &[All]),
    (".local/lib", &[All]),
    (
        ".local/share/fnm",
        &[Named("aliases"), Named("node-versions")],
    ),
    (".local/share/gem", &[Named("ruby"), Named("specs")]),
    (
        ".local/share/mise",
        &[
            Named("bin"),
            Named("installs"),
            Named("plugins"),
            Named("shims"),
        ],
    ),
    (
        ".local/share/pipx",
        &[Named("py"), Named("shared"), Named("venvs")],
    ),
    (".local/share/pnpm", &[All]),
    (".local/share/uv", &[Named("python"), Named("tools")]),
    (".local/share/virtualenv", &[All]),
    (".local/share/virtualenvs", &[All]),
    (".m2", &[Named("repository"), Named("wrapper")]),
    (".mise", &[Named("bin"), Named("installs"), Named("shims")]),
    (".node-gyp", &[All]),
    (
        ".npm",
        &[Named("_cacache"), Named("_npx"), Named("_prebuilds")],
    ),
    (".nuget", &[Named("packages")]),
    (
        ".nvm",
        &[
            Named("alias"),
            Named("nvm-exec"),
            Named("nvm.sh"),
            Named("versions"),
        ],
    ),
    (".nvmrc", &[All]),
    (".opam", &[All]),
    (".pnpm-store", &[All]),
    (
        ".pyenv",
        &[
            Named("bin"),
            Named("completions"),
            Named("libexec"),
            Named("plugins"),
            Named("pyenv.d"),
            Named("shims"),
            Named("version"),
            Named("versions"),
        ],
    ),
    (
        ".rbenv",
        &[
            Named("bin"),
            Named("libexec"),
            Named("plugins"),
            Named("rbenv.d"),
            Named("shims"),
            Named("version"),
            Named("versions"),
        ],
    ),
    (
        ".rustup",
        &[
            Named("settings.toml"),
            Named("toolchains"),
            Named("update-hashes"),
        ],
    ),
    (
        ".rvm",
        &[
            Named("VERSION"),
            Named("bin"),
            Named("config"),
            Named("environments"),
            Named("gems"),
            Named("lib"),
            Named("rubies"),
            Named("scripts"),
            Named("wrappers"),
        ],
    ),
    (
        ".sdkman",
        &[
            Named("bin"),
            Named("candidates"),
            Named("libexec"),
            Named("src"),
            Named("var"),
        ],
    ),
    (
        ".stack",
        &[
            Named("global-project"),
            Named("pantry"),
            Named("programs"),
            Named("snapshots"),
            Harmless("config.yaml"),
            Starting("setup-exe-"),
            Starting("stack.sqlite3"),
        ],
    ),
    (".swiftpm", &[Named("cache")]),
    (".terminfo", &[All]),
    (".tool-versions", &[All]),
    (
        ".volta",
        &[Named("bin"), Named("tools"), Starting("layout.v")],
    ),
    (".yarn", &[Named("berry"), Named("bin"), Named("cache")]),
];
