//! `fastness login` and `fastness logout`: storing and removing API keys.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use domain::limits::MODEL_KEY_BYTES_MAX;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::args::{LoginArgs, LogoutArgs};
use crate::keys::{self, KeyProvider, NotAKey};
use crate::render::{self, Exit, Failure};
use crate::settings::Settings;

/// Asks for a key, without showing it on a terminal, and stores it.
///
/// # Errors
/// If what was given is not an API key, or it cannot be stored.
pub(crate) fn run(args: &LoginArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    log_in(args.provider, settings)
}

/// The same for an editor, which runs `fastness acp --login` in a terminal.
///
/// # Errors
/// As for [`run`].
pub(crate) fn log_in(
    provider: Option<KeyProvider>,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let config_dir = config_dir(settings)?;
    let provider = match provider {
        Some(provider) => provider,
        None => ask_provider()?,
    };
    let key = match io::stdin().is_terminal() {
        true => {
            let prompt = format!("API key for {} (it is not shown): ", provider.name());
            typed(&prompt)?
        }
        false => piped()?,
    };
    let key = key.trim();
    provider
        .check(key)
        .map_err(|error| refused(provider, error))?;
    let path = keys::write(&config_dir, provider, key)?;
    let path = path.display();
    writeln!(
        render::stdout(),
        "The key for {} is stored in {path}.",
        provider.name()
    )?;
    if settings.environment.value(provider.variable()).is_some() {
        let variable = provider.variable();
        writeln!(
            io::stderr(),
            "note: {variable} is set here, and wins over the stored key"
        )?;
    }
    writeln!(
        io::stderr(),
        "note: a server or editor that runs already uses it after a restart"
    )?;
    Ok(Exit::Success.into())
}

/// Removes a stored key.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn log_out(args: &LogoutArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let provider = args.provider;
    let was_there = keys::remove(&config_dir(settings)?, provider)?;
    let name = provider.name();
    match was_there {
        true => writeln!(render::stdout(), "The stored key for {name} is removed.")?,
        false => writeln!(render::stdout(), "No key is stored for {name}.")?,
    }
    if settings.environment.value(provider.variable()).is_some() {
        let variable = provider.variable();
        writeln!(io::stderr(), "note: {variable} is still set here")?;
    }
    Ok(Exit::Success.into())
}

fn config_dir(settings: &Settings) -> anyhow::Result<std::path::PathBuf> {
    let directory = settings.operator.config_dir.clone();
    let missing = || Failure::usage("there is no place for keys: HOME is not set");
    Ok(directory.ok_or_else(missing)?)
}

fn refused(provider: KeyProvider, error: NotAKey) -> Failure {
    let place = match provider {
        KeyProvider::Anthropic => "console.anthropic.com",
        KeyProvider::Openai => "platform.openai.com",
    };
    let failure = Failure::usage(format!("{error}; nothing was stored"));
    match error {
        NotAKey::Subscription | NotAKey::OtherProvider => {
            failure.hint(format!("create an API key at {place}"))
        }
        NotAKey::Empty | NotAKey::TooLong | NotAKey::Characters => {
            failure.hint("paste the key alone, or pipe it in")
        }
    }
}

fn ask_provider() -> anyhow::Result<KeyProvider> {
    let names = KeyProvider::ALL.map(KeyProvider::name).join(" or ");
    let missing = || Failure::usage(format!("name the provider: {names}"));
    if !io::stdin().is_terminal() {
        return Err(missing().into());
    }
    write!(io::stderr(), "Provider ({names}): ")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    let stdin = io::stdin().lock();
    stdin.take(64).read_line(&mut answer)?;
    let found = KeyProvider::ALL.into_iter();
    let found = found
        .into_iter()
        .find(|provider| provider.name() == answer.trim());
    Ok(found.ok_or_else(missing)?)
}

fn piped() -> anyhow::Result<String> {
    let mut text = String::new();
    // One more than fits and a line's end, so that a longer one is noticed.
    let mut stdin = io::stdin().lock().take(MODEL_KEY_BYTES_MAX as u64 + 3);
    let read = stdin.read_to_string(&mut text);
    read.map_err(|_| Failure::usage(NotAKey::Characters.to_string()))?;
    Ok(text)
}

/// A terminal without echo. Keys that send signals are read as characters, for a signal would end the
/// program and leave the terminal without echo.
struct Silent(Termios);

impl Silent {
    fn start() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut silent = before.clone();
        let modes = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.local_modes.remove(modes);
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // It fails only if the terminal is gone.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}

/// A line from the terminal that is not shown. What was typed before the prompt does not count.
fn typed(prompt: &str) -> anyhow::Result<String> {
    let silent = Silent::start()?;
    write!(io::stderr(), "{prompt}")?;
    io::stderr().flush()?;
    let line = line(io::stdin().lock());
    drop(silent);
    writeln!(io::stderr())?;
    line
}

fn line(mut input: impl io::Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    loop {
        if input.read(&mut byte)? == 0 {
            break;
        }
        match byte[0] {
            b'\r' | b'\n' | 0x04 => break,
            0x03 => return Err(Failure::interrupted("nothing was stored").into()),
            0x08 | 0x7f => {
                bytes.pop();
            }
            // Ctrl-U forgets the line.
            0x15 => bytes.clear(),
            // One more than fits, so that a longer one is noticed.
            other if bytes.len() <= MODEL_KEY_BYTES_MAX => bytes.push(other),
            _ => {}
        }
    }
    let text = String::from_utf8(bytes);
    Ok(text.map_err(|_| Failure::usage(NotAKey::Characters.to_string()))?)
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::render::{Exit, exit_of};

    #[test]
    fn a_hidden_line_can_be_corrected_and_interrupted() {
        assert_eq!(line(&b"key\r"[..]).unwrap(), "key");
        assert_eq!(line(&b"kez\x7fy\nmore"[..]).unwrap(), "key");
        assert_eq!(line(&b"wrong\x15key\x04"[..]).unwrap(), "key");
        assert_eq!(line(&b"key"[..]).unwrap(), "key");
        let interrupted = line(&b"key\x03"[..]).unwrap_err();
        assert_eq!(exit_of(&interrupted), Exit::Interrupted);
    }
}
