//! What a client's refusal tells the model, and how long a turn keeps its client's seat.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::CallId;
use domain::limits::CLIENT_ERROR_BYTES_MAX;
use serde_json::json;
use tokio::time::Instant;

use super::fake::Fake;
use super::{ClientError, ClientSeat, ClientSide, Offers, ReadTextFile};

const WAIT: Duration = Duration::from_secs(30);

#[test]
fn a_15_a_peers_error_keeps_code_message_and_data() {
    let error = ClientError::Peer {
        code: -32002,
        message: "nf".to_owned(),
        data: Some(json!({"uri": "x"})),
    };
    assert_eq!(
        error.to_string(),
        r#"the client answered with error -32002: nf {"uri":"x"}"#
    );
}

#[test]
fn a_peers_error_is_cut_where_it_would_fill_the_context() {
    let error = ClientError::Peer {
        code: 1,
        message: "ä".repeat(CLIENT_ERROR_BYTES_MAX),
        data: Some(json!("ä".repeat(CLIENT_ERROR_BYTES_MAX))),
    };
    assert!(error.to_string().len() < 2 * CLIENT_ERROR_BYTES_MAX + 100);
}

#[tokio::test]
async fn a_client_that_is_there_is_not_waited_for() {
    let seat = ClientSeat::new(Arc::new(Fake::default()), Duration::ZERO);
    assert!(seat.client().await.is_ok());
}

#[test]
fn what_a_sub_agent_does_is_shown_as_part_of_the_call_that_it_works_on() {
    let seat = ClientSeat::new(Arc::new(Fake::default()), WAIT);
    let (task, own) = (CallId::new("task"), CallId::new("own"));
    assert_eq!(seat.shown_call(&own), own);
    let seat = seat.on_behalf_of(&task);
    assert_eq!(seat.shown_call(&own), task);
    // A client that comes back does so for both.
    assert!(seat.take_back(Arc::new(Fake::default())));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_left_is_waited_for_and_then_it_is_gone() {
    let seat = ClientSeat::new(Arc::new(left()), WAIT);
    let began = Instant::now();
    assert_eq!(seat.client().await.unwrap_err(), ClientError::Gone);
    assert_eq!(began.elapsed(), WAIT);
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_to_the_client_that_came_back() {
    let seat = ClientSeat::new(Arc::new(left()), WAIT);
    let waiting = tokio::spawn({
        let seat = seat.clone();
        async move { seat.client().await.map(|client| client.is_gone()) }
    });
    tokio::time::sleep(WAIT / 2).await;
    assert!(seat.take_back(Arc::new(Fake::default())));
    assert_eq!(waiting.await.unwrap(), Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_offers_something_else_is_not_the_one() {
    let seat = ClientSeat::new(Arc::new(left()), WAIT);
    let other = Fake {
        offers: Offers::default(),
        ..Fake::default()
    };
    assert!(!seat.take_back(Arc::new(other)));
    assert_eq!(seat.client().await.unwrap_err(), ClientError::Gone);
}

#[tokio::test]
async fn a_client_that_leaves_again_does_not_sit_there() {
    let fake = Arc::new(Fake::default());
    let seat = ClientSeat::new(Arc::clone(&fake) as Arc<dyn ClientSide>, Duration::ZERO);
    fake.is_gone.store(true, Ordering::Relaxed);
    assert_eq!(seat.client().await.unwrap_err(), ClientError::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_it_answers_is_asked_again_when_it_is_back() {
    let leaving = Arc::new(Fake {
        file: Err(ClientError::Gone),
        ..Fake::default()
    });
    let seat = ClientSeat::new(Arc::clone(&leaving) as Arc<dyn ClientSide>, WAIT);
    let read = ReadTextFile {
        path: "/a".to_owned(),
        line: None,
        limit: None,
    };
    let reading = tokio::spawn({
        let (seat, read) = (seat.clone(), read.clone());
        async move { seat.read_text_file(read).await.map(|(text, _)| text) }
    });
    leaving.is_gone.store(true, Ordering::Relaxed);
    tokio::time::sleep(WAIT / 2).await;
    let back = Fake {
        file: Ok("text".to_owned()),
        ..Fake::default()
    };
    assert!(seat.take_back(Arc::new(back)));
    assert_eq!(reading.await.unwrap(), Ok("text".to_owned()));

    leaving.is_gone.store(false, Ordering::Relaxed);
    assert!(seat.take_back(leaving));
    let never = seat.read_text_file(read).await.map(|(text, _)| text);
    assert_eq!(never, Err(ClientError::Gone), "not for ever");
}

fn left() -> Fake {
    Fake {
        is_gone: AtomicBool::new(true),
        ..Fake::default()
    }
}
