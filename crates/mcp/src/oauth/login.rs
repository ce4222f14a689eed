//! One login: a person consents in a browser, and what comes back is exchanged for tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::clock::Timestamp;
use netguard::Target;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::client::Client;
use super::discover::{Authority, Discovered, discover};
use super::introduce::Introduced;
use super::redirect::Callback;
use super::store::{Grant, Stored};
use super::web::{Said, Web, is_here};
use super::{Account, Challenge, LoginError};
use crate::error::quoted;

/// What keeps a login alive while its person is away.
const OFFLINE: &str = "offline_access";

impl Account {
    /// Logs in, after `open` has shown the person the address at which to consent; twice, if what we were
    /// called there is not known there any more.
    ///
    /// # Errors
    /// If the person does not, or what is found on the way cannot be trusted.
    pub(crate) async fn login(&self, open: impl Fn(&str) + Send + Sync) -> Result<(), LoginError> {
        let web = self.web();
        let server = web.server();
        if !server.is_secure() && !is_here(server) {
            let why = "it does not speak TLS, so a token for it would be anybody's";
            return Err(LoginError::Refused(why.to_owned()));
        }
        let stored = self.stored().await?;
        let challenge = stored.challenge.unwrap_or_default();
        let found = discover(web, &challenge).await?;
        let scope = scope(&found, &challenge, stored.grant.as_ref());
        let us = self.introduced(&found.authority).await?;
        match self.log_in_as(us, &found, scope.clone(), &open).await {
            Err(Unknown { is_kept: true, .. }) => {
                let us = self.registered(&found.authority).await?;
                let again = self.log_in_as(us, &found, scope, &open).await;
                again.map_err(|unknown| unknown.error)
            }
            ended => ended.map_err(|unknown| unknown.error),
        }
    }

    async fn log_in_as(
        &self,
        us: Introduced,
        found: &Discovered,
        scope: Option<String>,
        open: &(impl Fn(&str) + Send + Sync),
    ) -> Result<(), Unknown> {
        let consented = consent(&us, (found, scope), self.web(), open).await;
        let grant = consented.map_err(|error| Unknown {
            is_kept: us.is_kept() && matches!(error, LoginError::NotKnown(_)),
            error,
        })?;
        if let Some(registration) = us.registration() {
            let issuer = &found.authority.issuer;
            self.keep_registration(issuer, registration).await;
        }
        let kept = self.keep(grant).await;
        kept.map_err(|error| Unknown {
            error,
            is_kept: false,
        })
    }
}

/// Why a login did not come about, and whether it was because of what was kept of an earlier one.
struct Unknown {
    error: LoginError,
    is_kept: bool,
}

/// Has a person consent to what `found` wants, and gives what is granted to `us`.
async fn consent(
    us: &Introduced,
    (found, scope): (&Discovered, Option<String>),
    web: &Web,
    open: &(impl Fn(&str) + Send + Sync),
) -> Result<Grant, LoginError> {
    let (verifier, state) = (secret()?, secret()?);
    let asked = Asked {
        found,
        client: &us.client,
        redirect: &us.redirect.uri(),
        scope: scope.as_deref(),
        state: &state,
        verifier: &verifier,
    };
    open(&asked.address()?);
    let callback = us.redirect.answer(&state).await?;
    let code = code(callback, &found.authority)?;
    let tokens = asked.exchange(web, &code).await?;
    let authority = &found.authority;
    Ok(Grant {
        issuer: authority.issuer.clone(),
        resource: found.resource.clone(),
        token_endpoint: authority.token_endpoint.clone(),
        revocation_endpoint: authority.revocation_endpoint.clone(),
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token,
        expires_at: expiry(tokens.expires_in.as_ref()),
        client: us.client.clone(),
        scope,
    })
}

/// What a person is asked to consent to.
struct Asked<'a> {
    found: &'a Discovered,
    client: &'a Client,
    redirect: &'a str,
    scope: Option<&'a str>,
    state: &'a str,
    verifier: &'a str,
}

impl Asked<'_> {
    fn address(&self) -> Result<String, LoginError> {
        let place = Target::parse(&self.found.authority.authorization_endpoint);
        let place = place.map_err(|error| LoginError::Refused(error.to_string()))?;
        let mut url = place.url().clone();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier));
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", self.redirect)
            .append_pair("state", self.state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &self.found.resource);
        if let Some(scope) = self.scope {
            query.append_pair("scope", scope);
            if scope.split(' ').any(|one| one == OFFLINE) {
                // OpenID Connect gives it to nobody who was not asked this time.
                query.append_pair("prompt", "consent");
            }
        }
        drop(query);
        Ok(url.into())
    }

    async fn exchange(&self, web: &Web, code: &str) -> Result<Tokens, LoginError> {
        let (mut form, basic) = self.client.proof();
        form.extend([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect),
            ("code_verifier", self.verifier),
            ("resource", &self.found.resource),
        ]);
        let place = &self.found.authority.token_endpoint;
        tokens(web.submit(place, &form, basic).await?)
    }
}

