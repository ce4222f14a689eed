//! Admission: the only way to become a principal.

use domain::PrincipalId;

use crate::secret::Secret;

/// Proof that whoever holds it was admitted as `id`.
///
/// There is no public constructor: see [`Gate::admit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    id: PrincipalId,
}

impl Principal {
    /// Who it is.
    #[must_use]
    pub fn id(&self) -> &PrincipalId {
        &self.id
    }
}

/// What a connection shows to be admitted.
pub enum Credential<'a> {
    /// The text after `Bearer`.
    Bearer(&'a str),
    /// It was made by this process: stdio, or a command's own in-process connection.
    ThisProcess,
}

/// The credential is missing or wrong; which of the two is nobody's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a valid token is required")]
pub struct Unauthorized;

/// Knows the secrets and admits those who know one.
#[derive(Clone, Debug)]
pub struct Gate {
    default_token: Option<Secret>,
}

impl Gate {
    /// A gate that lets in holders of `default_token` as `local`.
    #[must_use]
    pub fn with_token(default_token: Secret) -> Self {
        Self {
            default_token: Some(default_token),
        }
    }

    /// A gate for a process that listens to nobody else: no token opens it.
    #[must_use]
    pub fn this_process_only() -> Self {
        Self {
            default_token: None,
        }
    }

    /// Admits the holder of `credential`.
    ///
    /// # Errors
    /// If it opens nothing here.
    pub fn admit(&self, credential: &Credential<'_>) -> Result<Principal, Unauthorized> {
        let local = || Principal {
            id: PrincipalId::local(),
        };
        match (credential, &self.default_token) {
            (Credential::ThisProcess, _) => Ok(local()),
            (Credential::Bearer(shown), Some(token)) if token.matches(shown) => Ok(local()),
            (Credential::Bearer(_), _) => Err(Unauthorized),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Credential, Gate, Unauthorized};
    use crate::secret::Secret;

    #[test]
    fn only_the_exact_token_opens_the_gate() {
        let gate = Gate::with_token(Secret::new("open-sesame"));
        assert!(gate.admit(&Credential::Bearer("open-sesame")).is_ok());
        for wrong in ["", "open-sesam", "open-sesamex", "Open-sesame"] {
            assert_eq!(
                gate.admit(&Credential::Bearer(wrong)),
                Err(Unauthorized),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_process_without_a_token_admits_no_bearer_at_all() {
        let gate = Gate::this_process_only();
        assert_eq!(gate.admit(&Credential::Bearer("")), Err(Unauthorized));
        assert_eq!(
            gate.admit(&Credential::ThisProcess).unwrap().id().as_str(),
            "local"
        );
    }

    #[test]
    fn a_secret_never_prints() {
        let gate = Gate::with_token(Secret::new("open-sesame"));
        assert!(!format!("{gate:?}").contains("sesame"));
    }
}
