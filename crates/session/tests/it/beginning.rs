//! Turns whose model is in this process: they begin with their prompts and share a sync with them.

use std::sync::{Arc, Mutex};

use domain::{Event, FailureKind};
use futures_util::stream;
use journal::storage::power::{Fault, FaultyCall};
use llm::{Chunk, ChunkStream, Message, Model, ModelRequest, Provider};
use session::{Accepted, Attached, CommandError, Item, Prompt};

use crate::resting::{session_with, turn};

/// Says what it was told so far, in as many pieces as it has.
#[derive(Clone)]
struct Echo {
    is_inside: bool,
    pieces: usize,
    asked: Arc<Mutex<usize>>,
}

impl Echo {
    fn inside() -> Self {
        Self {
            is_inside: true,
            pieces: 1,
            asked: Arc::default(),
        }
    }
}

impl Provider for Echo {
    fn label(&self) -> &'static str {
        "echo"
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

impl Model for Echo {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        *self.asked.lock().unwrap() += 1;
        let told = request.messages.iter().map(|message| match message {
            Message::User { text, .. } => text.as_str(),
            Message::Assistant { .. } => "answered",
            Message::ToolResults(_) => "called",
        });
        let told = told.collect::<Vec<_>>().join(" ");
        assert!(!told.ends_with("panic"), "as a test");
        let piece = told.len().div_ceil(self.pieces).max(1);
        let pieces = told.as_bytes().chunks(piece);
        let pieces = pieces.map(|piece| String::from_utf8_lossy(piece).into_owned());
        let pieces: Vec<_> = pieces.map(|piece| Ok(Chunk::Text(piece))).collect();
        Box::pin(stream::iter(pieces))
    }

    fn reaches_out(&self) -> bool {
        !self.is_inside
    }
}

/// Syncs of the second turn of a session, which has all that it needs at hand.
async fn syncs_of_a_turn(echo: Echo) -> u64 {
    let (storage, _sessions, mut attached) = session_with(Arc::new(echo)).await;
    turn(&mut attached, "one").await;
    let before = storage.syncs();
    assert_eq!(turn(&mut attached, "two").await, "one answered two");
    storage.syncs() - before
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_at_once_shares_the_sync_of_its_prompt() {
    assert_eq!(syncs_of_a_turn(Echo::inside()).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_elsewhere_is_asked_once_its_prompt_is_stored() {
    let elsewhere = Echo {
        is_inside: false,
        ..Echo::inside()
    };
    assert_eq!(syncs_of_a_turn(elsewhere).await, 2);
}

#[tokio::test(start_paused = true)]
async fn turns_that_begin_with_their_prompts_remember_each_thing_once() {
    for pieces in [1, 3] {
        let echo = Echo {
            pieces,
            ..Echo::inside()
        };
        let (_storage, _sessions, mut attached) = session_with(Arc::new(echo)).await;
        assert_eq!(turn(&mut attached, "one").await, "one");
        assert_eq!(turn(&mut attached, "two").await, "one answered two");
        let three = "one answered two answered three";
        assert_eq!(turn(&mut attached, "three").await, three);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_panics_as_it_begins_ends_and_the_session_goes_on() {
    let (_storage, _sessions, mut attached) = session_with(Arc::new(Echo::inside())).await;
    turn(&mut attached, "one").await;
    assert_eq!(turn(&mut attached, "panic").await, "");
    assert_eq!(turn(&mut attached, "two").await, "one answered panic two");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_right_behind_a_rewind_knows_nothing_of_what_was_undone() {
    let (_storage, _sessions, mut attached) = session_with(Arc::new(Echo::inside())).await;
    turn(&mut attached, "one").await;
    let first = attached.subscription.cursor().seq;
    turn(&mut attached, "two").await;
    // Both are there before the session looks, so they are decided together.
    attached.handle.rewind(first, Box::new(|_| {}));
    assert_eq!(turn(&mut attached, "three").await, "one answered three");
    let four = "one answered three answered four";
    assert_eq!(turn(&mut attached, "four").await, four);
}

/// Prompts; gives how that was taken, and what was shown by then.
async fn prompt(
    attached: &mut Attached,
    text: &str,
) -> (Result<Accepted, CommandError>, Vec<Item>) {
    let prompt = Prompt {
        text: text.to_owned(),
        ..Prompt::default()
    };
    let (tell, told) = tokio::sync::oneshot::channel();
    let tell = |accepted| drop(tell.send(accepted));
    attached.handle.prompt(prompt, Box::new(tell));
    let shown = attached.subscription.next().await.unwrap().unwrap();
    let shown = shown.into_iter().map(|delivery| delivery.item).collect();
    (told.await.unwrap(), shown)
}

#[tokio::test(start_paused = true)]
async fn nobody_sees_an_answer_whose_prompt_could_not_be_stored() {
    let echo = Echo::inside();
    let asked = Arc::clone(&echo.asked);
    let (storage, _sessions, mut attached) = session_with(Arc::new(echo)).await;
    turn(&mut attached, "one").await;
    storage.arm(Some(Fault {
        call: FaultyCall::Sync,
        nth: 1,
        errno: Some(5),
    }));
    let (accepted, shown) = prompt(&mut attached, "two").await;
    storage.arm(None);
    let failed = FailureKind::StorageFailed;
    assert!(matches!(accepted, Err(CommandError::Failed(kind)) if kind == failed));
    assert_eq!(*asked.lock().unwrap(), 2, "it had answered");
    let is_told = |item: &Item| match item {
        Item::Text { .. } => true,
        Item::Event(stored) => matches!(stored.event, Event::AssistantMessage(_)),
        Item::Progress(_) | Item::Failed(_) => false,
    };
    assert!(!shown.iter().any(is_told));
    // The next prompt opens the files anew, and they had kept it after all: it is told whole, once.
    assert_eq!(turn(&mut attached, "three").await, "one answered two");
}