/// Renews what was granted.
///
/// # Errors
/// [`LoginError::Denied`] if it cannot be renewed any more; after any other it may be renewed later.
pub(super) async fn renew(grant: &Grant, web: &Web) -> Result<Grant, LoginError> {
    let token = grant.refresh_token.as_deref();
    let token = token.ok_or_else(|| LoginError::Denied("it cannot be renewed".to_owned()))?;
    let (mut form, basic) = grant.client.proof();
    form.extend([
        ("grant_type", "refresh_token"),
        ("refresh_token", token),
        ("resource", &grant.resource),
    ]);
    let said = web.submit(&grant.token_endpoint, &form, basic).await?;
    let tokens = tokens(said)?;
    let kept = grant.refresh_token.clone();
    Ok(Grant {
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token.or(kept),
        expires_at: expiry(tokens.expires_in.as_ref()),
        ..grant.clone()
    })
}

/// Tokens as they are given out.
#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    token_type: String,
    /// Some write the number as text.
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

fn tokens(said: Said) -> Result<Tokens, LoginError> {
    let status = said.status;
    if !status.is_success() {
        let why = format!("{} ({status})", complaint(&said.body));
        // Only these two words are about what we showed. Everything else may be over by the next try: a proxy
        // that wants a login, too many requests, a server that is being updated.
        return Err(match said.body["error"].as_str() {
            Some("invalid_grant") => LoginError::Denied(why),
            Some("invalid_client") => LoginError::NotKnown(why),
            Some(_) | None => LoginError::Busy {
                why: format!("no token was given: {why}"),
                retry_after: said.retry_after,
            },
        });
    }
    let tokens: Result<Tokens, _> = serde_json::from_value(said.body);
    match tokens {
        Ok(tokens) if tokens.token_type.eq_ignore_ascii_case("bearer") => Ok(tokens),
        Ok(_) => Err(LoginError::Refused(
            "the token is of another kind".to_owned(),
        )),
        // What it says may hold a token, so it is not repeated.
        Err(_) => Err(LoginError::Failed("no token was given".to_owned())),
    }
}

/// What an authorization server says is wrong, in one line.
pub(super) fn complaint(body: &Value) -> String {
    let said = ["error", "error_description"].map(|key| body[key].as_str().unwrap_or_default());
    let said = quoted(&said.join(" "));
    match said.is_empty() {
        true => "it does not say why".to_owned(),
        false => said,
    }
}

/// The code that came back, from whom it should come.
fn code(callback: Callback, authority: &Authority) -> Result<String, LoginError> {
    // Compared as they are written: another issuer's answer is an attack.
    match &callback.issuer {
        Some(issuer) if *issuer == authority.issuer => {}
        Some(issuer) => {
            let why = format!("the answer comes from {}", quoted(issuer));
            return Err(LoginError::Refused(why));
        }
        None if authority.authorization_response_iss_parameter_supported => {
            let why = "the answer does not say from whom it comes";
            return Err(LoginError::Refused(why.to_owned()));
        }
        None => {}
    }
    if let Some(error) = callback.error {
        let why = callback.description.unwrap_or_default();
        let why = quoted(&format!("{error} {why}"));
        return Err(match error.as_str() {
            "invalid_client" | "unauthorized_client" => LoginError::NotKnown(why),
            _ => LoginError::Denied(why),
        });
    }
    let code = callback.code;
    code.ok_or_else(|| LoginError::Failed("the answer has no code".to_owned()))
}

/// What to ask for: what the server wants now, or else all that it can be asked for, besides what was
/// granted before.
fn scope(found: &Discovered, challenge: &Challenge, before: Option<&Grant>) -> Option<String> {
    let before = before.filter(|before| before.issuer == found.authority.issuer);
    let before = before.and_then(|before| before.scope.as_deref());
    let supported = found.scopes.as_ref().map(|scopes| scopes.join(" "));
    let wanted = challenge.scope.clone().or(supported);
    let mut all: Vec<&str> = Vec::new();
    for scope in [before, wanted.as_deref()].into_iter().flatten() {
        all.extend(scope.split_whitespace());
    }
    let offered = found.authority.scopes_supported.iter().flatten();
    if !all.is_empty() && offered.into_iter().any(|scope| scope == OFFLINE) {
        all.push(OFFLINE);
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|scope| seen.insert(*scope));
    (!all.is_empty()).then(|| all.join(" "))
}

/// Seconds since 1970 until which a token is good.
fn expiry(lasts: Option<&Value>) -> Option<u64> {
    let lasts = lasts?;
    let seconds = lasts.as_u64().or_else(|| lasts.as_str()?.parse().ok())?;
    Some(now().saturating_add(seconds))
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole seconds since 1970"
    )]
    let seconds = Timestamp::now().0 as u64;
    seconds
}

/// Something that nobody can guess.
fn secret() -> Result<String, LoginError> {
    let mut bytes = [0; 32];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| LoginError::Failed(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// What is stored after a login: the grant, and nothing that is wanted.
pub(super) fn fulfilled(grant: Grant) -> Stored {
    Stored {
        grant: Some(grant),
        challenge: None,
    }
}
