//! A connection that fails on our side, and what is left of it.

use std::collections::VecDeque;
use std::sync::Arc;

use auth::{Door, Gate};
use domain::{ConnectionId, Limits};
use journal::FileStore;
use journal::storage::power::PowerStorage;
use llm::{Model, Provider};
use session::{Catalog, Engine, OneModel, Sessions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lanes::Lanes;
use super::outbox::{Frame, Gone, Next, Outbox};
use super::{Inbound, Opening, Reach, Source, serve};
use crate::roster::Roster;
use crate::service::Service;
use crate::slots::Slots;
use crate::transport::streamable::Remotes;

struct NoModel;

impl Provider for NoModel {
    fn label(&self) -> &'static str {
        "none"
    }

    fn open(&self) -> Box<dyn Model> {
        panic!("nobody prompts here")
    }
}

/// A service with room for one client.
pub(crate) fn service() -> Service {
    let limits = Limits {
        connections_max: 1,
        ..Limits::default()
    };
    let gate = Arc::new(Gate::this_process_only());
    let provider: Arc<dyn Provider> = Arc::new(NoModel);
    let catalog: Arc<dyn Catalog> = Arc::new(OneModel(Arc::clone(&provider)));
    let sessions = Sessions::start(Engine {
        store: FileStore::with_storage(Arc::new(PowerStorage::new(1))),
        catalog: Arc::clone(&catalog),
        provider,
        limits: limits.clone(),
        greeting: None,
        hidden: Vec::new(),
        gate: Arc::clone(&gate),
        web: None,
        operator: Arc::default(),
        shell: None,
        remotes: None,
    });
    Service {
        sessions,
        gate,
        door: Door::new(0, &[], &[]),
        slots: Slots::new(&limits),
        limits,
        catalog,
        data_dir: "/nowhere".into(),
        cwd: "/".into(),
        tokens_changed: tokio::sync::watch::Sender::new(()),
        closing: CancellationToken::new(),
        remotes: Remotes::default(),
        roster: Roster::default(),
        connections: TaskTracker::new(),
    }
}

/// A client whose very first message cannot be taken.
struct Broken;

impl Source for Broken {
    async fn next(&mut self) -> Option<Inbound> {
        panic!("injected")
    }
}

#[tokio::test]
async fn b_07_a_connection_that_fails_at_the_start_closes_with_1011_and_leaks_nothing() {
    let service = Arc::new(service());
    let principal = service.admit(&auth::Credential::ThisProcess).unwrap();
    let outbox = Outbox::new(1_000);
    let slot = service.take_slot(&principal);
    assert!(
        service.take_slot(&principal).is_none(),
        "there is one place"
    );
    let opening = Opening {
        id: ConnectionId::random(),
        principal: principal.clone(),
        source: Broken,
        lanes: Lanes::One(outbox.clone()),
        reach: Reach::Network,
        trace: None,
    };
    let serving = tokio::spawn({
        let service = Arc::clone(&service);
        async move {
            serve(service, opening).await;
            drop(slot);
        }
    });
    assert!(serving.await.is_err_and(|error| error.is_panic()));
    assert!(matches!(outbox.next().await, Next::Close(1011)));
    let mut frames = VecDeque::from([Frame::once("too late".to_owned())]);
    assert_eq!(outbox.stream(&mut frames).await, Err(Gone));
    assert!(
        service.take_slot(&principal).is_some(),
        "its place is free again"
    );
}
