//! Tickets: once, within a minute, and nothing of them on disk.

use domain::PrincipalId;
use domain::clock::Timestamp;

use super::{LOGINS_MAX, LoginError};
use crate::named::NamedTokens;
use crate::secret::Secret;
use crate::{Credential, Gate};

const NOW: Timestamp = Timestamp(1_000.0);

fn at(seconds: f64) -> Timestamp {
    Timestamp(NOW.0 + seconds)
}

fn gate() -> (tempfile::TempDir, NamedTokens, Gate) {
    let directory = tempfile::tempdir().unwrap();
    let named = NamedTokens::of(directory.path());
    let gate = Gate::with_tokens(Secret::new("open-sesame"), named.clone());
    (directory, named, gate)
}

#[test]
fn a_ticket_works_once_and_makes_a_token_of_twelve_hours_for_its_issuer() {
    let (directory, named, gate) = gate();
    let ticket = named.issue_ticket(NOW).unwrap();
    let login = gate.log_in(ticket.reveal(), at(59.0)).unwrap();
    let hours = (login.expires_at.0 - at(59.0).0) / 3_600.0;
    assert!((hours - 12.0).abs() < 1e-6, "{hours}");
    assert!(matches!(
        gate.log_in(ticket.reveal(), at(59.0)),
        Err(LoginError::Wrong)
    ));

    let token = Credential::Bearer(login.token.reveal());
    let principal = gate.admit(&token, at(60.0)).unwrap();
    assert_eq!(principal.id(), &PrincipalId::local());
    assert!(principal.is_local());
    assert!(gate.admit(&token, login.expires_at).is_err());
    assert!(!gate.still_admits(&principal, login.expires_at));

    let text = std::fs::read_to_string(directory.path().join("tokens.json")).unwrap();
    for secret in [ticket.reveal(), login.token.reveal()] {
        assert!(!text.contains(secret), "only hashes are on disk");
    }
}

#[test]
fn a_ticket_is_no_token_and_a_token_is_no_ticket() {
    let (_directory, named, gate) = gate();
    let ticket = named.issue_ticket(NOW).unwrap();
    assert!(
        gate.admit(&Credential::Bearer(ticket.reveal()), NOW)
            .is_err()
    );
    for wrong in ["", "open-sesame", &ticket.reveal()[1..]] {
        assert!(matches!(gate.log_in(wrong, NOW), Err(LoginError::Wrong)));
    }
}

#[test]
fn a_ticket_is_good_for_a_minute_also_after_a_restart() {
    let (directory, named, _) = gate();
    let (late, early) = (
        named.issue_ticket(NOW).unwrap(),
        named.issue_ticket(NOW).unwrap(),
    );
    let restarted = Gate::with_tokens(
        Secret::new("open-sesame"),
        NamedTokens::of(directory.path()),
    );
    assert!(restarted.log_in(early.reveal(), at(59.9)).is_ok());
    assert!(matches!(
        restarted.log_in(late.reveal(), at(60.0)),
        Err(LoginError::Wrong)
    ));
}

#[test]
fn a_login_is_listed_and_revoked_like_any_token() {
    let (_directory, named, gate) = gate();
    let ticket = named.issue_ticket(NOW).unwrap();
    let login = gate.log_in(ticket.reveal(), NOW).unwrap();
    let token = Credential::Bearer(login.token.reveal());
    let principal = gate.admit(&token, NOW).unwrap();
    let name = named.all().unwrap()[0].name.clone();
    assert!(name.starts_with("page-"), "{name}");
    named.revoke(&name).unwrap();
    assert!(gate.admit(&token, NOW).is_err());
    assert!(!gate.still_admits(&principal, NOW));
}

#[test]
fn guessing_is_slowed_down_but_locks_nobody_out() {
    let (_directory, named, gate) = gate();
    let ticket = named.issue_ticket(NOW).unwrap();
    for _ in 0..10 {
        assert!(matches!(gate.log_in("guess", NOW), Err(LoginError::Wrong)));
    }
    let Err(LoginError::TooMany { retry_after }) = gate.log_in("guess", NOW) else {
        panic!("the eleventh guess has to wait");
    };
    assert!(retry_after.as_secs_f64() > 0.0 && retry_after.as_secs() <= 1);
    assert!(gate.log_in(ticket.reveal(), NOW).is_ok());
    assert!(matches!(
        gate.log_in("guess", at(1.0)),
        Err(LoginError::Wrong)
    ));
    // The clock may be set back; the next second counts all the same.
    assert!(gate.log_in("guess", at(-5_000.0)).is_err());
    assert!(matches!(
        gate.log_in("guess", at(-4_999.0)),
        Err(LoginError::Wrong)
    ));
}

#[test]
fn of_too_many_logins_the_oldest_ends() {
    let (_directory, named, gate) = gate();
    let log_in = || {
        let ticket = named.issue_ticket(NOW).unwrap();
        gate.log_in(ticket.reveal(), NOW).unwrap()
    };
    let first = log_in();
    let second = log_in();
    for _ in 2..=LOGINS_MAX {
        log_in();
    }
    let admitted = |login: &super::Login| {
        let token = Credential::Bearer(login.token.reveal());
        gate.admit(&token, NOW).is_ok()
    };
    assert!(!admitted(&first) && admitted(&second));
    assert_eq!(named.all().unwrap().len(), LOGINS_MAX);
}
