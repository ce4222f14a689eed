//! Logins as their connection and the person use them, at authorization servers of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::tool_server::{Hidden, LoginClient};
use netguard::{Guard, Policy, Target};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::client::Client;
use super::discover::Authority;
use super::login::now;
use super::store::{Grant, Logins};
use super::{Account, LoggedOut, Web};
use crate::faults::server::listen;

/// An authorization server at `issuer`, as it describes itself besides `more`.
fn authority(issuer: &str, more: &Value) -> Authority {
    let mut described = json!({"issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "code_challenge_methods_supported": ["S256"]});
    let all = described.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    serde_json::from_value(described).unwrap()
}

/// The login of the person here to a server that trusts `issuer`, kept in `place`.
fn account(issuer: &str, place: &tempfile::TempDir) -> Account {
    let guard = Guard::new(Policy::default()).unwrap();
    let server = Target::parse(&format!("{issuer}/mcp")).unwrap();
    let logins = Logins::new(place.path().join("logins"));
    let hint = "run it".to_owned();
    Account::new(Web::new(guard, server), (logins, "local"), None, hint)
}

/// What that person has granted, good for `lasts` seconds more.
fn grant(issuer: &str, lasts: u64) -> Grant {
    let set = LoginClient {
        id: "us".to_owned(),
        secret: None,
        redirect_port: None,
    };
    Grant {
        issuer: issuer.to_owned(),
        resource: format!("{issuer}/mcp"),
        token_endpoint: format!("{issuer}/token"),
        revocation_endpoint: Some(format!("{issuer}/revoke")),
        client: Client::said(&set, &authority(issuer, &json!({}))).unwrap(),
        access_token: "old".to_owned(),
        refresh_token: Some("again".to_owned()),
        expires_at: Some(now() + lasts),
        scope: None,
    }
}

#[tokio::test]
async fn a_logout_is_done_before_the_authorization_server_hears_of_it_and_if_it_never_answers() {
    let (asked, told) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (asking, telling) = (Arc::clone(&asked), Arc::clone(&told));
    let base = listen(move |mut connection| {
        let (asking, telling) = (Arc::clone(&asking), Arc::clone(&telling));
        async move {
            let request = connection.request().await.unwrap();
            assert_eq!(request.path, "/revoke");
            telling.fetch_add(1, Ordering::SeqCst);
            asking.notify_one();
            std::future::pending().await
        }
    });
    let (base, place) = (base.await, tempfile::tempdir().unwrap());
    let account = account(&base, &place);
    account.keep(grant(&base, 3_600)).await.unwrap();
    let watching = async {
        asked.notified().await;
        let stored = account.stored().await.unwrap();
        assert!(stored.grant.is_none(), "it is forgotten already");
        assert!(account.token().await.is_none(), "here, too");
        // From here on nothing happens but that time passes.
        tokio::time::pause();
    };
    let (logged_out, ()) = tokio::join!(account.logout(), watching);
    let expected = LoggedOut {
        had_login: true,
        is_told: Some(false),
    };
    assert_eq!(logged_out.unwrap(), expected);
    assert_eq!(told.load(Ordering::SeqCst), 1, "it is waited for once");
}

#[tokio::test]
async fn a_token_that_is_about_to_run_out_is_renewed_once_before_anybody_uses_it() {
    let renewals = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&renewals);
    let base = listen(move |mut connection| {
        let counted = Arc::clone(&counted);
        async move {
            while let Some(request) = connection.request().await {
                assert_eq!(request.path, "/token");
                counted.fetch_add(1, Ordering::SeqCst);
                let given = json!({"access_token": "new", "token_type": "bearer",
                    "expires_in": 3_600});
                let given = given.to_string();
                connection
                    .respond("200 OK", "application/json", &given)
                    .await;
            }
        }
    });
    let (base, place) = (base.await, tempfile::tempdir().unwrap());
    let token = async |account: &Account| account.token().await.map(|token| reveal(&token));
    let lasting = account(&base, &place);
    lasting.keep(grant(&base, 3_600)).await.unwrap();
    assert_eq!(token(&lasting).await.as_deref(), Some("old"), "it is good");
    lasting.keep(grant(&base, 5)).await.unwrap();
    // As two processes would.
    let other = account(&base, &place);
    let both = tokio::join!(token(&lasting), token(&other));
    assert_eq!(both, (Some("new".to_owned()), Some("new".to_owned())));
    assert_eq!(renewals.load(Ordering::SeqCst), 1);
    let stored = other.stored().await.unwrap().grant.unwrap();
    assert_eq!(stored.access_token, "new");
    let kept = stored.refresh_token.as_deref();
    assert_eq!(kept, Some("again"), "what still works is kept");
}

fn reveal(token: &Hidden) -> String {
    token.reveal().to_owned()
}

#[test]
fn we_are_called_as_is_set_where_that_is_understood_and_else_register() {
    let set = |id: &str, secret: Option<&str>| LoginClient {
        id: id.to_owned(),
        secret: secret.map(Hidden::new),
        redirect_port: None,
    };
    let plain = authority("https://h.example", &json!({}));
    let understands = json!({"client_id_metadata_document_supported": true,
        "token_endpoint_auth_methods_supported": ["client_secret_post"]});
    let understands = authority("https://h.example", &understands);
    let description = set("https://us.example/client.json", None);
    assert!(Client::said(&description, &plain).is_none(), "we register");
    let described = Client::said(&description, &understands).unwrap();
    let (form, basic) = described.proof();
    assert_eq!(form, [("client_id", "https://us.example/client.json")]);
    assert!(basic.is_none());
    let secret = set("us", Some("a b:c"));
    let (form, basic) = {
        let named = Client::said(&secret, &plain).unwrap();
        let (form, basic) = named.proof();
        (form.len(), basic.map(|basic| reveal(&basic)))
    };
    // `us:a+b%3Ac`
    assert_eq!(
        (form, basic.as_deref()),
        (0, Some("Basic dXM6YStiJTNBYw=="))
    );
    let named = Client::said(&secret, &understands).unwrap();
    let (form, basic) = named.proof();
    assert_eq!(form, [("client_id", "us"), ("client_secret", "a b:c")]);
    assert!(basic.is_none());
}
