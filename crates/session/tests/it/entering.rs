//! Who may enter a session: its owner, whoever shows a resume token, and nobody whose own token is
//! gone.

use std::sync::Arc;

use auth::{Credential, Gate, NamedTokens, NewToken, Principal, Scope, Secret};
use domain::Limits;
use domain::clock::Timestamp;
use journal::FileStore;
use journal::storage::power::PowerStorage;
use llm::{Model, Provider};
use session::{AttachError, Attached, Engine, Entrance, From, NewSession, OneModel, Sessions};

struct NoModel;

impl Provider for NoModel {
    fn label(&self) -> &'static str {
        "none"
    }

    fn open(&self) -> Box<dyn Model> {
        panic!("nobody prompts here")
    }
}

pub(crate) struct World {
    _directory: tempfile::TempDir,
    named: NamedTokens,
    gate: Arc<Gate>,
    store: FileStore,
    pub(crate) sessions: Sessions,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let named = NamedTokens::of(directory.path());
        let gate = Arc::new(Gate::with_tokens(Secret::new("x"), named.clone()));
        let store = FileStore::with_storage(Arc::new(PowerStorage::new(1)));
        let provider: Arc<dyn Provider> = Arc::new(NoModel);
        let sessions = Sessions::start(Engine {
            store: store.clone(),
            catalog: Arc::new(OneModel(Arc::clone(&provider))),
            provider,
            limits: Limits::default(),
            greeting: None,
            hidden: Vec::new(),
            base: None,
            gate: Arc::clone(&gate),
            web: None,
            operator: Arc::default(),
            shell: None,
            remotes: None,
        });
        Self {
            _directory: directory,
            named,
            gate,
            store,
            sessions,
        }
    }

    pub(crate) fn local(&self) -> Principal {
        let now = Timestamp::now();
        self.gate.admit(&Credential::ThisProcess, now).unwrap()
    }

    fn friend(&self, name: &str, scope: Scope) -> Principal {
        let new = NewToken {
            name: name.to_owned(),
            scope,
            ..NewToken::default()
        };
        let (_, secret) = self.named.create(new, Timestamp::now()).unwrap();
        let shown = Credential::Bearer(secret.reveal());
        self.gate.admit(&shown, Timestamp::now()).unwrap()
    }

    pub(crate) async fn create(&self, principal: &Principal) -> Result<Attached, AttachError> {
        let new = NewSession {
            cwd: "/somewhere".into(),
            additional_directories: Vec::new(),
            servers: Vec::new(),
        };
        self.sessions.create(principal, new).await
    }

    async fn enter(
        &self,
        session: &Attached,
        principal: &Principal,
        token: Option<&Secret>,
    ) -> Result<Attached, AttachError> {
        let entrance = Entrance {
            resume_token: token.cloned(),
            ..Entrance::new(principal, From::Head)
        };
        self.sessions.attach(session.handle.id(), entrance).await
    }
}

#[tokio::test]
async fn a_09_an_identity_that_is_no_longer_registered_cannot_create_a_session() {
    let world = World::new();
    let friend = world.friend("friend", Scope::Control);
    assert!(world.create(&friend).await.is_ok());
    world.named.revoke("friend").unwrap();
    let refused = world.create(&friend).await;
    assert_eq!(refused.err(), Some(AttachError::NotFound));
    assert_eq!(world.store.list().unwrap().len(), 1, "no id is consumed");
}

#[tokio::test]
async fn whoever_shows_a_resume_token_enters_and_gets_its_successor() {
    let world = World::new();
    let owned = world.create(&world.local()).await.unwrap();
    let friend = world.friend("friend", Scope::Control);
    let refused = world.enter(&owned, &friend, None).await;
    assert_eq!(refused.err(), Some(AttachError::NotFound));
    let forged = world
        .enter(&owned, &friend, Some(&Secret::new("x".repeat(43))))
        .await;
    assert_eq!(forged.err(), Some(AttachError::NotFound));

    let token = owned.resume_token.clone().unwrap();
    let entered = world.enter(&owned, &friend, Some(&token)).await.unwrap();
    assert!(entered.handle.may_act());
    assert_eq!(entered.handle.line(), owned.handle.line());
    let successor = entered.resume_token.clone().unwrap();
    assert_ne!(successor.reveal(), token.reveal());
    let again = world
        .enter(&owned, &friend, Some(&successor))
        .await
        .unwrap();
    assert_eq!(again.handle.line(), owned.handle.line());
    // The owner without a token is somebody new, on a line of its own.
    let other = world.enter(&owned, &world.local(), None).await.unwrap();
    assert_ne!(other.handle.line(), owned.handle.line());
}

#[tokio::test]
async fn a_resume_token_grants_no_more_than_was_issued_and_is_for_one_session() {
    let world = World::new();
    let owned = world.create(&world.local()).await.unwrap();
    let token = owned.resume_token.clone().unwrap();
    let observer = world.friend("observer", Scope::Observe);
    let watching = world.enter(&owned, &observer, Some(&token)).await.unwrap();
    assert!(!watching.handle.may_act(), "an observer stays one");
    let friend = world.friend("friend", Scope::Control);
    let seen = watching.resume_token.clone().unwrap();
    let by_observer = world.enter(&owned, &friend, Some(&seen)).await.unwrap();
    assert!(
        !by_observer.handle.may_act(),
        "what an observer has grants looking only"
    );
    let another = world.create(&world.local()).await.unwrap();
    let refused = world.enter(&another, &friend, Some(&token)).await;
    assert_eq!(refused.err(), Some(AttachError::NotFound));
}

#[tokio::test]
async fn a_resume_token_dies_with_the_token_that_got_it() {
    let world = World::new();
    let owned = world.create(&world.local()).await.unwrap();
    let (friend, other) = (
        world.friend("friend", Scope::Control),
        world.friend("other", Scope::Control),
    );
    let first = owned.resume_token.clone().unwrap();
    let entered = world.enter(&owned, &friend, Some(&first)).await.unwrap();
    let of_friend = entered.resume_token.clone().unwrap();
    world.named.revoke("friend").unwrap();
    let refused = world.enter(&owned, &other, Some(&of_friend)).await;
    assert_eq!(refused.err(), Some(AttachError::NotFound));
}
