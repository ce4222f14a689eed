//! Requirement B-21: connections that break, and a caller that does not notice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{
    Client, ClientError, Dialer, LinkState, Pipe, PromptEvent, Transport, TransportError, Update,
};
use domain::Limits;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::server::{SESSION, Server, session, settings, whole};

/// Where the client calls: each call that is let through gives the test the other end of it.
struct Exchange {
    calls: mpsc::Receiver<Server>,
    times: Arc<Mutex<Vec<Instant>>>,
    /// How many calls from now on are not let through, and what they are told.
    refusals: Arc<Mutex<(u32, Option<TransportError>)>>,
}

impl Exchange {
    fn new() -> (Self, Dialer) {
        let (ends, calls) = mpsc::channel(16);
        let (times, refusals) = (Arc::default(), Arc::default());
        let exchange = Self {
            calls,
            times: Arc::clone(&times),
            refusals: Arc::clone(&refusals),
        };
        let dialer = Dialer::new(move || {
            times.lock().unwrap().push(Instant::now());
            let refusal = {
                let mut refusals = refusals.lock().unwrap();
                let refusal = refusals.1.clone().filter(|_| refusals.0 > 0);
                refusals.0 = refusals.0.saturating_sub(1);
                refusal
            };
            let ends = ends.clone();
            async move {
                if let Some(refusal) = refusal {
                    return Err(refusal);
                }
                let (here, there) = Pipe::pair(4);
                ends.send(Server::over(there)).await.unwrap();
                Ok(Transport::in_process(here))
            }
        });
        (exchange, dialer)
    }

    fn refuse(&self, calls: u32) {
        let nobody = TransportError::Unreachable {
            url: "ws://there".to_owned(),
            cause: "nobody is there".to_owned(),
        };
        self.refuse_with(calls, nobody);
    }

    fn refuse_with(&self, calls: u32, error: TransportError) {
        *self.refusals.lock().unwrap() = (calls, Some(error));
    }

    /// The other end of the next call, after its handshake.
    async fn pick_up(&mut self) -> Server {
        let mut server = self.calls.recv().await.unwrap();
        let initialize = server.request("initialize").await;
        let answer = json!({"protocolVersion": 1});
        server.reply(&initialize, answer).await;
        server
    }
}

async fn lasting() -> (Exchange, Server, Client, watch::Receiver<LinkState>) {
    let (mut exchange, dialer) = Exchange::new();
    let (transport, state) = Transport::lasting(dialer, &Limits::default())
        .await
        .unwrap();
    let (client, server) = tokio::join!(Client::connect(transport, settings()), exchange.pick_up());
    (exchange, server, client.unwrap(), state)
}

/// Attaches the client to [`SESSION`].
async fn attach(server: &mut Server, client: &Client) {
    let entering = client.resume_session(session(), std::path::Path::new("/w"), None);
    let (attached, ()) = tokio::join!(entering, async {
        let request = server.request("session/resume").await;
        let meta = json!({"fastness": {"cursor": {"seq": 2}, "resumeToken": "t"}});
        server.reply(&request, json!({"_meta": meta})).await;
    });
    attached.unwrap();
}

async fn say(server: &Server, text: &str, meta: Value) {
    let update = json!({"sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": text}});
    let params = json!({"sessionId": SESSION, "update": update, "_meta": {"fastness": meta}});
    let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    server.message(message).await;
}

#[tokio::test(start_paused = true)]
async fn b_21_a_turn_goes_on_over_a_broken_connection_without_a_gap_or_a_repeat() {
    let (mut exchange, mut server, client, state) = lasting().await;
    attach(&mut server, &client).await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    let prompt = server.request("session/prompt").await;
    say(&server, "one ", json!({"seq": 5, "offset": 4})).await;
    drop(server);

    let mut server = exchange.pick_up().await;
    let resume = server.request("session/resume").await;
    let meta = json!({"afterSeq": 5, "offset": 4, "epoch": 0, "resumeToken": "t"});
    assert_eq!(resume["params"]["_meta"]["fastness"], meta);
    let again = server.request("session/prompt").await;
    assert_eq!(again["params"], prompt["params"], "it has the same name");
    server.reply(&resume, json!({})).await;
    say(&server, "two", json!({"seq": 5, "offset": 7})).await;
    server
        .reply(&again, json!({"stopReason": "end_turn"}))
        .await;

    let mut text = String::new();
    loop {
        match stream.next().await.unwrap().unwrap() {
            PromptEvent::Update(Update::Text { text: piece, .. }) => text.push_str(&piece),
            PromptEvent::Ended(end) => {
                assert_eq!(end.stop_reason, "end_turn");
                break;
            }
            other @ (PromptEvent::Update(_) | PromptEvent::Ask(_)) => panic!("{other:?}"),
        }
    }
    assert_eq!(text, "one two");
    assert_eq!(*state.borrow(), LinkState::Connected);
}

