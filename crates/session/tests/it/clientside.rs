//! A turn whose client has left, and who may take its seat.

use std::sync::Arc;
use std::time::Duration;

use auth::{Credential, Gate, Principal};
use domain::clock::Timestamp;
use domain::event::ToolResult;
use domain::{CallId, Event, Limits};
use futures_util::stream;
use journal::FileStore;
use journal::storage::power::PowerStorage;
use llm::{Chunk, ChunkStream, Message, Model, ModelRequest, Provider, ToolCall};
use serde_json::json;
use session::client_side::{
    Asked, ClientSide, Offers, ReadTextFile, TerminalCommand, TerminalExit, TerminalId,
    TerminalOutput,
};
use session::{
    Attached, Engine, Entrance, From, Item, NewSession, OneModel, Prompt, Sessions, Subscription,
};
use tokio::time::Instant;

/// How long a turn waits for its client.
const BACK: Duration = Duration::from_secs(30);

/// Reads one file, and is done.
#[derive(Clone, Copy)]
struct Reader;

impl Provider for Reader {
    fn label(&self) -> &'static str {
        "reader"
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(*self)
    }
}

impl Model for Reader {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        let has_read = matches!(request.messages.last(), Some(Message::ToolResults(_)));
        let call = Chunk::ToolCall(ToolCall {
            id: CallId::new("c"),
            name: "read".to_owned(),
            input: json!({"path": "a.txt"}),
        });
        Box::pin(stream::iter((!has_read).then_some(Ok(call))))
    }
}

/// A client that has one file, and perhaps has left.
#[derive(Debug)]
struct Client {
    text: &'static str,
    is_gone: bool,
}

impl ClientSide for Client {
    fn offers(&self) -> Offers {
        Offers {
            read_text_file: true,
            ..Offers::default()
        }
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn read_text_file(&self, _: ReadTextFile) -> Asked<String> {
        let text = self.text.to_owned();
        Box::pin(async move { Ok(text) })
    }

    fn write_text_file(&self, _: String, _: String) -> Asked<()> {
        panic!("not offered")
    }

    fn create_terminal(&self, _: TerminalCommand) -> Asked<TerminalId> {
        panic!("not offered")
    }

    fn terminal_output(&self, _: &TerminalId) -> Asked<TerminalOutput> {
        panic!("not offered")
    }

    fn wait_for_exit(&self, _: &TerminalId) -> Asked<TerminalExit> {
        panic!("not offered")
    }

    fn kill_terminal(&self, _: &TerminalId) -> Asked<()> {
        panic!("not offered")
    }

    fn release_terminal(&self, _: &TerminalId) -> Asked<()> {
        panic!("not offered")
    }

    fn show_terminal(&self, _: &CallId, _: &TerminalId) {
        panic!("not offered")
    }

    fn let_go(&self, _: &TerminalId) {
        panic!("not offered")
    }
}

fn here(text: &'static str) -> Arc<dyn ClientSide> {
    let is_gone = false;
    Arc::new(Client { text, is_gone })
}

fn gone() -> Arc<dyn ClientSide> {
    let (text, is_gone) = ("never", true);
    Arc::new(Client { text, is_gone })
}

fn somebody() -> Principal {
    let gate = Gate::this_process_only();
    let admitted = gate.admit(&Credential::ThisProcess, Timestamp(0.0));
    admitted.unwrap()
}

/// A session, its first client, and a second one that came later.
async fn session() -> (Sessions, Attached, Attached) {
    let provider: Arc<dyn Provider> = Arc::new(Reader);
    let sessions = Sessions::start(Engine {
        store: FileStore::with_storage(Arc::new(PowerStorage::new(1))),
        catalog: Arc::new(OneModel(Arc::clone(&provider))),
        provider,
        limits: Limits {
            client_back: BACK,
            ..Limits::default()
        },
        greeting: None,
        hidden: Vec::new(),
        base: None,
        gate: Arc::new(Gate::this_process_only()),
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
    let first = sessions.create(&somebody(), new).await.unwrap();
    let id = first.handle.id();
    let second = sessions
        .attach(id, Entrance::new(&somebody(), From::Start))
        .await;
    (sessions, first, second.unwrap())
}

fn prompt(attached: &Attached, client: Arc<dyn ClientSide>) {
    let prompt = Prompt {
        text: "read".to_owned(),
        client: Some(client),
        ..Prompt::default()
    };
    let taken = |accepted: Result<_, _>| drop(accepted.unwrap());
    attached.handle.prompt(prompt, Box::new(taken));
}

/// Waits for the first event that `wanted` picks.
async fn event<T>(stream: &mut Subscription, wanted: impl Fn(&Event) -> Option<T>) -> T {
    loop {
        for delivery in stream.next().await.unwrap().unwrap() {
            if let Item::Event(stored) = delivery.item
                && let Some(found) = wanted(&stored.event)
            {
                return found;
            }
        }
    }
}

async fn result(attached: &mut Attached) -> String {
    event(&mut attached.subscription, |event| {
        if let Event::ToolResult(ToolResult { text, .. }) = event {
            Some(text.clone())
        } else {
            None
        }
    })
    .await
}

async fn call(attached: &mut Attached) {
    event(&mut attached.subscription, |event| {
        matches!(event, Event::ToolUse(_)).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_is_asked_again() {
    let (_sessions, mut first, _second) = session().await;
    prompt(&first, gone());
    call(&mut first).await;
    first.handle.client_came_back(here("back again"));
    assert_eq!(result(&mut first).await, "1\tback again");
}

#[tokio::test(start_paused = true)]
async fn another_client_does_not_take_the_seat() {
    let (_sessions, mut first, second) = session().await;
    prompt(&first, gone());
    let began = Instant::now();
    call(&mut first).await;
    second.handle.client_came_back(here("another machine's"));
    let said = result(&mut first).await;
    assert_eq!(said, "a.txt could not be read: client gone.");
    assert!(began.elapsed() >= BACK, "{:?}", began.elapsed());
}
