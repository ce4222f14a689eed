//! Admission: the only way to become a principal.

use std::sync::Arc;

use domain::clock::Timestamp;
use domain::{PrincipalId, SessionId};

use crate::named::{NamedToken, NamedTokens, Scope, Version};
use crate::secret::Secret;
use crate::ticket::{Failures, Login, LoginError};

/// Proof that whoever holds it was admitted, and as whom.
///
/// There is no public constructor: see [`Gate::admit`].
#[derive(Clone, Debug, PartialEq)]
pub struct Principal {
    id: PrincipalId,
    token: Option<Arc<NamedToken>>,
}

impl Principal {
    /// Who it is.
    #[must_use]
    pub fn id(&self) -> &PrincipalId {
        &self.id
    }

    /// Whether it is the person at this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.id == PrincipalId::local()
    }

    /// The token it was admitted by, if that was not the default one.
    #[must_use]
    pub fn token_id(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.id.as_str())
    }

    /// When its token ends, and with it what it made; a browser's is only one of its maker's doors.
    pub(crate) fn token_ends(&self) -> Option<f64> {
        let token = self.token.as_ref().filter(|token| !token.is_login);
        token.and_then(|token| token.expires_at)
    }

    /// What it may do.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.token
            .as_ref()
            .map_or(Scope::Control, |token| token.scope)
    }

    /// Whether it may make sessions of its own: a token for one session opens that one only.
    #[must_use]
    pub fn may_create(&self) -> bool {
        let is_bound = |token: &Arc<NamedToken>| token.session.is_some();
        self.scope() == Scope::Control && !self.token.as_ref().is_some_and(is_bound)
    }

    /// Whether it may read the numbers of the whole server: the operator, or an `observe` token
    /// that the operator made for no single session.
    #[must_use]
    pub fn may_monitor(&self) -> bool {
        let is_monitor = |token: &Arc<NamedToken>| {
            token.maker == PrincipalId::local()
                && token.session.is_none()
                && token.scope == Scope::Observe
        };
        self.is_local() || self.token.as_ref().is_some_and(is_monitor)
    }

    /// Whether it may enter a session of `owner`: as the owner, with a token made for that very
    /// session, or to look at what the maker of its token owns.
    #[must_use]
    pub fn may_enter(&self, session: SessionId, owner: &PrincipalId) -> bool {
        if self.id == *owner {
            return true;
        }
        self.token
            .as_ref()
            .is_some_and(|token| match (token.session, token.scope) {
                (Some(granted), _) => granted == session,
                (None, Scope::Observe) => token.maker == *owner,
                (None, Scope::Control) => false,
            })
    }
}

/// What a connection shows to be admitted.
pub enum Credential<'a> {
    /// The text after `Bearer`.
    Bearer(&'a str),
    /// It was made by this process: stdio, or a command's own in-process connection.
    ThisProcess,
    /// The user at the other end of a Unix socket, as the system tells it.
    UnixPeer(u32),
}

/// The credential is missing or wrong; which of the two is nobody's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a valid token is required")]
pub struct Unauthorized;

/// The state of the named tokens, to be compared with a later one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    file: Option<Version>,
    expired: usize,
}

/// Knows the secrets and admits those who know one.
#[derive(Clone, Debug)]
pub struct Gate {
    tokens: Option<(Secret, NamedTokens)>,
    failures: Arc<Failures>,
}

impl Gate {
    /// A gate that lets in holders of `default_token` as `local`, and those of named tokens.
    #[must_use]
    pub fn with_tokens(default_token: Secret, named: NamedTokens) -> Self {
        Self {
            tokens: Some((default_token, named)),
            failures: Arc::default(),
        }
    }

    /// A gate for a process that listens to nobody else: no token opens it.
    #[must_use]
    pub fn this_process_only() -> Self {
        Self {
            tokens: None,
            failures: Arc::default(),
        }
    }

    /// Admits the holder of `credential`.
    ///
    /// # Errors
    /// If it opens nothing here.
    pub fn admit(
        &self,
        credential: &Credential<'_>,
        now: Timestamp,
    ) -> Result<Principal, Unauthorized> {
        let local = || Principal {
            id: PrincipalId::local(),
            token: None,
        };
        let shown = match credential {
            Credential::ThisProcess => return Ok(local()),
            Credential::UnixPeer(uid) if *uid == own_uid() => return Ok(local()),
            Credential::UnixPeer(_) => return Err(Unauthorized),
            Credential::Bearer(shown) => shown,
        };
        let (default_token, named) = self.tokens.as_ref().ok_or(Unauthorized)?;
        if default_token.matches(shown) {
            return Ok(local());
        }
        let token = named.find(shown, now).ok_or(Unauthorized)?;
        Ok(Principal {
            id: token.principal(),
            token: Some(Arc::new(token)),
        })
    }

    /// Exchanges a ticket for a token. It writes a file and waits for the disk.
    ///
    /// # Errors
    /// If the ticket is not good, if too many were not, or if the token cannot be stored.
    pub fn log_in(&self, ticket: &str, now: Timestamp) -> Result<Login, LoginError> {
        match self.named().map(|named| named.redeem(ticket, now)) {
            Some(Ok(login)) => Ok(login),
            Some(Err(LoginError::Wrong)) | None => Err(self.failures.one_more(now)),
            Some(Err(other)) => Err(other),
        }
    }