#[tokio::test(start_paused = true)]
async fn b_21_tries_come_further_apart_and_end_with_an_error_that_names_address_tries_and_cause() {
    let (exchange, server, client, state) = lasting().await;
    exchange.refuse(u32::MAX);
    let start = Instant::now();
    drop(server);
    let error = loop {
        // A request of 30 s ends before ten tries have; each one ends by itself.
        let error = client.list_sessions(None, None).await.unwrap_err();
        if !matches!(error, ClientError::Timeout { .. }) {
            break error;
        }
        assert!(error.to_string().contains("session/list"), "{error}");
    };
    let said = whole(&error);
    let expected = "did not come back after 10 tries: ws://there does not answer: nobody is there";
    assert!(said.contains(expected), "{said}");
    assert_eq!(*state.borrow(), LinkState::Ended);
    let mut waits = Vec::new();
    let mut last = start;
    for time in exchange.times.lock().unwrap().iter().skip(1) {
        waits.push((*time - last).as_secs_f64());
        last = *time;
    }
    let whole: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0, 30.0];
    assert_eq!(waits.len(), whole.len());
    for (wait, whole) in waits.iter().zip(whole) {
        assert!(
            (whole / 2.0 - 0.01..=whole + 0.01).contains(wait),
            "{waits:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn b_21_a_server_that_breaks_at_once_each_time_is_given_up_too() {
    let (mut exchange, server, client, _) = lasting().await;
    drop(server);
    let serve = async {
        // It answers the handshake and goes, for as long as it is called.
        while let Some(mut server) = exchange.calls.recv().await {
            let initialize = server.request("initialize").await;
            server
                .reply(&initialize, json!({"protocolVersion": 1}))
                .await;
        }
        std::future::pending().await
    };
    let wait = async {
        loop {
            let error = client.list_sessions(None, None).await.unwrap_err();
            if !matches!(error, ClientError::Timeout { .. }) {
                break error;
            }
        }
    };
    let error: ClientError = tokio::select! {
        error = wait => error,
        () = serve => unreachable!("it answers for ever"),
    };
    assert!(
        whole(&error).contains("after 10 tries"),
        "{}",
        whole(&error)
    );
}

#[tokio::test(start_paused = true)]
async fn b_21_a_server_that_no_longer_takes_the_token_is_not_called_again() {
    let (exchange, server, client, _) = lasting().await;
    exchange.refuse_with(
        u32::MAX,
        TransportError::Unauthorized {
            url: "ws://there".to_owned(),
        },
    );
    drop(server);
    let error = client.list_sessions(None, None).await.unwrap_err();
    let said = whole(&error);
    assert!(said.contains("did not accept the token"), "{said}");
    assert_eq!(exchange.times.lock().unwrap().len(), 2, "twice is enough");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_while_the_server_is_away_ends_the_calls() {
    let (exchange, server, client, mut state) = lasting().await;
    exchange.refuse(u32::MAX);
    drop(server);
    let is_away = |state: &LinkState| matches!(state, LinkState::Reconnecting { .. });
    state.wait_for(is_away).await.unwrap();
    drop(client);
    let is_over = |state: &LinkState| *state == LinkState::Ended;
    let over = state.wait_for(is_over);
    tokio::time::timeout(Duration::from_secs(1), over)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_called_later_is_called_with_the_first_message() {
    let (mut exchange, dialer) = Exchange::new();
    let (transport, state) = Transport::lasting_later(dialer, &Limits::default());
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(exchange.times.lock().unwrap().is_empty());
    assert_eq!(*state.borrow(), LinkState::Waiting);
    let (client, _server) =
        tokio::join!(Client::connect(transport, settings()), exchange.pick_up());
    client.unwrap();
}
