//! How a turn starts: after its prompt is stored, and with a conversation that holds each event once.

use std::sync::{Arc, Mutex};

use domain::{Event, FailureKind};
use futures_util::stream;
use journal::storage::power::{Fault, FaultyCall};
use llm::{Chunk, ChunkStream, Message, Model, ModelRequest, Provider};
use session::{Accepted, Attached, CommandError, Item, Prompt};

use crate::resting::{session_with, turn};

/// Repeats the conversation, in `pieces` chunks.
#[derive(Clone)]
struct Echo {
    pieces: usize,
    asked: Arc<Mutex<usize>>,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
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
}

#[tokio::test(start_paused = true)]
async fn conversation_holds_each_message_once() {
    for pieces in [1, 3] {
        let echo = Echo {
            pieces,
            ..Echo::default()
        };
        let (_storage, _sessions, mut attached) = session_with(Arc::new(echo)).await;
        assert_eq!(turn(&mut attached, "one").await, "one");
        assert_eq!(turn(&mut attached, "two").await, "one answered two");
        let three = "one answered two answered three";
        assert_eq!(turn(&mut attached, "three").await, three);
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_turn_ends_and_the_session_goes_on() {
    let (_storage, _sessions, mut attached) = session_with(Arc::new(Echo::default())).await;
    turn(&mut attached, "one").await;
    assert_eq!(turn(&mut attached, "panic").await, "");
    assert_eq!(turn(&mut attached, "two").await, "one answered panic two");
}

#[tokio::test(start_paused = true)]
async fn prompt_sent_with_a_rewind_does_not_see_what_was_undone() {
    let (_storage, _sessions, mut attached) = session_with(Arc::new(Echo::default())).await;
    turn(&mut attached, "one").await;
    let first = attached.subscription.cursor().seq;
    turn(&mut attached, "two").await;
    // Both are in the mailbox before the actor runs, so they are decided together.
    attached.handle.rewind(first, Box::new(|_| {}));
    assert_eq!(turn(&mut attached, "three").await, "one answered three");
    let four = "one answered three answered four";
    assert_eq!(turn(&mut attached, "four").await, four);
}

/// Sends a prompt; returns its reply and what the subscription showed by then.
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
async fn model_is_not_called_if_its_prompt_was_not_stored() {
    let echo = Echo::default();
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
    assert_eq!(
        *asked.lock().unwrap(),
        1,
        "only the first prompt reached the model"
    );
    let is_told = |item: &Item| match item {
        Item::Text { .. } => true,
        Item::Event(stored) => matches!(stored.event, Event::AssistantMessage(_)),
        Item::Progress(_) | Item::Failed(_) => false,
    };
    assert!(!shown.iter().any(is_told));
}
