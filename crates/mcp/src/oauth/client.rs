//! What we are called at an authorization server.
//!
//! In this order: as the settings say; by the address of our description, where that is understood; or by
//! registering. A name counts at the authorization server that it is for, and nowhere else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::tool_server::{Hidden, LoginClient};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::LoginError;
use super::discover::Authority;
use super::web::Web;
use crate::error::quoted;

/// A client as one authorization server knows it. It does not print.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    secret: Option<String>,
    proof: Proof,
}

/// How it shows that it is that client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Proof {
    /// Not at all: a program that people install has no secret that stays one.
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

impl Client {
    /// What we are called at `authority` by what is `set`; none if that is not understood there.
    pub(super) fn said(set: &LoginClient, authority: &Authority) -> Option<Self> {
        let is_description = set.id.starts_with("https://");
        if !is_description {
            return Some(Self::set(set, authority));
        }
        let is_understood = authority.client_id_metadata_document_supported;
        is_understood.then(|| Self {
            id: set.id.clone(),
            secret: None,
            proof: Proof::None,
        })
    }

    fn set(set: &LoginClient, authority: &Authority) -> Self {
        let secret = set.secret.as_ref().map(|secret| secret.reveal().to_owned());
        let proof = match secret {
            Some(_) => first_of(authority, &[Proof::Basic, Proof::Post], Proof::Basic),
            None => Proof::None,
        };
        Self {
            id: set.id.clone(),
            secret,
            proof,
        }
    }

    /// Registers at `authority`, when people are sent back to `redirect`. Gives also the seconds since 1970
    /// until which that counts, if they are said.
    ///
    /// # Errors
    /// If it lets nobody register, or not us.
    pub(super) async fn register(
        authority: &Authority,
        web: &Web,
        redirect: &str,
    ) -> Result<(Self, Option<u64>), LoginError> {
        let place = authority.registration_endpoint.as_deref();
        let place = place.ok_or_else(|| {
            LoginError::Refused(
                "its authorization server takes no new clients; register one there and set \
                 client_id in the server's settings"
                    .to_owned(),
            )
        })?;
        let all = [Proof::None, Proof::Basic, Proof::Post];
        let wanted = first_of(authority, &all, Proof::None);
        let us = json!({
            "client_name": "Fastness",
            "application_type": "native",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": wanted,
        });
        let said = web.post(place, &us).await?;
        let read: Result<Registered, _> = serde_json::from_value(said.body.clone());
        match (said.status.is_success(), read) {
            (true, Ok(registered)) => {
                let proof = registered.token_endpoint_auth_method.unwrap_or(wanted);
                let ends = registered.client_secret_expires_at;
                let ends = ends.and_then(|ends| ends.as_u64());
                let client = Self {
                    id: registered.client_id,
                    secret: registered.client_secret,
                    proof,
                };
                // Nought means never.
                Ok((client, ends.filter(|ends| *ends > 0)))
            }
            (true, Err(error)) => {
                let error = quoted(&error.to_string());
                Err(LoginError::Failed(format!("registering failed: {error}")))
            }
            (false, _) => {
                let (status, why) = (said.status, super::login::complaint(&said.body));
                Err(LoginError::Failed(format!(
                    "registering was refused with {status}: {why}"
                )))
            }
        }
    }

    /// What is added to a form that goes to the token endpoint, and the header that goes with it.
    pub(crate) fn proof(&self) -> (Vec<(&'static str, &str)>, Option<Hidden>) {
        let (id, secret) = (self.id.as_str(), self.secret.as_deref().unwrap_or_default());
        match self.proof {
            Proof::None => (vec![("client_id", id)], None),
            Proof::Post => (vec![("client_id", id), ("client_secret", secret)], None),
            Proof::Basic => {
                let pair = format!("{}:{}", encoded(id), encoded(secret));
                let basic = format!("Basic {}", STANDARD.encode(pair));
                (Vec::new(), Some(Hidden::new(basic)))
            }
        }
    }
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<Value>,
    token_endpoint_auth_method: Option<Proof>,
}

/// The first of `wanted` that the authorization server takes, or `other` if it does not say.
fn first_of(authority: &Authority, wanted: &[Proof], other: Proof) -> Proof {
    let Some(taken) = &authority.token_endpoint_auth_methods_supported else {
        return other;
    };
    let is_taken = |proof: &&Proof| {
        let name = match proof {
            Proof::None => "none",
            Proof::Basic => "client_secret_basic",
            Proof::Post => "client_secret_post",
        };
        taken.iter().any(|taken| taken == name)
    };
    wanted.iter().find(is_taken).copied().unwrap_or(other)
}

/// As RFC 6749 wants name and password in the header.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
