//! The log: its level, its form, and where it goes.
//!
//! Lines go to stderr through a thread of their own ([`background`]), so that a reader who stops
//! reading stops the log and not the sessions. Crates of others are kept to warnings at every
//! level: what they print of connections may hold a token.

mod background;
#[cfg(feature = "otlp")]
mod otlp;

use std::io::IsTerminal as _;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::render::{Failure, Palette};
use crate::settings::{Environment, Settings};

use background::{Flush, Lines, Readers};

/// Our own crates, by the names that their lines carry; `access` is the access log.
const OURS: &[&str] = &[
    "access", "agent", "auth", "client", "domain", "fastness", "journal", "llm", "mcp", "server",
    "session", "tools", "wire",
];

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// For people.
    Plain,
    /// One JSON object each, for programs.
    Json,
}

/// A log that was started. Dropping it writes what is left.
pub(crate) struct Log {
    #[cfg(feature = "otlp")]
    _sending: Option<otlp::Sending>,
    _flush: Flush,
}

/// Starts the log.
///
/// # Errors
/// If `FASTNESS_LOG_FORMAT` asks for a form that there is not, or traces cannot be sent.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<Log> {
    let form = form(&settings.environment)?;
    #[cfg(feature = "otlp")]
    let sending = otlp::start(&settings.environment)?;
    let readers = match form {
        Form::Plain if std::io::stderr().is_terminal() => Readers::People,
        Form::Plain | Form::Json => Readers::Programs,
    };
    let (lines, flush) = background::start(readers);
    let registry = tracing_subscriber::registry();
    #[cfg(feature = "otlp")]
    let registry = registry.with(sending.as_ref().map(otlp::layer));
    install(registry, settings, form, lines);
    Ok(Log {
        #[cfg(feature = "otlp")]
        _sending: sending,
        _flush: flush,
    })
}

fn install<S>(registry: S, settings: &Settings, form: Form, lines: Lines)
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync + 'static,
{
    let filter = filter(settings.log);
    // A log that cannot be written must not take a session with it.
    let plain = fmt::layer().log_internal_errors(false);
    match form {
        Form::Plain => {
            let is_coloured = Palette::stderr(&settings.environment).is_coloured();
            let plain = plain.with_ansi(is_coloured).with_writer(lines);
            set(registry.with(plain.with_filter(filter)));
        }
        Form::Json => {
            let json = plain.json().flatten_event(true).with_span_list(false);
            set(registry.with(json.with_writer(lines).with_filter(filter)));
        }
    }
}

fn set(subscriber: impl Subscriber + Send + Sync + 'static) {
    // Nobody else in this program sets one.
    let _ = subscriber.try_init();
}

fn filter(level: LevelFilter) -> Targets {
    let others = level.min(LevelFilter::WARN);
    Targets::new()
        .with_default(others)
        // Its warnings quote what servers say, which is not ours to log.
        .with_target("rmcp", LevelFilter::OFF)
        .with_targets(OURS.iter().map(|name| (*name, level)))
}

fn form(environment: &Environment) -> anyhow::Result<Form> {
    match environment.value("FASTNESS_LOG_FORMAT") {
        None | Some("plain") => Ok(Form::Plain),
        Some("json") => Ok(Form::Json),
        Some(other) => {
            let sentence = format!("FASTNESS_LOG_FORMAT does not know the form `{other}`");
            Err(Failure::usage(sentence).hint("use plain or json").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing::level_filters::LevelFilter;

    use super::{Environment, Form, filter, form};

    #[test]
    fn crates_of_others_say_no_more_than_warnings_at_any_level() {
        let all = filter(LevelFilter::TRACE);
        assert!(all.would_enable("server::connection", &Level::TRACE));
        assert!(all.would_enable("access", &Level::INFO));
        assert!(all.would_enable("hyper::proto", &Level::WARN));
        assert!(!all.would_enable("hyper::proto", &Level::INFO));
        let quiet = filter(LevelFilter::ERROR);
        assert!(!quiet.would_enable("hyper::proto", &Level::WARN));
        assert!(!quiet.would_enable("server", &Level::WARN));
    }

    #[test]
    fn the_form_is_plain_unless_json_is_asked_for() {
        let asked = |value| form(&Environment::of(&[("FASTNESS_LOG_FORMAT", value)]));
        assert_eq!(asked("").unwrap(), Form::Plain);
        assert_eq!(asked("json").unwrap(), Form::Json);
        assert!(asked("xml").is_err());
    }
}
