//! Finding out whom a server trusts with logins: its own description (RFC 9728), and then that of the
//! authorization server that it names (RFC 8414, or that of `OpenID` Connect).
//!
//! Both must say that they are what was asked about, or a server could send us to log in elsewhere.

use netguard::Target;
use serde::Deserialize;
use serde_json::Value;

use super::web::Web;
use super::{Challenge, LoginError};
use crate::error::quoted;

/// Names in one list that are looked at: real ones have a handful.
const NAMES_MAX: usize = 256;

/// What was found out about a server.
pub(crate) struct Discovered {
    /// What the server is called in requests about it.
    pub(crate) resource: String,
    /// What it can be asked for, if it says.
    pub(crate) scopes: Option<Vec<String>>,
    pub(crate) authority: Authority,
}

/// An authorization server, as it describes itself.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Authority {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    /// Where it is told that tokens are not used any more.
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) scopes_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Whether a client may be named by the address of its description.
    #[serde(default)]
    pub(crate) client_id_metadata_document_supported: bool,
    /// Whether it says who it is when it sends the person back.
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

#[derive(Debug, Deserialize)]
struct Description {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
}

/// Finds out whom the server trusts that sent `challenge`.
///
/// # Errors
/// If that is nobody, or nobody who can be trusted.
pub(crate) async fn discover(web: &Web, challenge: &Challenge) -> Result<Discovered, LoginError> {
    let server = web.server();
    let Some(description) = description(web, challenge).await? else {
        // Servers of 2025-03-26 describe nothing, and are their own authority.
        let origin = server.url().origin().ascii_serialization();
        return Ok(Discovered {
            resource: server.url().to_string(),
            scopes: None,
            authority: authority(web, &origin).await?,
        });
    };
    if !is_about(&description.resource, server) {
        let other = quoted(&description.resource);
        let why = format!("it describes itself as another server ({other})");
        return Err(LoginError::Refused(why));
    }
    let issuer = description.authorization_servers.first();
    let issuer = issuer
        .ok_or_else(|| LoginError::Refused("it does not say where one can log in".to_owned()))?;
    let mut scopes = description.scopes_supported;
    if let Some(scopes) = &mut scopes {
        scopes.truncate(NAMES_MAX);
    }
    Ok(Discovered {
        authority: authority(web, issuer).await?,
        resource: description.resource,
        scopes,
    })
}

async fn description(web: &Web, challenge: &Challenge) -> Result<Option<Description>, LoginError> {
    if let Some(named) = &challenge.resource_metadata {
        let said = web.get(named).await?;
        let found = said.status.is_success().then_some(said.body);
        let found = found.and_then(|body| serde_json::from_value(body).ok());
        return found.map(Some).ok_or_else(|| {
            LoginError::Failed(format!(
                "there is no description of it at {}",
                quoted(named)
            ))
        });
    }
    let places = well_known(web.server(), "oauth-protected-resource");
    first(web, places.into_iter().flatten()).await
}

/// The first of `places` where something of the wanted form is.
async fn first<T: for<'de> Deserialize<'de>>(
    web: &Web,
    places: impl IntoIterator<Item = String>,
) -> Result<Option<T>, LoginError> {
    for place in places {
        let said = web.get(&place).await?;
        if said.status.is_success() && said.body != Value::Null {
            let read = serde_json::from_value(said.body);
            let read = read.map_err(|error| {
                LoginError::Failed(format!("{place}: {}", quoted(&error.to_string())))
            });
            return read.map(Some);
        }
    }
    Ok(None)
}

/// The authorization server `issuer`, which must say that it is that.
async fn authority(web: &Web, issuer: &str) -> Result<Authority, LoginError> {
    let wrong = |error: netguard::Refusal| LoginError::Refused(format!("its issuer: {error}"));
    let target = Target::parse(issuer).map_err(wrong)?;
    let oauth = well_known(&target, "oauth-authorization-server");
    let openid = well_known(&target, "openid-configuration");
    let path = target.url().path().trim_end_matches('/');
    let appended = (!path.is_empty()).then(|| {
        let origin = target.url().origin().ascii_serialization();
        format!("{origin}{path}/.well-known/openid-configuration")
    });
    // At the root of an issuer with a path is somebody else.
    let places = match &appended {
        Some(_) => [oauth[0].clone(), openid[0].clone(), appended],
        None => [oauth[1].clone(), openid[1].clone(), None],
    };
    let found: Option<Authority> = first(web, places.into_iter().flatten()).await?;
    let found = found.ok_or_else(|| {
        LoginError::Failed(format!("{} does not describe itself", quoted(issuer)))
    })?;
    // Compared as they are written: what is nearly the same is somebody else.
    if found.issuer != issuer {
        let (said, asked) = (quoted(&found.issuer), quoted(issuer));
        let why = format!("the authorization server says it is {said}, not {asked}");
        return Err(LoginError::Refused(why));
    }
    let methods = found.code_challenge_methods_supported.iter().flatten();
    if !methods.into_iter().any(|method| method == "S256") {
        let why = "the authorization server does not say that it supports PKCE with S256";
        return Err(LoginError::Refused(why.to_owned()));
    }
    web.check(&found.authorization_endpoint)?;
    web.check(&found.token_endpoint)?;
    Ok(found)
}

/// Where something about `target` is described: for its path, if it has one, and for its host.
fn well_known(target: &Target, what: &str) -> [Option<String>; 2] {
    let origin = target.url().origin().ascii_serialization();
    let path = target.url().path().trim_end_matches('/');
    let for_path = (!path.is_empty()).then(|| format!("{origin}/.well-known/{what}{path}"));
    [for_path, Some(format!("{origin}/.well-known/{what}"))]
}

/// Whether `resource` names `server`, or a part of its host in which the server is.
fn is_about(resource: &str, server: &Target) -> bool {
    let Ok(resource) = Target::parse(resource) else {
        return false;
    };
    let base = resource.url().path().trim_end_matches('/');
    let rest = server.url().path().strip_prefix(base);
    let is_within = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let query = resource.url().query();
    resource.has_origin_of(server)
        && is_within
        && (query.is_none() || query == server.url().query())
}

#[cfg(test)]
mod tests {
    use netguard::Target;

    use super::{is_about, well_known};

    #[test]
    fn a_description_is_of_the_server_or_of_what_it_is_within() {
        let server = Target::parse("https://h.example/a/mcp").unwrap();
        for good in [
            "https://h.example/a/mcp",
            "https://h.example/a/",
            "https://h.example",
        ] {
            assert!(is_about(good, &server), "{good}");
        }
        for bad in [
            "https://evil.example/a/mcp",
            "http://h.example/a/mcp",
            "https://h.example:444/a/mcp",
            "https://h.example/a/mc",
            "https://h.example/a/mcp/x",
            "https://h.example/a/mcp?other",
            "nonsense",
        ] {
            assert!(!is_about(bad, &server), "{bad}");
        }
    }

    #[test]
    fn descriptions_are_looked_for_at_the_path_and_then_at_the_root() {
        let server = Target::parse("https://h.example/a/mcp?x").unwrap();
        let places = well_known(&server, "it").map(Option::unwrap);
        assert_eq!(
            places,
            [
                "https://h.example/.well-known/it/a/mcp",
                "https://h.example/.well-known/it"
            ]
        );
    }
}
