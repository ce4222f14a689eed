//! The machine loses power while an answer is streamed.
//!
//! Time is paused: it moves on only when nobody has anything to do, and never while the store
//! works on its own thread, so "within a second" is exact.

use std::sync::Arc;
use std::time::Duration;

use auth::{Credential, Gate, Principal};
use domain::clock::Timestamp;
use domain::event::Text;
use domain::{Event, FailureKind, Limits, SessionId};
use futures_util::{StreamExt, stream};
use journal::FileStore;
use journal::storage::power::PowerStorage;
use llm::{Chunk, ChunkStream, Model, ModelRequest, Provider};
use session::{
    AttachError, Attached, Engine, Entrance, From, Item, NewSession, OneModel, Prompt, Sessions,
};
use tokio::time::{Instant, sleep, sleep_until};

/// Losses differ by seed: some keep what was never synced, most do not.
const SEEDS: u64 = 20;

/// Says `count` words, one each `every`, and then nothing more, without coming to an end.
#[derive(Clone, Copy)]
struct Talker {
    count: usize,
    every: Duration,
}

impl Provider for Talker {
    fn label(&self) -> &'static str {
        "talker"
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(*self)
    }
}

impl Model for Talker {
    fn stream(&mut self, _: ModelRequest) -> ChunkStream {
        let Self { count, every } = *self;
        let words = stream::iter(0..count).then(move |number| async move {
            if number > 0 {
                sleep(every).await;
            }
            Ok(Chunk::Text(format!("{number} ")))
        });
        Box::pin(words.chain(stream::pending()))
    }
}

/// A machine with one session whose model is talking.
struct Machine {
    storage: PowerStorage,
    id: SessionId,
    attached: Attached,
    _sessions: Sessions,
}

impl Machine {
    async fn start(seed: u64, talker: Talker, limits: Limits) -> Self {
        let storage = PowerStorage::new(seed);
        let store = FileStore::with_storage(Arc::new(storage.clone()));
        let sessions = start(store, talker, limits);
        let new = NewSession {
            cwd: "/somewhere".into(),
            additional_directories: Vec::new(),
            servers: Vec::new(),
        };
        let attached = sessions.create(&somebody(), new).await.unwrap();
        let prompt = Prompt {
            text: "talk".to_owned(),
            ..Prompt::default()
        };
        let refused = |accepted: Result<_, _>| drop(accepted.unwrap());
        attached.handle.prompt(prompt, Box::new(refused));
        Self {
            storage,
            id: attached.handle.id(),
            attached,
            _sessions: sessions,
        }
    }

    /// The next text that is shown.
    async fn next_text(&mut self) -> String {
        loop {
            let shown = self.attached.subscription.next().await.unwrap().unwrap();
            let texts = shown
                .into_iter()
                .filter_map(|delivery| match delivery.item {
                    Item::Text { text, .. } => Some(text.to_string()),
                    Item::Event(_) | Item::Progress(_) | Item::Failed(_) => None,
                });
            let text: String = texts.collect();
            if !text.is_empty() {
                return text;
            }
        }
    }

    /// Loses power; gives what another start finds of the answer.
    fn lose_power(self) -> String {
        self.storage.power_loss();
        let store = FileStore::with_storage(Arc::new(self.storage.clone()));
        let mut found = String::new();
        let mut visit = |stored: &journal::Stored| {
            if let Event::AssistantMessage(message) = &stored.event
                && let Text::Inline(text) = &message.text
            {
                assert!(message.partial);
                found.clone_from(text);
            }
        };
        let (writer, _) = store
            .open_session(self.id, Timestamp(0.0), &mut visit)
            .unwrap();
        assert_eq!(
            writer.epoch(),
            1,
            "a turn was open, so clients must be told"
        );
        found
    }
}

fn start(store: FileStore, talker: Talker, limits: Limits) -> Sessions {
    let provider: Arc<dyn Provider> = Arc::new(talker);
    Sessions::start(Engine {
        store,
        catalog: Arc::new(OneModel(Arc::clone(&provider))),
        provider,
        limits,
        greeting: None,
        hidden: Vec::new(),
        base: None,
        gate: Arc::new(Gate::this_process_only()),
        web: None,
        operator: Arc::default(),
        shell: None,
        remotes: None,
    })
}

fn somebody() -> Principal {
    let gate = Gate::this_process_only();
    let admitted = gate.admit(&Credential::ThisProcess, Timestamp(0.0));
    admitted.unwrap()
}

#[tokio::test(start_paused = true)]
async fn f_03_text_that_was_shown_is_on_disk_a_second_later() {
    let talker = Talker {
        count: 1,
        every: Duration::ZERO,
    };
    let mut lost_at_once = 0;
    for seed in 0..SEEDS {
        let mut machine = Machine::start(seed, talker, Limits::default()).await;
        assert_eq!(machine.next_text().await, "0 ");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(machine.lose_power(), "0 ", "seed {seed}");

        // The same without the second: the loss is a real one.
        let mut machine = Machine::start(seed, talker, Limits::default()).await;
        machine.next_text().await;
        lost_at_once += u64::from(machine.lose_power().is_empty());
    }
    assert!(lost_at_once > 0, "this power loss loses nothing");
}

#[tokio::test(start_paused = true)]
async fn f_03_while_text_flows_no_more_than_the_last_second_is_lost() {
    let talker = Talker {
        count: 10_000,
        every: Duration::from_millis(7),
    };
    let mut lost_something = false;
    for seed in 0..SEEDS {
        let mut machine = Machine::start(seed, talker, Limits::default()).await;
        let mut shown = String::new();
        let mut older_than_a_second = String::new();
        let fails_at = Instant::now() + Duration::from_millis(2_345 + 97 * seed);
        loop {
            tokio::select! {
                biased;
                () = sleep_until(fails_at) => break,
                text = machine.next_text() => shown.push_str(&text),
            }
            if Instant::now() + Duration::from_secs(1) <= fails_at {
                older_than_a_second.clone_from(&shown);
            }
        }
        let found = machine.lose_power();
        assert!(shown.starts_with(&found), "seed {seed}: {found}");
        assert!(
            found.starts_with(&older_than_a_second),
            "seed {seed}: {} of {} bytes",
            found.len(),
            older_than_a_second.len()
        );
        assert!(older_than_a_second.len() > 100, "nobody talked");
        lost_something |= found.len() < shown.len();
    }
    assert!(lost_something, "this power loss loses nothing");
}

#[tokio::test(start_paused = true)]
async fn f_07_a_session_that_a_full_disk_keeps_from_being_opened_can_be_deleted() {
    let talker = Talker {
        count: 1,
        every: Duration::ZERO,
    };
    let mut machine = Machine::start(1, talker, Limits::default()).await;
    machine.next_text().await;
    let (storage, id) = (machine.storage.clone(), machine.id);
    storage.power_loss();
    drop(machine);
    // Its recovery would have to write.
    storage.set_full(true);
    let store = FileStore::with_storage(Arc::new(storage.clone()));
    let sessions = start(store.clone(), talker, Limits::default());
    let refused = sessions
        .attach(id, Entrance::new(&somebody(), From::Start))
        .await;
    let full = AttachError::Failed(FailureKind::StorageFull);
    assert_eq!(refused.err(), Some(full));
    assert_eq!(sessions.delete(&somebody(), id).await, Ok(()));
    assert!(!store.exists(id));
}
