//! Where tool chains live: the variables that name their directories, which commands are told and the
//! sandbox shows.

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
