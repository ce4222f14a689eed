//! Whether commands are shut in on this machine, and what to do if they are not.

use tools::sandbox::{self, Found, SandboxMode};
use tools::shell::Shell;

use super::{Check, State};
use crate::engine;
use crate::settings::Settings;

/// Tries it out.
pub(super) async fn check(settings: &Settings) -> Check {
    let shell: Shell = engine::shell(settings, &settings.data_dir);
    of(&shell.sandbox_found().await)
}

/// Whether the memory of a whole command is limited, or only that of each of its processes.
pub(super) fn check_memory(settings: &Settings) -> Check {
    let is_on = settings.sandbox.mode != SandboxMode::Off;
    of_memory(is_on.then(sandbox::can_limit_memory))
}

/// Nothing is limited where the sandbox is off.
fn of_memory(is_limited: Option<bool>) -> Check {
    let check = |state, finding: &str| Check::new("memory limit", state, finding.to_owned());
    match is_limited {
        Some(true) => check(State::Fine, "of a whole command, by a control group"),
        None => check(State::Noted, "none, because the sandbox is off"),
        Some(false) => check(
            State::Noted,
            "of each process; shared memory is not counted, because no control group can be made",
        )
        .advice("run the server as a service of `systemd --user`, or as root"),
    }
}

fn of(found: &Found) -> Check {
    let check = |state, finding: String| Check::new("sandbox", state, finding);
    match found {
        Found::Bubblewrap { .. } => check(State::Fine, "bubblewrap + Landlock".to_owned()),
        Found::Landlock(why) => check(State::Noted, format!("Landlock only ({why})"))
            .advice("install bubblewrap (the package is called that), and allow user namespaces"),
        Found::Nothing(why) => check(State::Broken, format!("none ({why})")).advice(
            "every command will be asked about; install bubblewrap, or use a kernel with Landlock \
             (Linux 6.2 or newer)",
        ),
        Found::Off => check(State::Noted, "off, by the settings".to_owned())
            .advice("an allowed command can do what you can; remove `mode` under [sandbox]"),
    }
}

#[cfg(test)]
mod tests {
    use tools::sandbox::Found;

    use super::{State, of, of_memory};

    #[test]
    fn memory_that_is_not_counted_is_noted() {
        assert_eq!(of_memory(Some(true)).state, State::Fine);
        let check = of_memory(Some(false));
        assert_eq!(check.state, State::Noted);
        assert!(check.finding.contains("shared memory is not counted"));
    }

    #[test]
    fn a_sandbox_that_is_missing_says_what_to_do() {
        let check = of(&Found::Nothing("bubblewrap is not installed".to_owned()));
        assert_eq!(check.state, State::Broken);
        assert!(check.advice.unwrap().contains("install bubblewrap"));
        let check = of(&Found::Landlock("bubblewrap is not installed".to_owned()));
        assert_eq!(check.finding, "Landlock only (bubblewrap is not installed)");
    }
}
