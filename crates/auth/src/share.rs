//! Shares: tokens with which others look at one session for a while.
//!
//! They are named tokens like any other, in the same file, so that they are listed, revoked and
//! expire like any other. A share never outlives the token of whoever made it.

use std::io;

use domain::clock::Timestamp;
use domain::limits::{SHARES_PER_OWNER_MAX, SHARES_PER_SESSION_MAX};
use domain::{PrincipalId, SessionId};

use crate::gate::{Gate, Principal};
use crate::named::{NamedToken, NamedTokens, NewToken, Scope, Stored};
use crate::secret::Secret;
use crate::token::TokenError;

/// Why a share was not made or taken back.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The session has as many as it may have.
    #[error("this session is shared often enough")]
    TooManyOfSession,
    /// The owner has as many as it may have.
    #[error("too many sessions are shared")]
    TooManyOfOwner,
    /// There is none of that name.
    #[error("there is no such share")]
    NotFound,
    /// The file cannot be read or written.
    #[error("the share could not be stored")]
    NotStored(#[from] TokenError),
}

impl Gate {
    /// Makes a token with which others look at `session` of `owner` until `ends`, or until the
    /// owner's own token ends. Its secret is returned here and never again. Waits for the disk.
    ///
    /// # Errors
    /// If there are enough, or the file cannot be written.
    pub fn share(
        &self,
        (owner, session): (&Principal, SessionId),
        ends: Timestamp,
        now: Timestamp,
    ) -> Result<(NamedToken, Secret), ShareError> {
        let new = NewToken {
            scope: Scope::Observe,
            session: Some(session),
            expires_at: Some(owner.token_ends().map_or(ends.0, |own| own.min(ends.0))),
            ..NewToken::default()
        };
        let (mut made, secret) = NamedToken::random(new, now)?;
        made.maker = owner.id().clone();
        made.name = format!("share-{}", made.id.get(..16).unwrap_or_default());
        let change = |stored: &mut Stored| {
            stored.tokens.retain(|token| !token.has_expired(now));
            let own = stored
                .tokens
                .iter()
                .filter(|token| token.maker == *owner.id() && is_share(token));
            let (mut all, mut of_session) = (0, 0);
            for share in own {
                all += 1;
                of_session += usize::from(share.session == Some(session));
            }
            if of_session >= SHARES_PER_SESSION_MAX {
                return Ok(Err(ShareError::TooManyOfSession));
            }
            if all >= SHARES_PER_OWNER_MAX {
                return Ok(Err(ShareError::TooManyOfOwner));
            }
            stored.tokens.push(made.clone());
            Ok(Ok(()))
        };
        self.named_tokens()?.change(change)??;
        Ok((made, secret))
    }

    /// The tokens with which others look at `session`, as far as `owner` made them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn shares(
        &self,
        owner: &PrincipalId,
        session: SessionId,
        now: Timestamp,
    ) -> Result<Vec<NamedToken>, ShareError> {
        let all = self.named_tokens()?.all()?;
        let shares = all
            .iter()
            .filter(|token| !token.has_expired(now) && is_share_of(token, owner, session));
        Ok(shares.cloned().collect())
    }

    /// Takes one back. Waits for the disk.
    ///
    /// # Errors
    /// If there is none of that name, or the file cannot be written.
    pub fn unshare(
        &self,
        owner: &PrincipalId,
        session: SessionId,
        id: &str,
    ) -> Result<(), ShareError> {
        let is_it = |token: &NamedToken| token.id == id && is_share_of(token, owner, session);
        let named = self.named_tokens()?;
        // A guess costs a look at the file, never a lock or a write.
        if !named.all()?.iter().any(is_it) {
            return Err(ShareError::NotFound);
        }
        named.change(|stored| {
            stored.tokens.retain(|token| !is_it(token));
            Ok(())
        })?;
        Ok(())
    }

    /// Forgets all shares of a session that is gone. Waits for the disk if there are any.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn forget_shares(&self, session: SessionId) -> Result<(), ShareError> {
        let named = self.named_tokens()?;
        let is_it = |token: &NamedToken| is_share(token) && token.session == Some(session);
        if !named.all()?.iter().any(is_it) {
            return Ok(());
        }
        named.change(|stored| {
            stored.tokens.retain(|token| !is_it(token));
            Ok(())
        })?;
        Ok(())
    }

    fn named_tokens(&self) -> Result<&NamedTokens, TokenError> {
        let none = || io::Error::from(io::ErrorKind::Unsupported);
        self.named().ok_or_else(none).map_err(TokenError::Io)
    }
}