    pub(crate) fn named(&self) -> Option<&NamedTokens> {
        self.tokens.as_ref().map(|(_, named)| named)
    }

    /// Changes whenever somebody may have to leave: with the file, and when a token expires.
    #[must_use]
    pub fn fingerprint(&self, now: Timestamp) -> Fingerprint {
        let Some((_, named)) = &self.tokens else {
            return Fingerprint::default();
        };
        let known = named.all().unwrap_or_default();
        let expired = known.iter().filter(|token| token.has_expired(now)).count();
        Fingerprint {
            file: named.version(),
            expired,
        }
    }

    /// Whether the named token with this id is still good.
    #[must_use]
    pub fn knows(&self, token: &str, now: Timestamp) -> bool {
        let known = self.named().and_then(|named| named.all().ok());
        known.is_some_and(|known| {
            let mut tokens = known.iter();
            tokens.any(|known| known.id == token && !known.has_expired(now))
        })
    }

    /// Whether `principal` would still be admitted: its token was not revoked and has not expired.
    #[must_use]
    pub fn still_admits(&self, principal: &Principal, now: Timestamp) -> bool {
        let Some(token) = &principal.token else {
            return true;
        };
        let known = self.named().and_then(|named| named.all().ok());
        known.is_some_and(|known| known.contains(token.as_ref())) && !token.has_expired(now)
    }
}

/// The user this process runs as.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use domain::clock::Timestamp;
    use domain::{PrincipalId, SessionId};

    use super::{Credential, Gate, Principal, Unauthorized};
    use crate::named::{NamedTokens, NewToken, Scope};
    use crate::secret::Secret;

    const NOW: Timestamp = Timestamp(1_000.0);

    fn gate() -> (tempfile::TempDir, NamedTokens, Gate) {
        let directory = tempfile::tempdir().unwrap();
        let named = NamedTokens::of(directory.path());
        let gate = Gate::with_tokens(Secret::new("open-sesame"), named.clone());
        (directory, named, gate)
    }

    #[test]
    fn only_the_exact_token_opens_the_gate() {
        let (_directory, _, gate) = gate();
        assert!(
            gate.admit(&Credential::Bearer("open-sesame"), NOW)
                .unwrap()
                .is_local()
        );
        for wrong in ["", "open-sesam", "open-sesamex", "Open-sesame"] {
            assert_eq!(
                gate.admit(&Credential::Bearer(wrong), NOW),
                Err(Unauthorized),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_process_without_a_token_admits_no_bearer_at_all() {
        let gate = Gate::this_process_only();
        assert_eq!(gate.admit(&Credential::Bearer(""), NOW), Err(Unauthorized));
        assert_eq!(
            gate.admit(&Credential::ThisProcess, NOW)
                .unwrap()
                .id()
                .as_str(),
            "local"
        );
    }

    #[test]
    fn a_unix_peer_is_known_by_its_user_and_no_other_user_gets_in() {
        let (_directory, _, gate) = gate();
        let own = super::own_uid();
        let peer = gate.admit(&Credential::UnixPeer(own), NOW).unwrap();
        assert!(peer.is_local());
        for other in [own + 1, u32::MAX] {
            let refused = gate.admit(&Credential::UnixPeer(other), NOW);
            assert_eq!(refused, Err(Unauthorized), "{other}");
        }
    }

    #[test]
    fn a_secret_never_prints() {
        let (_directory, _, gate) = gate();
        assert!(!format!("{gate:?}").contains("sesame"));
    }

    #[test]
    fn who_may_enter_depends_on_owner_scope_and_grant() {
        let (_directory, named, gate) = gate();
        let (mine, other) = (SessionId::random(), SessionId::random());
        let (local, somebody) = (PrincipalId::local(), PrincipalId::new("token:x"));
        let admit = |name: &str, scope, session| -> Principal {
            let new = NewToken {
                name: name.to_owned(),
                scope,
                session,
                expires_at: None,
            };
            let (_, secret) = named.create(new, NOW).unwrap();
            gate.admit(&Credential::Bearer(secret.reveal()), NOW)
                .unwrap()
        };
        let friend = admit("friend", Scope::Control, None);
        assert!(friend.may_enter(mine, friend.id()));
        assert!(!friend.may_enter(mine, &local));
        let watcher = admit("watcher", Scope::Observe, None);
        assert!(watcher.may_enter(mine, &local));
        assert!(!watcher.may_enter(mine, &somebody));
        let guest = admit("guest", Scope::Observe, Some(mine));
        assert!(guest.may_enter(mine, &local));
        assert!(!guest.may_enter(other, &local));
    }

    #[test]
    fn a_revoked_token_is_no_longer_admitted() {
        let (_directory, named, gate) = gate();
        let new = NewToken {
            name: "friend".to_owned(),
            ..NewToken::default()
        };
        let (_, secret) = named.create(new, NOW).unwrap();
        let friend = gate
            .admit(&Credential::Bearer(secret.reveal()), NOW)
            .unwrap();
        assert!(gate.still_admits(&friend, NOW));
        named.revoke("friend").unwrap();
        assert!(!gate.still_admits(&friend, NOW));
        assert_eq!(
            gate.admit(&Credential::Bearer(secret.reveal()), NOW),
            Err(Unauthorized)
        );
    }
}
