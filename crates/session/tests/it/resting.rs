//! What a session holds between turns: enough to go on at once, and not for ever.

use std::sync::Arc;
use std::time::Duration;

use auth::{Credential, Gate};
use domain::clock::Timestamp;
use domain::limits::SESSION_WARM_TIME;
use domain::{Event, Limits};
use futures_util::stream;
use journal::FileStore;
use journal::storage::power::{Fault, FaultyCall, PowerStorage};
use llm::{Chunk, ChunkStream, Message, Model, ModelRequest, Provider};
use session::{Attached, Engine, Item, NewSession, OneModel, Prompt, Sessions};

/// A prompt that is answered with no text, so that no text is read back when it ends.
const SILENCE: &str = "hush";

/// Says what it was told so far, unless it is to be silent.
#[derive(Clone, Copy)]
struct Parrot;

impl Provider for Parrot {
    fn label(&self) -> &'static str {
        "parrot"
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(*self)
    }
}

impl Model for Parrot {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        let told = request.messages.iter().filter_map(|message| match message {
            Message::User { text, .. } => Some(text.as_str()),
            Message::Assistant { .. } | Message::ToolResults(_) => None,
        });
        let told = told.collect::<Vec<_>>().join(" ");
        let said = (!told.ends_with(SILENCE)).then_some(Ok(Chunk::Text(told)));
        Box::pin(stream::iter(said))
    }
}

async fn session() -> (PowerStorage, Sessions, Attached) {
    session_with(Arc::new(Parrot)).await
}

/// A session whose model comes from `provider`.
pub(crate) async fn session_with(
    provider: Arc<dyn Provider>,
) -> (PowerStorage, Sessions, Attached) {
    let storage = PowerStorage::new(1);
    let gate = Gate::this_process_only();
    let admitted = gate.admit(&Credential::ThisProcess, Timestamp(0.0));
    let sessions = Sessions::start(Engine {
        store: FileStore::with_storage(Arc::new(storage.clone())),
        catalog: Arc::new(OneModel(Arc::clone(&provider))),
        provider,
        limits: Limits::default(),
        greeting: None,
        hidden: Vec::new(),
        base: None,
        gate: Arc::new(gate),
        web: None,
        operator: Arc::default(),
        shell: None,
        remotes: None,
    });
    let new = NewSession {
        cwd: "/somewhere".into(),
        additional_directories: Vec::new(),
        servers: Vec::new(),
    };
    let attached = sessions.create(&admitted.unwrap(), new).await.unwrap();
    (storage, sessions, attached)
}

/// Prompts; gives what the model said, once the turn has ended.
pub(crate) async fn turn(attached: &mut Attached, text: &str) -> String {
    let prompt = Prompt {
        text: text.to_owned(),
        ..Prompt::default()
    };
    let taken = |accepted: Result<_, _>| drop(accepted.unwrap());
    attached.handle.prompt(prompt, Box::new(taken));
    let mut said = String::new();
    loop {
        for delivery in attached.subscription.next().await.unwrap().unwrap() {
            match delivery.item {
                Item::Text { text, .. } => said.push_str(&text),
                Item::Event(stored) if matches!(stored.event, Event::TurnResult(_)) => {
                    return said;
                }
                Item::Event(_) | Item::Progress(_) => {}
                Item::Failed(kind) => panic!("{kind:?}"),
            }
        }
    }
}

/// Whether a second turn reads the journal, after a rest of `rest`.
async fn reads_after(rest: Duration) -> bool {
    let (storage, _sessions, mut attached) = session().await;
    turn(&mut attached, "one").await;
    tokio::time::sleep(rest).await;
    let before = storage.faults();
    storage.arm(Some(Fault {
        call: FaultyCall::Read,
        nth: 1,
        errno: Some(5),
    }));
    let prompt = Prompt {
        text: SILENCE.to_owned(),
        ..Prompt::default()
    };
    attached.handle.prompt(prompt, Box::new(|_| {}));
    let ended = |item: &Item| match item {
        Item::Event(stored) => matches!(stored.event, Event::TurnResult(_)),
        Item::Failed(_) => true,
        Item::Text { .. } | Item::Progress(_) => false,
    };
    loop {
        let deliveries = attached.subscription.next().await.unwrap().unwrap();
        if deliveries.iter().any(|delivery| ended(&delivery.item)) {
            return storage.faults() > before;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rests_lets_go_of_its_conversation_after_a_while() {
    let second = Duration::from_secs(1);
    assert!(!reads_after(SESSION_WARM_TIME - second).await);
    assert!(reads_after(SESSION_WARM_TIME + second).await);
}

#[tokio::test(start_paused = true)]
async fn after_a_long_rest_the_model_is_told_everything_again() {
    let (_storage, _sessions, mut attached) = session().await;
    assert_eq!(turn(&mut attached, "one").await, "one");
    tokio::time::sleep(2 * SESSION_WARM_TIME).await;
    assert_eq!(turn(&mut attached, "two").await, "one two");
    assert_eq!(turn(&mut attached, "three").await, "one two three");
}
