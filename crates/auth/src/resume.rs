//! Resume tokens: the right to come back to one session, as the attachment that one was.
//!
//! Each attachment gets one, and presenting it gives the next attachment a successor of it. An
//! answer may get lost on the way, so a token stays good until its successor was used, and for a
//! minute after that was issued. Only hashes are kept.

use domain::clock::Timestamp;
use serde::{Deserialize, Serialize};

use crate::gate::Principal;
use crate::named::{Scope, hash_of, same};
use crate::secret::Secret;
use crate::token::{TokenError, random_token};

/// Seconds after which no resume token is good any more.
const LIFE_SECONDS: f64 = 24.0 * 3_600.0;

/// Seconds that a token stays good after its successor was issued, even if that is used at once.
const OVERLAP_SECONDS: f64 = 60.0;

/// Most tokens of one session: as many followers as a session is made for. The oldest goes first.
const TOKENS_MAX: usize = 1_024;

/// Attachments of which each is the successor of the one before: one client that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Line(pub u64);

/// What a presented token grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose successor the attachment is.
    pub line: Line,
    /// The most that it may do.
    pub scope: Scope,
    presented: String,
}

/// The resume tokens of one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResumeTokens {
    issued: Vec<Issued>,
    last_line: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issued {
    sha256: String,
    line: Line,
    scope: Scope,
    /// The named token of the client that it was issued to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    issued_at: f64,
    /// The one it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default)]
    was_used: bool,
}

impl ResumeTokens {
    /// A line of its own for an attachment that succeeds no other.
    pub fn new_line(&mut self) -> Line {
        self.last_line += 1;
        Line(self.last_line)
    }

    /// Judges a token that `shown` claims to be; `knows` says whether a named token still exists.
    pub fn present(
        &mut self,
        shown: &str,
        now: Timestamp,
        knows: impl Fn(&str) -> bool,
    ) -> Option<Grant> {
        self.retire(now);
        let hash = hash_of(shown);
        let found = self
            .issued
            .iter_mut()
            .find(|issued| same(&issued.sha256, &hash))?;
        if found.token.as_deref().is_some_and(|token| !knows(token)) {
            return None;
        }
        found.was_used = true;
        Some(Grant {
            line: found.line,
            scope: found.scope,
            presented: hash,
        })
    }

    /// Issues a token to an attachment of `principal` that may do `scope`.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn issue(
        &mut self,
        principal: &Principal,
        (line, scope): (Line, Scope),
        after: Option<&Grant>,
        now: Timestamp,
    ) -> Result<Secret, TokenError> {
        self.retire(now);
        if self.issued.len() >= TOKENS_MAX {
            self.issued.remove(0);
        }
        let secret = Secret::new(random_token()?);
        // Most sessions have one client, and so one of these.
        self.issued.reserve_exact(1);
        self.issued.push(Issued {
            sha256: hash_of(secret.reveal()),
            line,
            scope,
            token: principal.token_id().map(str::to_owned),
            issued_at: now.0,
            after: after.map(|grant| grant.presented.clone()),
            was_used: false,
        });
        Ok(secret)
    }

    /// Forgets what is no longer good.
    fn retire(&mut self, now: Timestamp) {
        let used = self.issued.iter().filter(|issued| issued.was_used);
        let overlapped = used.filter(|issued| now.0 >= issued.issued_at + OVERLAP_SECONDS);
        let succeeded: Vec<_> = overlapped
            .filter_map(|issued| issued.after.clone())
            .collect();
        self.issued.retain(|issued| {
            // A clock that was set back does not make tokens live longer than they would.
            let age = (now.0 - issued.issued_at).abs();
            age < LIFE_SECONDS && !succeeded.contains(&issued.sha256)
        });
    }
}

#[cfg(test)]
mod tests {
    use domain::clock::Timestamp;

