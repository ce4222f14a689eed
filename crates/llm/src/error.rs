//! Why a model call failed, in words that a client may be shown.

use std::time::Duration;

use domain::limits::MODEL_ERROR_MESSAGE_BYTES_MAX;
use domain::{FailureKind, TurnError};

use crate::http::Login;
use crate::retry;

/// A model call that did not end well.
///
/// The text of every variant is one sentence without URLs, keys, paths or causes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A deadline passed.
    #[error("{wait} within {} s", seconds(*.limit))]
    Timeout {
        /// What was waited for.
        wait: Wait,
        /// How long.
        limit: Duration,
    },
    /// The model's server, or a script, answered with an error.
    #[error("{}", failed(*.status, .message))]
    Failed {
        /// The HTTP status, if there was one.
        status: Option<u16>,
        /// What it said, made fit for people.
        message: String,
    },
    /// The conversation does not fit into the model's context window. A shorter one may.
    #[error("the conversation is longer than the model can read")]
    ContextTooLong,
    /// No connection to the model's server came about.
    #[error("the model's server could not be reached (tried {tries} times)")]
    Unreachable {
        /// How often it was tried.
        tries: u32,
    },
    /// The proxy wants a user name and password, or others than those that were sent.
    #[error(
        "the proxy refused the connection to the model: its user name or password is missing or wrong"
    )]
    ProxyLogin,
    /// The certificate of the model's server is not signed by a trusted authority, or not for its name.
    #[error("the certificate of the model's server is not trusted")]
    Untrusted,
    /// The answer ended before it was complete.
    #[error("the model's answer broke off before its end")]
    Cut,
    /// The answer has neither words nor calls nor a reason for its end.
    #[error("the model's answer is empty")]
    Empty,
    /// The answer is not what the protocol says.
    #[error("the model's server sent something unusable: {what}")]
    Unusable {
        /// What was wrong with it.
        what: &'static str,
    },
}

/// What a deadline was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The first byte of the answer.
    FirstByte,
    /// The next piece of the answer.
    NextChunk,
    /// The end of the answer.
    WholeCall,
}

impl ModelError {
    /// An error as the server worded it: shortened, and without keys, links and paths.
    #[must_use]
    pub fn failed(status: Option<u16>, said: &str) -> Self {
        Self::Failed {
            status,
            message: fit_for_people(said),
        }
    }

    /// The same error without the key of `login` in its text. This comes after a server's words
    /// were understood: hiding a key changes them.
    #[must_use]
    pub(crate) fn without_key(self, login: &Login) -> Self {
        match self {
            Self::Failed { status, message } => Self::Failed {
                status,
                message: login.hide_in(&message),
            },
            other @ (Self::Timeout { .. }
            | Self::ContextTooLong
            | Self::Unreachable { .. }
            | Self::ProxyLogin
            | Self::Untrusted
            | Self::Cut
            | Self::Empty
            | Self::Unusable { .. }) => other,
        }
    }

    /// What the journal stores and the client is told.
    #[must_use]
    pub fn to_turn_error(&self) -> TurnError {
        let kind = match self {
            Self::Timeout { .. } => FailureKind::ModelTimeout,
            Self::Failed { .. }
            | Self::ContextTooLong
            | Self::Unreachable { .. }
            | Self::ProxyLogin
            | Self::Untrusted
            | Self::Cut
            | Self::Empty
            | Self::Unusable { .. } => FailureKind::ModelError,
        };
        TurnError::new(kind, self.to_string()).retryable(self.may_pass())
    }

    /// Whether the same call may succeed later: what is wrong with the request, or with who sends
    /// it, does not pass.
    fn may_pass(&self) -> bool {
        match self {
            Self::Failed { status, .. } => status.is_none_or(retry::may_help),
            Self::ContextTooLong | Self::ProxyLogin | Self::Untrusted => false,
            Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::Cut
            | Self::Empty
            | Self::Unusable { .. } => true,
        }
    }
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FirstByte => "the model did not begin to answer",
            Self::NextChunk => "the model stopped in mid-answer and did not go on",
            Self::WholeCall => "the model did not finish its answer",
        })
    }
}

