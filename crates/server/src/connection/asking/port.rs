//! One session's way to the files and terminals of the client that prompted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::limits::CLIENT_DISCOVERY_TIME;
use domain::{CallId, SessionId};
use serde_json::value::RawValue;
use session::client_side::discovery::{Discovered, ToolOffer, ToolReply, ToolRequest};
use session::client_side::{
    Asked, ClientError, ClientSide, Offers, ReadTextFile, TerminalCommand, TerminalExit,
    TerminalId, TerminalOutput,
};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use wire::acp::ClientCapabilities;
use wire::acp::client_side::{self, ClientRequest};

use super::{Asking, Open};

/// What a turn of one session holds of the connection that prompted. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Port {
    asking: Arc<Asking>,
    session: SessionId,
    offers: Offers,
    /// How long the client may take for an answer.
    time_max: Duration,
    /// Where work is done that outlives the call that caused it.
    tasks: TaskTracker,
}

impl Port {
    /// The port of a client with these `capabilities`; `None` if it offers nothing of its own.
    pub(crate) fn new(
        asking: &Arc<Asking>,
        session: SessionId,
        capabilities: ClientCapabilities,
        time_max: Duration,
        tasks: &TaskTracker,
    ) -> Option<Self> {
        let offers = Offers {
            read_text_file: capabilities.read_text_file,
            write_text_file: capabilities.write_text_file,
            terminal: capabilities.terminal,
            tools: capabilities.tools,
        };
        (!offers.is_nothing()).then(|| Self {
            asking: Arc::clone(asking),
            session,
            offers,
            time_max,
            tasks: tasks.clone(),
        })
    }

    fn open(&self, request: &ClientRequest) -> Result<Open, ClientError> {
        self.asking.ask(self.session, request)
    }

    /// Asks, and reads the answer with `read`, within the deadline of requests.
    fn ask<T: 'static>(&self, request: ClientRequest, read: Read<T>) -> Asked<T> {
        self.ask_within(Some(self.time_max), request, read)
    }

    fn ask_within<T: 'static>(
        &self,
        time_max: Option<Duration>,
        request: ClientRequest,
        read: Read<T>,
    ) -> Asked<T> {
        let port = self.clone();
        Box::pin(async move {
            let mut open = port.open(&request)?;
            let result = open.answer(time_max).await?;
            understood(&request, &result, read)
        })
    }
}

/// Reads a result, if it is one.
type Read<T> = fn(&RawValue) -> Option<T>;

fn understood<T>(
    request: &ClientRequest,
    result: &RawValue,
    read: Read<T>,
) -> Result<T, ClientError> {
    let method = request.method();
    read(result).ok_or(ClientError::Malformed { method })
}

impl ClientSide for Port {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn is_gone(&self) -> bool {
        self.asking.is_closed()
    }

    fn read_text_file(&self, read: ReadTextFile) -> Asked<String> {
        let ReadTextFile { path, line, limit } = read;
        let request = ClientRequest::ReadTextFile { path, line, limit };
        self.ask(request, client_side::file_text)
    }

    fn write_text_file(&self, path: String, content: String) -> Asked<()> {
        let request = ClientRequest::WriteTextFile { path, content };
        self.ask(request, client_side::done)
    }

