//! The one function that builds the TLS root store.
//!
//! Public roots are those of the system's certificate store, or the bundled ones if the system has
//! none. Certificates of `ca_file`, `SSL_CERT_FILE` and `SSL_CERT_DIR` are added to them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls_native_certs::load_certs_from_paths;

/// Certificates to trust besides the public ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootSources {
    /// A PEM file that a setting or a flag names. It must hold a usable certificate.
    pub ca_file: Option<PathBuf>,
    /// `SSL_CERT_FILE`. Other programs read it too, and it often names a missing file, so a file
    /// that cannot be read is ignored.
    pub cert_file: Option<PathBuf>,
    /// The directories of `SSL_CERT_DIR`, under the same rule.
    pub cert_dirs: Vec<PathBuf>,
    /// Certificates in DER form.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Trusted roots, loaded when they are first needed: reading the system's store takes
/// milliseconds, and many commands never use TLS. Clones share what was loaded.
#[derive(Clone, Default)]
pub struct Roots {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    sources: RootSources,
    loaded: OnceLock<LoadedRoots>,
}

/// A root store, and where its certificates come from.
#[derive(Clone, Debug)]
pub struct LoadedRoots {
    store: Arc<RootCertStore>,
    public: PublicRoots,
    added: usize,
}

/// Where the public roots come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicRoots {
    /// The system's certificate store, with this many certificates.
    System(usize),
    /// Those that were compiled in, because the system has none.
    Bundled(usize),
}

/// Why the roots cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootsError {
    /// The named file cannot be read, or holds nothing usable.
    #[error("{} holds no certificates in PEM that can be read", file.display())]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// A certificate that was passed in is malformed.
    #[error("a certificate to trust is malformed")]
    Malformed,
}

impl Roots {
    /// Roots from these sources. Nothing is read yet.
    #[must_use]
    pub fn new(sources: RootSources) -> Self {
        let shared = Shared {
            sources,
            loaded: OnceLock::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What they are loaded from, besides the public roots.
    #[must_use]
    pub fn sources(&self) -> &RootSources {
        &self.shared.sources
    }

    /// Reads `ca_file`, if one is named, so that a wrong name is reported at start.
    ///
    /// # Errors
    /// If the file holds no usable certificate.
    pub fn check(&self) -> Result<(), RootsError> {
        let mut store = RootCertStore::empty();
        add_named(&mut store, &self.shared.sources).map(|_| ())
    }

    /// The root store. It is built once and then shared.
    ///
    /// # Errors
    /// If a named file holds no usable certificate.
    pub fn load(&self) -> Result<&LoadedRoots, RootsError> {
        if let Some(loaded) = self.shared.loaded.get() {
            return Ok(loaded);
        }
        let loaded = load(&self.shared.sources, openssl_probe::candidate_cert_dirs())?;
        Ok(self.shared.loaded.get_or_init(|| loaded))
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Roots").field(&self.shared.sources).finish()
    }
}

impl LoadedRoots {
    /// The store, for a TLS configuration.
    #[must_use]
    pub fn store(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.store)
    }

    /// Where the public roots come from.
    #[must_use]
    pub fn public(&self) -> PublicRoots {
        self.public
    }
}

impl fmt::Display for LoadedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.public {
            PublicRoots::System(count) => write!(f, "{count} certificates of the system store")?,
            PublicRoots::Bundled(count) => {
                write!(
                    f,
                    "{count} bundled certificates (the system store is empty)"
                )?;
            }
        }
        match self.added {
            0 => Ok(()),
            added => write!(f, " and {added} of your own"),
        }
    }
}

/// Builds the store; `system` are the directories of the system's store.
fn load<'a>(
    sources: &RootSources,
    system: impl Iterator<Item = &'a Path>,
) -> Result<LoadedRoots, RootsError> {
    let mut store = RootCertStore::empty();
    for directory in system {
        // A store often holds a few files that are no certificates; the others count.
        let found = load_certs_from_paths(None, Some(directory)).certs;
        store.add_parsable_certificates(found);
    }
    let public = match store.len() {
        0 => {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            PublicRoots::Bundled(store.len())
        }
        count => PublicRoots::System(count),
    };
    let mut added = add_named(&mut store, sources)?;
    let file = sources.cert_file.as_deref();
    let file = file.map(|file| load_certs_from_paths(Some(file), None));
    let directories = sources.cert_dirs.iter();
    let directories = directories.map(|directory| load_certs_from_paths(None, Some(directory)));
    for found in file.into_iter().chain(directories) {
        let (usable, _) = store.add_parsable_certificates(found.certs);
        added += usable;
    }
    Ok(LoadedRoots {
        store: Arc::new(store),
        public,
        added,
    })
}

/// Adds what must be usable; how many were added.
fn add_named(store: &mut RootCertStore, sources: &RootSources) -> Result<usize, RootsError> {
    let mut added = 0;
    if let Some(file) = &sources.ca_file {
        let found = load_certs_from_paths(Some(file), None);
        let (usable, _) = store.add_parsable_certificates(found.certs);
        if usable == 0 || !found.errors.is_empty() {
            return Err(RootsError::NoCertificate { file: file.clone() });
        }
        added += usable;
    }
    for certificate in &sources.certificates {
        let certificate = store.add(certificate.clone());
        certificate.map_err(|_| RootsError::Malformed)?;
        added += 1;
    }
    Ok(added)
}

#[cfg(test)]
mod tests;
