//! One server's login, as its connection uses it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::limits::{MCP_RENEWAL_REST, MCP_RENEWAL_REST_MAX};
use domain::tool_server::{Hidden, LoginClient};
use tokio::time::Instant;

use super::introduce::Registration;
use super::login::{fulfilled, now, renew};
use super::store::{Grant, Locked, LoginFile, Logins, Stored};
use super::web::Web;
use super::{Challenge, LoginError};

/// Seconds before its end at which a token is renewed: a request that takes it along may be slow.
const EARLY_SECONDS: u64 = 30;

/// One person's login at one server. Cheap to clone; clones are the same. It does not print.
#[derive(Clone)]
pub(crate) struct Account {
    shared: Arc<Shared>,
}

struct Shared {
    web: Web,
    file: LoginFile,
    /// Where all logins are, and whose this one is.
    logins: (Logins, &'static str),
    client: Option<LoginClient>,
    /// What people are told who must log in.
    hint: String,
    held: Mutex<Held>,
    /// Until when its authorization server is left alone, and why.
    rest: Mutex<Option<(Instant, String)>>,
}

/// A login that could not be renewed now. It is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its login could not be renewed: {why}; the login is kept, and renewing it is tried again in {} s",
    .wait.as_secs().max(1)
)]
pub(crate) struct NotRenewed {
    why: String,
    wait: Duration,
}

/// What of the file is known here.
#[derive(Clone)]
enum Held {
    /// Nobody has looked.
    Unread,
    Nothing,
    Token {
        token: Hidden,
        expires_at: Option<u64>,
    },
}