    /// Asks in a task of its own: a terminal that is made after its call was dropped is given
    /// back.
    fn create_terminal(&self, command: TerminalCommand) -> Asked<TerminalId> {
        let request = ClientRequest::CreateTerminal {
            command: command.command,
            args: command.args,
            cwd: command.cwd,
            output_byte_limit: command.output_bytes_max,
        };
        let port = self.clone();
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            let open = port.open(&request)?;
            let tasks = port.tasks.clone();
            tasks.spawn(port.create(request, open, tell));
            told.await.unwrap_or(Err(ClientError::Gone))
        })
    }

    fn terminal_output(&self, terminal: &TerminalId) -> Asked<TerminalOutput> {
        let request = ClientRequest::TerminalOutput(terminal.0.clone());
        self.ask(request, |result| {
            client_side::terminal_text(result).map(|output| TerminalOutput {
                text: output.text,
                truncated: output.truncated,
            })
        })
    }

    fn wait_for_exit(&self, terminal: &TerminalId) -> Asked<TerminalExit> {
        let request = ClientRequest::WaitForExit(terminal.0.clone());
        self.ask_within(None, request, |result| {
            client_side::terminal_end(result).map(|end| TerminalExit {
                code: end.code,
                signal: end.signal,
            })
        })
    }

    fn kill_terminal(&self, terminal: &TerminalId) -> Asked<()> {
        let request = ClientRequest::KillTerminal(terminal.0.clone());
        self.ask(request, client_side::done)
    }

    fn release_terminal(&self, terminal: &TerminalId) -> Asked<()> {
        let request = ClientRequest::ReleaseTerminal(terminal.0.clone());
        self.ask(request, client_side::done)
    }

    fn discover_tools(&self) -> Asked<Discovered> {
        let port = self.clone();
        Box::pin(async move {
            let (known, mut problems) = (port.asking.discovery(port.session), Vec::new());
            // Whoever comes meanwhile waits for the same answer; also that there is none is one.
            let asking = known.get_or_init(|| async {
                let found = port.ask_for_tools().await;
                problems = found.problems;
                found.tools
            });
            let tools = Arc::clone(asking.await);
            Ok(Discovered { tools, problems })
        })
    }

    fn call_tool(&self, request: ToolRequest) -> Asked<ToolReply> {
        let ToolRequest { call, name, input } = request;
        let request = ClientRequest::CallTool { call, name, input };
        self.ask(request, |result| {
            client_side::own_tool_reply(result).map(|reply| ToolReply {
                text: reply.text,
                is_error: reply.is_error,
            })
        })
    }

    fn show_terminal(&self, call: &CallId, terminal: &TerminalId) {
        if let Some(frame) = client_side::terminal_update(self.session, call, &terminal.0) {
            self.asking.tell(self.session, frame);
        }
    }

    fn let_go(&self, terminal: &TerminalId) {
        if self.is_gone() {
            return;
        }
        let (kill, release) = (
            self.kill_terminal(terminal),
            self.release_terminal(terminal),
        );
        // Both are written at once: a client that does not answer the one still gets the other.
        self.tasks.spawn(async move {
            let (killed, released) = tokio::join!(kill, release);
            if let Some(error) = killed.err().or(released.err()) {
                tracing::debug!(%error, "a terminal was not given back");
            }
        });
    }
}

impl Port {
    async fn ask_for_tools(&self) -> Discovered {
        let time_max = Some(self.time_max.min(CLIENT_DISCOVERY_TIME));
        let offers = self.ask_within(time_max, ClientRequest::DiscoverTools, |result| {
            let offer = |tool: client_side::OwnTool| ToolOffer {
                name: tool.name,
                description: tool.description,
                input_schema: tool.input_schema,
            };
            client_side::own_tools(result).map(|tools| tools.into_iter().map(offer).collect())
        });
        match offers.await {
            Ok(offers) => Discovered::of(offers),
            Err(error) => Discovered::none(format!("The client's own tools are not used: {error}")),
        }
    }

    /// Waits for a terminal and hands it to its call, or gives it back if that is over.
    async fn create(
        self,
        request: ClientRequest,
        mut open: Open,
        mut tell: oneshot::Sender<Result<TerminalId, ClientError>>,
    ) {
        let time_max = Some(self.time_max);
        let answer = tokio::select! {
            biased;
            answer = open.answer(time_max) => answer,
            () = tell.closed() => {
                open.withdraw();
                open.answer(time_max).await
            }
        };
        let terminal = answer
            .and_then(|result| understood(&request, &result, client_side::created_terminal))
            .map(TerminalId);
        if let Err(Ok(terminal)) = tell.send(terminal) {
            self.let_go(&terminal);
        }
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("session", &self.session)
            .field("offers", &self.offers)
            .finish_non_exhaustive()
    }
}
