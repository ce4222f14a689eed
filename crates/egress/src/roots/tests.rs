//! Where roots come from, with directories in place of the system's.

use std::iter;
use std::path::Path;

use super::{PublicRoots, RootSources, RootsError, load};

fn certificate() -> String {
    let own = rcgen::generate_simple_self_signed(["ca.example".to_owned()]);
    own.unwrap().cert.pem()
}

#[test]
fn system_store_is_used_alone_when_it_has_certificates() {
    let store = tempfile::tempdir().unwrap();
    std::fs::write(store.path().join("ca.crt"), certificate()).unwrap();
    std::fs::write(store.path().join("README"), "not a certificate").unwrap();
    let loaded = load(&RootSources::default(), iter::once(store.path())).unwrap();
    assert_eq!(loaded.public(), PublicRoots::System(1));
    assert_eq!(loaded.store().len(), 1);
    assert_eq!(loaded.to_string(), "1 certificates of the system store");
}

#[test]
fn bundled_roots_stand_in_for_an_empty_or_missing_system_store() {
    let empty = tempfile::tempdir().unwrap();
    let missing = Path::new("/nowhere/certs");
    for system in [vec![], vec![empty.path()], vec![missing]] {
        let loaded = load(&RootSources::default(), system.into_iter()).unwrap();
        let bundled = webpki_roots::TLS_SERVER_ROOTS.len();
        assert!(bundled > 50, "{bundled}");
        assert_eq!(loaded.public(), PublicRoots::Bundled(bundled));
        assert_eq!(loaded.store().len(), bundled);
    }
}

#[test]
fn own_certificates_are_added_to_the_public_ones() {
    let directory = tempfile::tempdir().unwrap();
    let [system, cert_dir] = ["system", "dir"].map(|name| directory.path().join(name));
    let [ca_file, cert_file] = ["ca.pem", "shared.pem"].map(|name| directory.path().join(name));
    for place in [&system, &cert_dir] {
        std::fs::create_dir(place).unwrap();
        std::fs::write(place.join("one.pem"), certificate()).unwrap();
    }
    for file in [&ca_file, &cert_file] {
        std::fs::write(file, certificate()).unwrap();
    }
    let sources = RootSources {
        ca_file: Some(ca_file),
        cert_file: Some(cert_file),
        cert_dirs: vec![cert_dir, directory.path().join("missing")],
        certificates: Vec::new(),
    };
    let loaded = load(&sources, iter::once(system.as_path())).unwrap();
    assert_eq!(loaded.store().len(), 4);
    let shown = "1 certificates of the system store and 3 of your own";
    assert_eq!(loaded.to_string(), shown);
}

#[test]
fn only_a_file_that_a_setting_names_must_hold_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    let named = RootSources {
        ca_file: Some(file.clone()),
        ..RootSources::default()
    };
    let shared = RootSources {
        cert_file: Some(file.clone()),
        ..RootSources::default()
    };
    let refused = RootsError::NoCertificate { file: file.clone() };
    assert_eq!(load(&named, iter::empty()).unwrap_err(), refused);
    assert!(load(&shared, iter::empty()).is_ok());
    std::fs::write(&file, "no certificate").unwrap();
    assert_eq!(load(&named, iter::empty()).unwrap_err(), refused);
}
