//! Logging out: what was granted is forgotten here, and the authorization server is told (RFC 7009).

use domain::limits::MCP_REVOKE_WAIT;
use tokio::time::timeout;

use super::store::Grant;
use super::web::Web;
use super::{Account, LoginError};

/// What came of logging out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedOut {
    /// Whether there was a login.
    pub had_login: bool,
    /// Whether the authorization server was told; none if it does not want to know.
    pub is_told: Option<bool>,
}

impl Account {
    /// Forgets the login, whatever the authorization server says to that.
    ///
    /// # Errors
    /// If it cannot be forgotten.
    pub(crate) async fn logout(&self) -> Result<LoggedOut, LoginError> {
        let grant = self.forget().await?;
        let mut is_told = None;
        if let Some(grant) = &grant
            && let Some(place) = &grant.revocation_endpoint
        {
            let telling = timeout(MCP_REVOKE_WAIT, revoke(grant, place, self.web()));
            is_told = Some(telling.await.unwrap_or(false));
        }
        Ok(LoggedOut {
            had_login: grant.is_some(),
            is_told,
        })
    }
}

/// Tells `place` that what was granted is not used any more; says whether it has taken that.
async fn revoke(grant: &Grant, place: &str, web: &Web) -> bool {
    // With what renews the other, for most that ends both.
    let refresh = grant.refresh_token.as_deref();
    let refresh = refresh.map(|token| (token, "refresh_token"));
    let access = (grant.access_token.as_str(), "access_token");
    let mut is_told = true;
    for (token, kind) in refresh.into_iter().chain([access]) {
        let (mut form, basic) = grant.client.proof();
        form.extend([("token", token), ("token_type_hint", kind)]);
        let said = web.submit(place, &form, basic).await;
        is_told &= said.is_ok_and(|said| said.status.is_success());
    }
    is_told
}
