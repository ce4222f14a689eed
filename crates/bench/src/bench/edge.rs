//! `cargo xtask bench edge`: what the edge adds: the same turn on every transport, a request and a
//! connection beside a bare axum server that checks nothing, and ten thousand clients that wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::{get, post};
use serde_json::{Value, json};

use self::streamable::Streamable;
use super::client::{Client, Line, Pipes, Socket, connect, connect_bare};
use super::program::{Running, Server, acp, first_line, serve, write_script};
use super::table::{Row, Samples, Table, time};
use super::{Group, Plan, because, sockets};
use crate::Failure;

mod streamable;

/// The hidden command that is the bare axum server.
pub(crate) const BARE_AXUM: &str = "bench-bare-axum";

/// What is measured.
pub(super) const GROUPS: &[(&str, Group)] = &[
    ("turns", turns),
    ("requests", requests),
    ("connections", connections),
    ("idle", sockets::measure),
];

/// Connections opened one after the other.
const CONNECTIONS: usize = 2_000;

/// axum as it comes: a WebSocket that sends back what it gets, and a route that does the same.
pub(crate) fn bare_axum() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(because("cannot start the runtime"))?;
    runtime.block_on(async {
        let echo = async |mut socket: WebSocket| {
            while let Some(Ok(message)) = socket.recv().await {
                if let Message::Text(_) = message
                    && socket.send(message).await.is_err()
                {
                    break;
                }
            }
        };
        let upgrade = async move |upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo);
        let routes = axum::Router::new()
            .route("/", get(upgrade))
            .route("/echo", post(async |body: String| body));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(because("cannot listen"))?;
        let address = listener.local_addr().map_err(because("cannot listen"))?;
        println!("{{\"ready\":true,\"address\":\"{address}\"}}");
        let listener = axum::serve::ListenerExt::tap_io(listener, |socket| {
            // As ours: else each answer would wait for a delayed acknowledgement.
            let _ = socket.set_nodelay(true);
        });
        let served = axum::serve(listener, routes).await;
        served.map_err(because("cannot serve"))
    })
}

/// A bare axum server that was started.
struct Bare {
    _running: Running,
    address: String,
}

impl Bare {
    fn start() -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(because("cannot find this program"))?;
        let mut command = Command::new(program);
        command.arg(BARE_AXUM);
        let (running, _stdin, mut stdout) = Running::start(command)?;
        let ready: Value = serde_json::from_str(&first_line(&mut stdout)?)
            .map_err(because("the ready line is not JSON"))?;
        let address = ready["address"].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            _running: running,
            address,
        })
    }
}

/// The same turn over stdio, WebSocket and HTTP, in turns.
fn turns(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let words = ["one ", "two ", "three ", "four ", "five"];
    let steps: Value = words.iter().map(|word| json!({"text": word})).collect();
    let script = write_script(folder.path(), &steps)?;
    let command = acp(plan, &folder.path().join("stdio"), &script);
    let (_running, stdin, stdout) = Running::start(command)?;
    let mut stdio = Talk::begin(Pipes { stdin, stdout }, folder.path())?;
    let server = Server::start(plan, &folder.path().join("served"), &script)?;
    let mut socket = Talk::begin(connect(&server)?, folder.path())?;
    let line = Streamable::connect(&server)?;
    let mut http = Talk::begin(line, folder.path())?;
    for _ in 0..plan.rounds {
        stdio.turn()?;
        socket.turn()?;
        http.turn()?;
    }
    let [stdio, socket, http] = [stdio.times, socket.times, http.times].map(Samples::new);
    for (name, samples) in [("WebSocket", &socket), ("HTTP", &http)] {
        table.push(Row {
            what: &format!("turn of 5 chunks, {name}"),
            measured: samples.to_string(),
            beside: format!("the same over stdio {stdio}"),
            ratio: samples.ratio(&stdio),
            aim: "equal within noise",
        });
    }
    Ok(())
}

/// A client, its session, and how long its turns took.
struct Talk<L> {
    client: Client<L>,
    session: String,
    times: Vec<Duration>,
}

impl<L: Line> Talk<L> {
    fn begin(line: L, cwd: &Path) -> Result<Self, Failure> {
        let mut client = Client::initialize(line)?;
        let session = client.new_session(cwd)?;
        client.prompt(&session)?;
        let times = Vec::new();
        Ok(Self {
            client,
            session,
            times,
        })
    }

    fn turn(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        self.client.prompt(&self.session)?;
        self.times.push(started.elapsed());
        Ok(())
    }
}

