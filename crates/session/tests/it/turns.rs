//! What a session remembers from turn to turn: its conversation, its model, what was undone.

use std::sync::{Arc, Mutex};

use auth::{Credential, Gate, Principal};
use domain::clock::Timestamp;
use domain::event::{StopReason, Usage};
use domain::limits::PROMPT_IDS_REMEMBERED_MAX;
use domain::{Event, EventSeq, Limits, PromptId, SessionId};
use futures_util::stream;
use journal::FileStore;
use journal::storage::power::PowerStorage;
use llm::{
    Catalog, ChooseError, Chunk, ChunkStream, Message, Model, ModelOption, ModelRequest, ModelStop,
    Provider,
};
use serde_json::json;
use session::{
    Accepted, Attached, CommandError, Engine, Entrance, Fate, From, Item, NewSession, Prompt,
    Rewound, Sessions,
};
use tokio::sync::oneshot;

/// A model that answers with its own name and notes what it was shown.
#[derive(Clone)]
struct Named {
    name: &'static str,
    shown: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Provider for Named {
    fn label(&self) -> &str {
        self.name
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

impl Model for Named {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        let texts = request.messages.iter().map(|message| match message {
            Message::User { text, .. } | Message::Assistant { text, .. } => text.clone(),
            Message::ToolResults(_) => String::new(),
        });
        self.shown.lock().unwrap().push(texts.collect());
        let usage = Usage {
            input_tokens: 10,
            output_tokens: 5,
            ..Usage::default()
        };
        Box::pin(stream::iter([
            Ok(Chunk::Text(format!("I am {}", self.name))),
            Ok(Chunk::Usage(usage)),
            Ok(Chunk::Stop(ModelStop::EndTurn)),
        ]))
    }
}

/// Two models to choose from.
struct Pair([Named; 2]);

impl Catalog for Pair {
    fn options(&self) -> Vec<ModelOption> {
        let option = |model: &Named| ModelOption {
            spec: model.name.to_owned(),
            name: model.name.to_owned(),
        };
        self.0.iter().map(option).collect()
    }

    fn provider(&self, spec: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        let found = self.0.iter().find(|model| model.name == spec);
        let found = found.cloned().ok_or(ChooseError::NotOffered)?;
        Ok(Arc::new(found))
    }
}

/// A disk, and the models of the processes that use it one after the other.
struct World {
    disk: Arc<PowerStorage>,
    shown: Arc<Mutex<Vec<Vec<String>>>>,
    limits: Limits,
}

impl World {
    fn new() -> Self {
        Self {
            disk: Arc::new(PowerStorage::new(1)),
            shown: Arc::default(),
            limits: Limits::default(),
        }
    }

    fn start(&self) -> Sessions {
        let model = |name| Named {
            name,
            shown: Arc::clone(&self.shown),
        };
        let (one, two) = (model("one"), model("two"));
        Sessions::start(Engine {
            store: FileStore::with_storage(self.disk.clone()),
            catalog: Arc::new(Pair([one.clone(), two])),
            provider: Arc::new(one),
            limits: self.limits.clone(),
            greeting: None,
            hidden: Vec::new(),
            base: None,
            gate: Arc::new(Gate::this_process_only()),
            web: None,
            shell: None,
            remotes: None,
            operator: Arc::default(),
        })
    }

    /// What the model was shown last.
    fn last_shown(&self) -> Vec<String> {
        self.shown.lock().unwrap().last().unwrap().clone()
    }
}

fn somebody() -> Principal {
    let gate = Gate::this_process_only();
    let admitted = gate.admit(&Credential::ThisProcess, Timestamp(0.0));
    admitted.unwrap()
}

async fn create(sessions: &Sessions) -> Attached {
    let new = NewSession {
        cwd: "/somewhere".into(),
        additional_directories: Vec::new(),
        servers: Vec::new(),
    };
    sessions.create(&somebody(), new).await.unwrap()
}

async fn enter(sessions: &Sessions, id: SessionId, from: From) -> Attached {
    let entrance = Entrance::new(&somebody(), from);
    sessions.attach(id, entrance).await.unwrap()
}

/// Prompts and waits for the turn to end; gives the event that ended it.
async fn turn(attached: &mut Attached, text: &str) -> EventSeq {
    let prompt = Prompt {
        text: text.to_owned(),
        ..Prompt::default()
    };
    let taken = |accepted: Result<_, _>| drop(accepted.unwrap());
    attached.handle.prompt(prompt, Box::new(taken));
    loop {
        for delivery in attached.subscription.next().await.unwrap().unwrap() {
            if let Item::Event(stored) = &delivery.item
                && matches!(stored.event, Event::TurnResult(_))
            {
                return stored.seq;
            }
        }
    }
}

/// Waits for the answer to a command.
async fn answer<T: Send + 'static>(
    ask: impl FnOnce(Box<dyn FnOnce(Result<T, CommandError>) + Send>),
) -> Result<T, CommandError> {
    let (reply, answered) = oneshot::channel();
    ask(Box::new(move |answer| drop(reply.send(answer))));
    answered.await.unwrap()
}

async fn rewind(attached: &Attached, to: EventSeq) -> Result<Rewound, CommandError> {
    answer(|reply| attached.handle.rewind(to, reply)).await
}

async fn leave(sessions: Sessions, attached: Attached) {
    drop(attached);
    sessions.shut_down(tokio::time::Instant::now()).await;
}

/// The prompts that a client which comes now is shown.
async fn replayed(sessions: &Sessions, id: SessionId, from: From) -> (Vec<String>, Attached) {
    let mut attached = enter(sessions, id, from).await;
    let head = attached.snapshot.head;
    let mut prompts = Vec::new();
    while attached.subscription.cursor().seq < head {
        for delivery in attached.subscription.next().await.unwrap().unwrap() {
            if let Item::Event(stored) = &delivery.item
                && let Event::UserMessage(message) = &stored.event
            {
                prompts.push(message.text.clone());
            }
        }
    }
    (prompts, attached)
}

#[tokio::test]
async fn d_01_a_conversation_goes_on_where_it_was_after_a_restart() {
    let world = World::new();
    let sessions = world.start();
    let mut attached = create(&sessions).await;
    let id = attached.handle.id();
    turn(&mut attached, "first").await;
    turn(&mut attached, "second").await;
    let live = world.last_shown();
    assert_eq!(live, ["first", "I am one", "second"]);
    leave(sessions, attached).await;
    let sessions = world.start();
    let mut attached = enter(&sessions, id, From::Head).await;
    turn(&mut attached, "third").await;
    let after = world.last_shown();
    assert_eq!(after, ["first", "I am one", "second", "I am one", "third"]);
}

#[tokio::test]
async fn d_09_a_model_that_was_chosen_answers_from_the_next_turn_on_and_after_a_restart() {
    let world = World::new();
    let sessions = world.start();
    let mut attached = create(&sessions).await;
    let id = attached.handle.id();
    assert_eq!(attached.snapshot.config.model, "one");
    turn(&mut attached, "who").await;
    let unknown = answer(|reply| attached.handle.set_model("three".to_owned(), reply)).await;
    assert!(matches!(unknown, Err(CommandError::Invalid(_))));
    answer(|reply| attached.handle.set_model("two".to_owned(), reply))
        .await
        .unwrap();
    turn(&mut attached, "and now").await;
    turn(&mut attached, "still").await;
    assert_eq!(
        world.last_shown()[1..4],
        ["I am one", "and now", "I am two"]
    );
    leave(sessions, attached).await;
    let sessions = world.start();
    let mut attached = enter(&sessions, id, From::Head).await;
    assert_eq!(attached.snapshot.config.model, "two");
    turn(&mut attached, "who").await;
    turn(&mut attached, "end").await;
    assert_eq!(world.last_shown()[7], "I am two");
}

#[tokio::test]
async fn d_11_what_was_undone_is_shown_to_no_model_and_to_no_newcomer() {
    let world = World::new();
    let sessions = world.start();
    let mut attached = create(&sessions).await;
    let id = attached.handle.id();
    let first = turn(&mut attached, "first").await;
    let second = turn(&mut attached, "second").await;
    turn(&mut attached, "third").await;
    let rewound = rewind(&attached, first).await.unwrap();
    assert_eq!(rewound.to, first);
    turn(&mut attached, "fourth").await;
    assert_eq!(world.last_shown(), ["first", "I am one", "fourth"]);
    let (prompts, newcomer) = replayed(&sessions, id, From::Start).await;
    assert_eq!(prompts, ["first", "fourth"]);
    drop(newcomer);
    // One that saw the second prompt and was away is told to drop it.
    let cursor = domain::Cursor {
        epoch: 0,
        seq: second,
        offset: 0,
    };
    let epoch_given = true;
    let from = From::After {
        cursor,
        epoch_given,
    };
    let (prompts, late) = replayed(&sessions, id, from).await;
    assert_eq!(late.snapshot.resync_from, Some(first.next()));
    assert_eq!(prompts, ["fourth"]);
    drop(late);
    leave(sessions, attached).await;

    let sessions = world.start();
    let (prompts, mut attached) = replayed(&sessions, id, From::Start).await;
    assert_eq!(prompts, ["first", "fourth"]);
    turn(&mut attached, "fifth").await;
    let shown = world.last_shown();
    assert_eq!(shown, ["first", "I am one", "fourth", "I am one", "fifth"]);
    let nothing = rewind(&attached, attached.subscription.cursor().seq).await;
    assert!(matches!(nothing, Err(CommandError::Invalid(_))));
}

#[tokio::test]
async fn d_03_a_session_that_has_used_up_its_tokens_takes_no_further_prompt() {
    let mut world = World::new();
    world.limits.session_tokens_max = 30;
    let sessions = world.start();
    let mut attached = create(&sessions).await;
    turn(&mut attached, "first").await;
    turn(&mut attached, "second").await;
    let prompt = Prompt {
        text: "third".to_owned(),
        ..Prompt::default()
    };
    let refused = answer(|reply| attached.handle.prompt(prompt, reply)).await;
    assert_eq!(refused, Err(CommandError::Limit("session_tokens")));
}

/// A journal with more named prompts than a session remembers: the first was dropped, the second cut
/// off, all others have ended.
fn many_prompts(disk: &Arc<PowerStorage>) -> SessionId {
    let event = |kind: &str, fields: serde_json::Value| {
        let event = Event::from_json(kind, &fields.to_string());
        event.unwrap()
    };
    let created = json!({"owner": "local", "cwd": "/somewhere", "epoch": 0});
    let mut events = vec![event("session.created", created)];
    let dropped = json!({"promptId": "dropped", "text": "x", "blocks": []});
    events.push(event("prompt.queued", dropped));
    events.push(event("prompt.dropped", json!({"queued": 2})));
    for turn in 1..=PROMPT_IDS_REMEMBERED_MAX + 2 {
        let name = match turn {
            1 => "cut".to_owned(),
            _ => format!("ended {turn}"),
        };
        let message = json!({"text": "x", "blocks": [], "promptId": name});
        events.push(event("user.message", message));
        let started = json!({"turn": turn, "promptId": name});
        events.push(event("turn.started", started));
        events.push(match turn {
            1 => event("turn.interrupted", json!({"turn": turn})),
            _ => event("result", json!({"turn": turn, "stopReason": "max_tokens"})),
        });
    }
    let id = SessionId::random();
    let store = FileStore::with_storage(disk.clone());
    drop(store.create(id, events, Timestamp(0.0)).unwrap());
    id
}

#[tokio::test]
async fn a_prompt_sent_again_starts_nothing_however_many_came_after_it() {
    let world = World::new();
    let id = many_prompts(&world.disk);
    let sessions = world.start();
    let attached = enter(&sessions, id, From::Head).await;
    let send = async |name: &str| {
        let prompt = Prompt {
            text: "x".to_owned(),
            prompt_id: Some(PromptId::new(name)),
            ..Prompt::default()
        };
        let accepted = answer(|reply| attached.handle.prompt(prompt, reply)).await;
        match accepted.unwrap() {
            Accepted::Repeated(fate, _) => Some(fate),
            Accepted::Turn(_) | Accepted::Queued(_) => None,
        }
    };
    let ended = Some(Fate::Ended(Ok(StopReason::MaxTokens)));
    let newest = format!("ended {}", PROMPT_IDS_REMEMBERED_MAX + 2);
    assert_eq!(send("dropped").await, Some(Fate::Dropped));
    assert_eq!(send("cut").await, Some(Fate::interrupted()));
    assert_eq!(send("ended 2").await, ended);
    assert_eq!(send(&newest).await, ended);
    assert_eq!(send("new").await, None);
    assert!(matches!(
        send("new").await,
        Some(Fate::Running(_) | Fate::Ended(_))
    ));
    leave(sessions, attached).await;
}