    use super::{Grant, Line, ResumeTokens};
    use crate::{Credential, Gate, Principal, Scope};

    fn local() -> Principal {
        let gate = Gate::this_process_only();
        gate.admit(&Credential::ThisProcess, Timestamp(0.0))
            .unwrap()
    }

    fn issue(tokens: &mut ResumeTokens, after: Option<&Grant>, now: f64) -> String {
        let line = match after {
            Some(grant) => grant.line,
            None => tokens.new_line(),
        };
        let issued = tokens.issue(&local(), (line, Scope::Control), after, Timestamp(now));
        issued.unwrap().reveal().to_owned()
    }

    fn present(tokens: &mut ResumeTokens, shown: &str, now: f64) -> Option<Grant> {
        tokens.present(shown, Timestamp(now), |_| true)
    }

    #[test]
    fn a_token_is_good_until_its_successor_was_used_and_a_minute_has_passed() {
        let mut tokens = ResumeTokens::default();
        let first = issue(&mut tokens, None, 0.0);
        assert_eq!(first.len(), 43);
        let grant = present(&mut tokens, &first, 10.0).unwrap();
        assert_eq!((grant.line, grant.scope), (Line(1), Scope::Control));
        let second = issue(&mut tokens, Some(&grant), 10.0);
        // The answer with the second got lost: the first is still good, however late.
        assert!(present(&mut tokens, &first, 5_000.0).is_some());
        let grant = present(&mut tokens, &second, 5_001.0).unwrap();
        assert_eq!(grant.line, Line(1));
        assert!(present(&mut tokens, &first, 5_002.0).is_none());
        assert!(present(&mut tokens, &second, 5_003.0).is_some());
    }

    #[test]
    fn a_successor_used_at_once_leaves_its_predecessor_a_minute() {
        let mut tokens = ResumeTokens::default();
        let first = issue(&mut tokens, None, 0.0);
        let grant = present(&mut tokens, &first, 1.0).unwrap();
        let second = issue(&mut tokens, Some(&grant), 1.0);
        assert!(present(&mut tokens, &second, 2.0).is_some());
        assert!(present(&mut tokens, &first, 60.0).is_some());
        assert!(present(&mut tokens, &first, 61.5).is_none());
    }

    #[test]
    fn a_token_dies_after_a_day_and_with_the_named_token_that_got_it() {
        let directory = tempfile::tempdir().unwrap();
        let named = crate::NamedTokens::of(directory.path());
        let new = crate::NewToken {
            name: "friend".to_owned(),
            ..crate::NewToken::default()
        };
        let (_, secret) = named.create(new, Timestamp(0.0)).unwrap();
        let gate = Gate::with_tokens(crate::Secret::new("x"), named);
        let shown = Credential::Bearer(secret.reveal());
        let friend = gate.admit(&shown, Timestamp(0.0)).unwrap();
        let mut tokens = ResumeTokens::default();
        let line = tokens.new_line();
        let place = (line, Scope::Observe);
        let issued = tokens.issue(&friend, place, None, Timestamp(0.0)).unwrap();
        let shown = issued.reveal();
        assert!(tokens.present(shown, Timestamp(1.0), |_| false).is_none());
        let grant = tokens.present(shown, Timestamp(1.0), |_| true).unwrap();
        assert_eq!(grant.scope, Scope::Observe);
        assert!(present(&mut tokens, shown, 24.0 * 3_600.0 + 1.0).is_none());
    }

    #[test]
    fn what_is_stored_holds_no_token_and_reads_back_the_same() {
        let mut tokens = ResumeTokens::default();
        let first = issue(&mut tokens, None, 0.0);
        let stored = serde_json::to_string(&tokens).unwrap();
        assert!(!stored.contains(&first));
        let mut read: ResumeTokens = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, tokens);
        assert!(present(&mut read, &first, 1.0).is_some());
        assert!(present(&mut read, "something else", 1.0).is_none());
    }
}