impl Account {
    /// The login to the server of `web`, among those `logins` that are one person's.
    pub(crate) fn new(
        web: Web,
        logins: (Logins, &'static str),
        client: Option<LoginClient>,
        hint: String,
    ) -> Self {
        let (all, owner) = &logins;
        let file = all.of(web.server().url().as_str(), owner);
        let shared = Shared {
            web,
            file,
            logins,
            client,
            hint,
            held: Mutex::new(Held::Unread),
            rest: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(crate) fn hint(&self) -> &str {
        &self.shared.hint
    }

    pub(super) fn web(&self) -> &Web {
        &self.shared.web
    }

    pub(super) fn client(&self) -> Option<&LoginClient> {
        self.shared.client.as_ref()
    }

    /// The token that a request takes along, if there is any.
    pub(crate) async fn token(&self) -> Option<Hidden> {
        let held = self.held().clone();
        let held = match held {
            Held::Unread => {
                let stored = self.stored().await.unwrap_or_default();
                self.hold(stored.grant.as_ref());
                self.held().clone()
            }
            Held::Nothing | Held::Token { .. } => held,
        };
        let Held::Token { token, expires_at } = held else {
            return None;
        };
        let is_late = expires_at.is_some_and(|at| now() + EARLY_SECONDS >= at);
        // If it cannot be renewed now, it may still be good enough.
        if is_late && let Ok(Some(renewed)) = self.renewed(Some(&token), None).await {
            return Some(renewed);
        }
        Some(token)
    }

    /// A token other than the one that was `used`, after the server has turned it away with
    /// `challenge` or it has become old. None if only a person can get one; that is noted then.
    ///
    /// # Errors
    /// If it could not be renewed now and may be later. What renews it is kept.
    pub(crate) async fn renewed(
        &self,
        used: Option<&Hidden>,
        challenge: Option<&Challenge>,
    ) -> Result<Option<Hidden>, NotRenewed> {
        // Held while the token is renewed, or two processes would use up the same one.
        let locked = self.shared.file.lock().await.map_err(not_stored)?;
        let (locked, stored) = reading(locked).await.map_err(not_stored)?;
        if let Some(grant) = &stored.grant
            && used.is_none_or(|used| used.reveal() != grant.access_token)
        {
            self.hold(Some(grant));
            return Ok(Some(Hidden::new(&grant.access_token)));
        }
        let lacks_scope = challenge.is_some_and(Challenge::lacks_scope);
        let old = stored.grant.as_ref();
        let mut is_over = false;
        if let Some(old) = old.filter(|old| old.refresh_token.is_some() && !lacks_scope) {
            self.may_ask()?;
            match renew(old, &self.shared.web).await {
                Ok(grant) => {
                    let token = Hidden::new(&grant.access_token);
                    self.hold(Some(&grant));
                    writing(locked, fulfilled(grant))
                        .await
                        .map_err(not_stored)?;
                    return Ok(Some(token));
                }
                Err(LoginError::Busy { why, retry_after }) => {
                    return Err(self.rest(why, retry_after));
                }
                Err(
                    error @ (LoginError::Failed(_)
                    | LoginError::Refused(_)
                    | LoginError::TooSlow
                    | LoginError::NotStored(_)),
                ) => return Err(self.rest(error.to_string(), None)),
                // The client id is not known; the grant may still be valid for it.
                Err(LoginError::NotKnown(_)) => self.forget_registration(&old.issuer).await,
                Err(LoginError::Denied(_)) => is_over = true,
            }
        }
        let Some(challenge) = challenge else {
            return Ok(None);
        };
        let kept = stored.grant.map(|grant| Grant {
            refresh_token: grant.refresh_token.filter(|_| !is_over),
            ..grant
        });
        let noted = Stored {
            challenge: Some(challenge.clone()),
            grant: kept,
        };
        writing(locked, noted).await.ok();
        Ok(None)
    }

    /// Whether the authorization server may be asked again already.
    fn may_ask(&self) -> Result<(), NotRenewed> {
        let rest = lock(&self.shared.rest).clone();
        match rest {
            Some((until, why)) if Instant::now() < until => {
                let wait = until - Instant::now();
                Err(NotRenewed { why, wait })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Leaves the authorization server alone for as long as it wants, within bounds.
    fn rest(&self, why: String, retry_after: Option<Duration>) -> NotRenewed {
        let wait = retry_after.unwrap_or(MCP_RENEWAL_REST);
        let wait = wait.clamp(MCP_RENEWAL_REST, MCP_RENEWAL_REST_MAX);
        *lock(&self.shared.rest) = Some((Instant::now() + wait, why.clone()));
        NotRenewed { why, wait }
    }

    /// Notes that the server wants a login, or a better one.
    pub(crate) async fn note(&self, challenge: &Challenge) {
        let Ok(locked) = self.shared.file.lock().await else {
            return;
        };
        if let Ok((locked, stored)) = reading(locked).await {
            let noted = Stored {
                challenge: Some(challenge.clone()),
                ..stored
            };
            writing(locked, noted).await.ok();
        }
    }

    /// Whether there is a login that no request has taken along yet.
    pub(crate) async fn has_news(&self) -> bool {
        let Ok(stored) = self.stored().await else {
            return false;
        };
        let stored = stored.grant.map(|grant| grant.access_token);
        match (&*self.held(), stored) {
            (Held::Token { token, .. }, Some(stored)) => token.reveal() != stored,
            (Held::Unread | Held::Nothing, Some(_)) => true,
            (_, None) => false,
        }
    }

    /// Whether the server has said that it wants a login, or a better one.
    pub(crate) async fn is_wanted(&self) -> bool {
        let stored = self.stored().await;
        stored.is_ok_and(|stored| stored.challenge.is_some())
    }

    /// Forgets the login; gives what there was.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(super) async fn forget(&self) -> io::Result<Option<Grant>> {
        let locked = self.shared.file.lock().await?;
        *self.held() = Held::Nothing;
        on_thread(move || {
            // A file may also only say what the server wants, or be none that can be read.
            let stored: Stored = locked.read().unwrap_or_default();
            locked.remove()?;
            Ok(stored.grant)
        })
        .await
    }

    /// What we are called at `issuer`, if we have registered there. It is taken out of where it is kept, and
    /// belongs there again once a login with it has come about: one that does not work is used once.
    pub(super) async fn take_registration(&self, issuer: &str) -> Option<Registration> {
        let (all, owner) = &self.shared.logins;
        let locked = all.registration(issuer, owner).lock().await.ok()?;
        let taken = on_thread(move || {
            let kept: Option<Registration> = locked.read()?;
            locked.remove()?;
            Ok(kept)
        });
        taken.await.ok()?
    }

    /// Keeps what we are called at `issuer`.
    pub(super) async fn keep_registration(&self, issuer: &str, registration: Registration) {
        let (all, owner) = &self.shared.logins;
        // Without it the next login registers again.
        if let Ok(locked) = all.registration(issuer, owner).lock().await {
            let _ = on_thread(move || locked.write(&Some(registration))).await;
        }
    }

    async fn forget_registration(&self, issuer: &str) {
        drop(self.take_registration(issuer).await);
    }

    /// Keeps what a person has granted.
    pub(super) async fn keep(&self, grant: Grant) -> Result<(), LoginError> {
        let locked = self.shared.file.lock().await?;
        self.hold(Some(&grant));
        Ok(writing(locked, fulfilled(grant)).await?)
    }

    pub(super) async fn stored(&self) -> io::Result<Stored> {
        let file = self.shared.file.clone();
        on_thread(move || file.read()).await
    }

    fn hold(&self, grant: Option<&Grant>) {
        *self.held() = match grant {
            Some(grant) => Held::Token {
                token: Hidden::new(&grant.access_token),
                expires_at: grant.expires_at,
            },
            None => Held::Nothing,
        };
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.shared.held)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole at every step, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_stored(error: io::Error) -> NotRenewed {
    NotRenewed {
        why: format!("its file cannot be used: {error}"),
        wait: MCP_RENEWAL_REST,
    }
}

async fn reading(locked: Locked) -> io::Result<(Locked, Stored)> {
    on_thread(move || {
        let stored = locked.read()?;
        Ok((locked, stored))
    })
    .await
}

async fn writing(locked: Locked, stored: Stored) -> io::Result<()> {
    on_thread(move || locked.write(&stored)).await
}

/// Files may be slow.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}