fn failed(status: Option<u16>, message: &str) -> String {
    match (status, message) {
        (Some(status), "") => format!("the model's server answered with status {status}"),
        (Some(status), message) => format!("the model's server answered {status}: {message}"),
        (None, "") => "the model's server reported an error".to_owned(),
        (None, message) => format!("the model's server reported an error: {message}"),
    }
}

fn seconds(limit: Duration) -> String {
    let seconds = format!("{:.3}", limit.as_secs_f64());
    seconds
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// One line of bounded length in which keys, links and paths are replaced.
fn fit_for_people(said: &str) -> String {
    let mut line = String::new();
    for word in said.split_whitespace() {
        if line.len() + word.len() > MODEL_ERROR_MESSAGE_BYTES_MAX {
            line.push_str(" …");
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(hidden(word).unwrap_or(word));
    }
    line.trim().trim_end_matches('.').to_owned()
}

/// What stands in for a word that clients must not see.
fn hidden(word: &str) -> Option<&'static str> {
    let bare = word.trim_matches(|c: char| "\"'`()[]<>.,;:=".contains(c));
    let is_token_character = |c: char| c.is_ascii_alphanumeric() || "-_*.".contains(c);
    let is_long_token = bare.len() >= 32
        && bare.chars().all(is_token_character)
        && bare.contains(|c: char| c.is_ascii_digit());
    let has_key_prefix = ["sk-", "sk_", "key-", "AIza", "gsk_", "xai-", "Bearer"]
        .iter()
        .any(|prefix| bare.starts_with(prefix));
    if word.contains("://") || bare.starts_with("www.") {
        Some("(link)")
    } else if has_key_prefix || is_long_token || bare.contains("***") {
        Some("(key)")
    } else if bare.starts_with('/') && bare[1..].contains('/') {
        Some("(path)")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::FailureKind;

    use super::{ModelError, Wait};

    #[test]
    fn a_message_for_people_has_no_keys_links_or_paths() {
        let error = ModelError::failed(
            Some(401),
            "Incorrect API key provided: sk-ab***xy.\n See https://example.com/keys or \
             /var/lib/models/file for more.",
        );
        assert_eq!(
            error.to_turn_error().message,
            "the model's server answered 401: Incorrect API key provided: (key) See (link) or \
             (path) for more"
        );
    }

    #[test]
    fn a_message_for_people_is_short() {
        let endless = ModelError::failed(None, &"word ".repeat(10_000));
        assert!(endless.to_string().len() < 700);
        let one_word = ModelError::failed(None, &"w".repeat(10_000));
        assert!(one_word.to_string().len() < 700);
    }

    #[test]
    fn a_timeout_is_its_own_kind_and_names_the_seconds() {
        let error = ModelError::Timeout {
            wait: Wait::FirstByte,
            limit: Duration::from_millis(1_500),
        };
        let error = error.to_turn_error();
        assert_eq!(error.kind, FailureKind::ModelTimeout);
        assert_eq!(
            error.message,
            "the model did not begin to answer within 1.5 s"
        );
    }

    #[test]
    fn only_what_may_pass_is_worth_the_same_prompt_again() {
        let failed = |status| ModelError::failed(status, "no");
        let timeout = ModelError::Timeout {
            wait: Wait::NextChunk,
            limit: Duration::from_secs(1),
        };
        let passing = [408, 409, 425, 429, 500, 502, 503, 529];
        let passing = passing.map(|status| failed(Some(status)));
        let unreachable = ModelError::Unreachable { tries: 4 };
        let others = [timeout, unreachable, ModelError::Cut, failed(None)];
        for error in passing.into_iter().chain(others) {
            assert!(error.to_turn_error().is_retryable(), "{error}");
        }
        let lasting = [400, 401, 402, 403, 404, 413, 422];
        let lasting = lasting.map(|status| failed(Some(status)));
        for error in lasting.into_iter().chain([ModelError::ContextTooLong]) {
            assert!(!error.to_turn_error().is_retryable(), "{error}");
        }
    }
}
