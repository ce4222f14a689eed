//! Where bash runs commands that are checked: its `PATH` has nothing but programs that write down how they
//! were called, and a few real ones that start others.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::shell::Word;

/// Programs that write down how they were called. Those that begin with `no` fail.
pub(super) const RECORDERS: &[&str] =
    &["cat", "find", "git", "ls", "no", "rm", "sort", "touch", "x"];

/// Builtins that commands here have.
pub(super) const BUILTINS: &[&str] = &[":", "cd", "echo", "false", "printf", "pwd", "true"];

/// Real programs that start others, if the machine has them.
const STARTERS: &[&str] = &["bash", "nice", "nohup", "sh", "stdbuf", "timeout"];

/// Files in the directory where commands run. Some have names that mean something elsewhere.
const FILES: &[&str] = &[
    "a.txt",
    "ab",
    "b c",
    "-exec",
    "-rf",
    "a;touch P",
    "a$(touch P)",
    "~",
    "{a,b}",
    "src/x.rs",
    "src/y.rs",
    "src/-delete",
];

/// Most output that is read; there should be none but complaints.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;

/// A directory for commands, and what stands in it.
#[derive(Debug)]
pub struct Jail {
    top: PathBuf,
    shell: PathBuf,
    files: Vec<String>,
}

/// What a command did.
pub(super) struct Ran {
    /// Each program with its arguments.
    pub(super) programs: Vec<Vec<String>>,
    /// What became of the files, if that is another thing than nothing.
    pub(super) change: Option<String>,
}

impl Jail {
    /// One in the empty directory `top`.
    ///
    /// # Errors
    /// If it cannot be set up, or there is no bash.
    pub fn new(top: &Path) -> Result<Self, String> {
        let shell = find("bash").ok_or("there is no bash in /bin or /usr/bin")?;
        let mut jail = Self {
            top: top.to_owned(),
            shell,
            files: Vec::new(),
        };
        jail.fill()
            .map_err(|error| format!("cannot set up {}: {error}", top.display()))?;
        jail.files = jail.listing()?;
        Ok(jail)
    }

    fn fill(&self) -> std::io::Result<()> {
        let (programs, work) = (self.top.join("bin"), self.top.join("work"));
        fs::create_dir_all(&programs)?;
        fs::create_dir_all(work.join("src"))?;
        let log = self.top.join("log");
        let recorder = format!(
            // It reads its input to the end, so that nothing that writes to it is stopped.
            "#!/bin/sh\nprintf '%s\\0' \"$#\" \"$0\" \"$@\" >> '{}'\nwhile read -r _; do :; done\n\
             case ${{0##*/}} in no*) exit 1;; esac\n",
            log.display()
        );
        for name in RECORDERS {
            write_program(&programs.join(name), &recorder)?;
        }
        for directory in ["", "src"] {
            write_program(&work.join(directory).join("git"), &recorder)?;
        }
        // So that going there works from there, too.
        std::os::unix::fs::symlink(".", work.join("src/src"))?;
        for name in STARTERS {
            if let Some(real) = find(name) {
                std::os::unix::fs::symlink(real, programs.join(name))?;
            }
        }
        for name in FILES {
            fs::write(work.join(name), "")?;
        }
        fs::write(log, "")
    }

    /// Where bash finds the program called `name`.
    pub(super) fn program(&self, name: &str) -> String {
        self.top
            .join("bin")
            .join(name)
            .to_string_lossy()
            .into_owned()
    }

    /// Whether `path` is the program `file` in the directory where commands run, or in the one beneath.
    pub(super) fn is_own(&self, path: &str, file: &str) -> bool {
        let work = self.top.join("work");
        ["", "src", "src/src"]
            .iter()
            .any(|directory| work.join(directory).join(file) == Path::new(path))
    }

    /// Runs `text` as the tool `bash` does, and waits for all that it starts.
    pub(super) fn run(&self, text: &str) -> Result<Ran, String> {
        let failed = |what: &str| format!("{text:?}: cannot {what}");
        let log = self.top.join("log");
        fs::write(&log, "").map_err(|_| failed("empty the log"))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "this compares a reader with the real bash; it is never shipped"
        )]
        let started = Command::new("/bin/sh")
            // A descriptor that no command here closes tells when the last of its processes has ended.
            // A shell whose output has no reader goes on, or what it runs would be a matter of chance.
            .args([
                "-c",
                "ulimit -t 10; trap '' PIPE; exec 8>&1 \"$1\" -c \"$2\"",
                "sh",
            ])
            .arg(&self.shell)
            .arg(text)
            .current_dir(self.top.join("work"))
            .env_clear()
            .env("PATH", self.top.join("bin"))
            .env("HOME", self.top.join("work"))
            .env("x", "touch P")
            .env("y", "a[$(touch P)]")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = started.map_err(|_| failed("start bash"))?;
        if let Some(output) = child.stdout.take() {
            let mut output = output.take(OUTPUT_BYTES_MAX);
            output
                .read_to_end(&mut Vec::new())
                .map_err(|_| failed("read the output"))?;
        }
        child.wait().map_err(|_| failed("wait for bash"))?;
        let log = fs::read(&log).map_err(|_| failed("read the log"))?;
        let files = self.listing()?;
        let new = files.iter().find(|file| !self.files.contains(file));
        let gone = self.files.iter().find(|file| !files.contains(file));
        Ok(Ran {
            programs: records(&log),
            change: match (new, gone) {
                (Some(new), _) => Some(format!("made {new:?}")),
                (None, Some(gone)) => Some(format!("removed {gone:?}")),
                (None, None) => None,
            },
        })
    }

    /// What lies in the directory where commands run, and how large it is.
    fn listing(&self) -> Result<Vec<String>, String> {
        let mut files = Vec::new();
        for directory in ["work", "work/src"] {
            let entries =
                fs::read_dir(self.top.join(directory)).map_err(|error| error.to_string())?;
            for entry in entries.flatten() {
                let size = entry
                    .metadata()
                    .map_or(0, |metadata| match metadata.is_file() {
                        true => metadata.len(),
                        false => 0,
                    });
                files.push(format!(
                    "{directory}/{} {size}",
                    entry.file_name().display()
                ));
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Whether a command succeeds in the jail, if that is known.
pub(super) fn is_success(words: &[Word]) -> Option<bool> {
    let name = words.first()?.text.as_str();
    let program = name.rsplit('/').next()?;
    match name {
        "false" => Some(false),
        ":" | "true" | "echo" | "pwd" => Some(true),
        "cd" => match words
            .get(1..)?
            .iter()
            .map(|word| word.text.as_str())
            .collect::<Vec<_>>()[..]
        {
            ["src"] => Some(true),
            _ => None,
        },
        "git" | "./git" => Some(true),
        _ if name == program && RECORDERS.contains(&program) => Some(!program.starts_with("no")),
        _ => None,
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let paths = ["/bin", "/usr/bin"].map(|directory| Path::new(directory).join(name));
    paths.into_iter().find(|path| path.is_file())
}

fn write_program(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// The log as what was called: a count of arguments, a program, its arguments.
fn records(log: &[u8]) -> Vec<Vec<String>> {
    let fields = log.split(|byte| *byte == 0);
    let mut fields = fields.map(|field| String::from_utf8_lossy(field).into_owned());
    let mut records = Vec::new();
    while let Some(count) = fields.next().and_then(|count| count.parse::<usize>().ok()) {
        records.push(fields.by_ref().take(count + 1).collect());
    }
    records
}
