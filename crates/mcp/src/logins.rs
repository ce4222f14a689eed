//! Logging in to the servers that sessions use, and out again, for the person at this machine.

use domain::tool_server::{NamedBy, ServerWay, ToolServer};
use http::header::AUTHORIZATION;
use netguard::Target;

use crate::connect::Servers;
use crate::oauth::{Account, LoggedOut, LoginError, Web};

/// Whose logins there are. Other principals have none: their sessions are not let in anywhere as the
/// person at this machine, whatever address they name.
const OWNER: &str = "local";

impl Servers {
    /// Logs in to `server`, after `open` has shown the person the address at which to consent. That may be
    /// twice, if it turns out that we must introduce ourselves anew.
    ///
    /// # Errors
    /// If the person does not, or what is found on the way cannot be trusted.
    pub async fn login(
        &self,
        server: &ToolServer,
        open: impl Fn(&str) + Send + Sync,
    ) -> Result<(), LoginError> {
        self.account_or_not(server)?.login(open).await
    }

    /// Forgets the login to `server`, and tells the authorization server so if it wants to know.
    ///
    /// # Errors
    /// If it cannot be forgotten.
    pub async fn logout(&self, server: &ToolServer) -> Result<LoggedOut, LoginError> {
        self.account_or_not(server)?.logout().await
    }

    /// Whether `server` has said that it wants a login, or a better one than it got.
    pub async fn wants_login(&self, server: &ToolServer) -> bool {
        match self.account(server) {
            Some(account) => account.is_wanted().await,
            None => false,
        }
    }

    /// The login to `server` that sessions of whoever named it may use.
    pub(crate) fn account(&self, server: &ToolServer) -> Option<Account> {
        let logins = self.logins.as_ref()?;
        let ServerWay::Url(at) = &server.way else {
            return None;
        };
        // Whoever sets the header has said who we are.
        let mut names = at.headers.iter().map(|(name, _)| name);
        let is_said = names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        if is_said || !server.named_by.is_trusted() {
            return None;
        }
        let target = Target::parse(&at.url).ok()?;
        let called = match server.named_by {
            NamedBy::Operator | NamedBy::Project => server.name.clone(),
            NamedBy::LocalClient | NamedBy::Guest => server.place(),
        };
        let hint = format!("run `fastness mcp login {called}`");
        let web = Web::new(self.trusted_guard.clone(), target);
        let logins = (logins.clone(), OWNER);
        Some(Account::new(web, logins, at.client.clone(), hint))
    }

    fn account_or_not(&self, server: &ToolServer) -> Result<Account, LoginError> {
        let account = self.account(server);
        account.ok_or_else(|| {
            let why = "there is no logging in to it: it is a program, or its settings name a token";
            LoginError::Refused(why.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::tool_server::{Hidden, NamedBy, ServerUrl, ServerWay, Speech, ToolServer};
    use netguard::{Guard, Policy};

    use crate::connect::Servers;

    #[test]
    fn who_is_not_the_person_here_is_let_in_nowhere_as_that_person() {
        let guard = Guard::new(Policy::default()).unwrap();
        let servers = Servers::new(guard).with_logins("/nowhere".into());
        let server = |named_by, headers| {
            let at = ServerUrl {
                url: "https://h.example/mcp".to_owned(),
                headers,
                speech: Speech::Streamable,
                client: None,
            };
            ToolServer::new("s", ServerWay::Url(at), named_by)
        };
        let has_login = |server: &ToolServer| servers.account(server).is_some();
        assert!(has_login(&server(NamedBy::Operator, Vec::new())));
        assert!(has_login(&server(NamedBy::LocalClient, Vec::new())));
        assert!(!has_login(&server(NamedBy::Guest, Vec::new())));
        let said = vec![("authorization".to_owned(), Hidden::new("Bearer x"))];
        assert!(
            !has_login(&server(NamedBy::Operator, said)),
            "it is said already"
        );
    }
}