fn is_share(token: &NamedToken) -> bool {
    token.session.is_some() && token.scope == Scope::Observe
}

fn is_share_of(token: &NamedToken, owner: &PrincipalId, session: SessionId) -> bool {
    is_share(token) && token.session == Some(session) && token.maker == *owner
}

#[cfg(test)]
mod tests {
    use domain::SessionId;
    use domain::clock::Timestamp;
    use domain::limits::SHARES_PER_SESSION_MAX;

    use super::ShareError;
    use crate::gate::{Credential, Gate, Principal};
    use crate::named::{NamedTokens, NewToken};
    use crate::secret::Secret;

    const NOW: Timestamp = Timestamp(1_000.0);
    const LATER: Timestamp = Timestamp(2_000.0);

    fn gate() -> (tempfile::TempDir, NamedTokens, Gate) {
        let directory = tempfile::tempdir().unwrap();
        let named = NamedTokens::of(directory.path());
        let gate = Gate::with_tokens(Secret::new("open-sesame"), named.clone());
        (directory, named, gate)
    }

    fn local(gate: &Gate) -> Principal {
        gate.admit(&Credential::ThisProcess, NOW).unwrap()
    }

    fn named(gate: &Gate, tokens: &NamedTokens, ends: Option<f64>) -> Principal {
        let new = NewToken {
            name: "friend".to_owned(),
            expires_at: ends,
            ..NewToken::default()
        };
        let (_, secret) = tokens.create(new, NOW).unwrap();
        let shown = Credential::Bearer(secret.reveal());
        gate.admit(&shown, NOW).unwrap()
    }

    #[test]
    fn a_share_opens_one_session_to_look_at_until_it_ends_or_is_taken_back() {
        let (_directory, _, gate) = gate();
        let (owner, session) = (local(&gate), SessionId::random());
        let (made, secret) = gate.share((&owner, session), LATER, NOW).unwrap();
        let shown = Credential::Bearer(secret.reveal());
        let guest = gate.admit(&shown, NOW).unwrap();
        assert!(guest.may_enter(session, owner.id()));
        assert!(!guest.may_enter(SessionId::random(), owner.id()));
        assert_eq!(guest.scope(), crate::Scope::Observe);
        assert!(gate.admit(&shown, LATER).is_err());

        let known = gate.shares(owner.id(), session, NOW).unwrap();
        assert_eq!(known, std::slice::from_ref(&made));
        assert_eq!(gate.shares(owner.id(), session, LATER).unwrap(), []);
        // Neither by another's hand nor through another session.
        for (who, of) in [(guest.id(), session), (owner.id(), SessionId::random())] {
            let refused = gate.unshare(who, of, &made.id);
            assert!(matches!(refused, Err(ShareError::NotFound)));
        }
        gate.unshare(owner.id(), session, &made.id).unwrap();
        assert!(!gate.still_admits(&guest, NOW));
    }

    #[test]
    fn a_session_has_only_so_many_shares_and_ended_ones_make_room() {
        let (_directory, _, gate) = gate();
        let (owner, session) = (local(&gate), SessionId::random());
        for _ in 0..SHARES_PER_SESSION_MAX {
            gate.share((&owner, session), LATER, NOW).unwrap();
        }
        let refused = gate.share((&owner, session), LATER, NOW);
        assert!(matches!(refused, Err(ShareError::TooManyOfSession)));
        let other = SessionId::random();
        gate.share((&owner, other), LATER, NOW).unwrap();
        gate.share((&owner, session), Timestamp(3_000.0), LATER)
            .unwrap();
        gate.forget_shares(session).unwrap();
        assert_eq!(gate.shares(owner.id(), session, LATER).unwrap(), []);
    }

    #[test]
    fn a_share_ends_with_the_token_of_its_maker() {
        let (_directory, tokens, gate) = gate();
        let owner = named(&gate, &tokens, Some(1_500.0));
        let session = SessionId::random();
        let (made, secret) = gate.share((&owner, session), LATER, NOW).unwrap();
        assert_eq!(made.expires_at, Some(1_500.0));
        let shown = Credential::Bearer(secret.reveal());
        let guest = gate.admit(&shown, NOW).unwrap();
        tokens.revoke("friend").unwrap();
        assert!(!gate.still_admits(&guest, NOW));
        assert!(gate.admit(&shown, NOW).is_err());
    }
}