/// One small request and its answer, over WebSocket and HTTP.
fn requests(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let script = write_script(folder.path(), &json!([{"text": "hello"}]))?;
    let mut command = serve(plan, &folder.path().join("data"), &script);
    // One client asks faster here than it may.
    command.env("FASTNESS_LIMITS_REQUESTS_PER_SECOND", "1000000");
    let server = Server::started(command)?;
    let bare = Bare::start()?;
    let rounds = plan.rounds * 10;

    let mut ours = Client::initialize(connect(&server)?)?;
    let mut theirs = connect_bare(&bare.address)?;
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        our_times.push(timed(|| {
            ours.request("authenticate", &json!({"methodId": "x"}))
        })?);
        their_times.push(timed(|| echo(&mut theirs))?);
    }
    push_requests(
        "WebSocket request and answer",
        our_times,
        their_times,
        table,
    );

    let mut ours = Kept::connect(&server.address, Some(&server.token))?;
    let mut theirs = Kept::connect(&bare.address, None)?;
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        our_times.push(timed(|| ours.post("/echo", ECHOED))?);
        their_times.push(timed(|| theirs.post("/echo", ECHOED))?);
    }
    push_requests("HTTP request and answer", our_times, their_times, table);
    Ok(())
}

const ECHOED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{}}"#;

fn echo(socket: &mut Socket) -> Result<String, Failure> {
    Line::send(socket, ECHOED.to_owned())?;
    socket.receive()
}

fn push_requests(what: &str, ours: Vec<Duration>, theirs: Vec<Duration>, table: &mut Table) {
    let (ours, theirs) = (Samples::new(ours), Samples::new(theirs));
    table.push(Row {
        what,
        measured: ours.to_string(),
        beside: format!("bare axum {theirs}"),
        ratio: ours.ratio(&theirs),
        aim: "",
    });
}

/// How fast authenticated WebSockets open, each until its first answer.
fn connections(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let script = write_script(folder.path(), &json!([{"text": "hello"}]))?;
    let server = Server::start(plan, &folder.path().join("data"), &script)?;
    let bare = Bare::start()?;
    let count = CONNECTIONS.min(plan.sockets);
    let (mut our_time, mut their_time) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..count {
        our_time += timed(|| Client::initialize(connect(&server)?))?;
        their_time += timed(|| echo(&mut connect_bare(&bare.address)?))?;
    }
    let per_second = |time: Duration| count as f64 / time.as_secs_f64();
    let (ours, theirs) = (per_second(our_time), per_second(their_time));
    table.push(Row {
        what: "connections opened, one after the other, each with a first answer",
        measured: format!("{ours:.0}/s, {} each", time(our_time / count as u32)),
        beside: format!("bare axum {theirs:.0}/s"),
        ratio: Some(ours / theirs),
        aim: "",
    });
    Ok(())
}

fn timed<T>(act: impl FnOnce() -> Result<T, Failure>) -> Result<Duration, Failure> {
    let started = Instant::now();
    act()?;
    Ok(started.elapsed())
}

/// One kept connection for request after request.
pub(super) struct Kept {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Kept {
    pub(super) fn connect(address: &str, token: Option<&str>) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).map_err(because("cannot connect"))?;
        let quick = stream.set_nodelay(true);
        quick.map_err(because("cannot set up the socket"))?;
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let head = format!("host: {address}\r\n{}", token.unwrap_or_default());
        Ok(Self {
            stream: BufReader::new(stream),
            head,
        })
    }

    /// Adds a header to every request from now on.
    pub(super) fn always(&mut self, name: &str, value: &str) {
        self.head += &format!("{name}: {value}\r\n");
    }

    /// Posts `body`; gives the answer's head and body.
    pub(super) fn post(&mut self, path: &str, body: &str) -> Result<(String, String), Failure> {
        let request = format!(
            "POST {path} HTTP/1.1\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        self.send(&request)?;
        let head = self.read_head()?;
        let length = header(&head, "content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        let read = self.stream.read_exact(&mut body);
        read.map_err(because("cannot read an answer"))?;
        Ok((head, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Asks for a stream of events; gives what follows its head.
    pub(super) fn stream(mut self, path: &str) -> Result<BufReader<TcpStream>, Failure> {
        let request = format!(
            "GET {path} HTTP/1.1\r\n{}accept: text/event-stream\r\n\r\n",
            self.head
        );
        self.send(&request)?;
        let head = self.read_head()?;
        if head.starts_with("HTTP/1.1 200") {
            return Ok(self.stream);
        }
        Err(format!("a stream was refused: {head}"))
    }

    fn send(&mut self, request: &str) -> Result<(), Failure> {
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        sent.map_err(because("cannot send a request"))
    }

    fn read_head(&mut self) -> Result<String, Failure> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head);
            if read.map_err(because("cannot read an answer"))? == 0 {
                return Err(format!("the server hung up: {head}"));
            }
        }
        Ok(head)
    }
}

/// A header of an answer.
pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(header, _)| header.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}
