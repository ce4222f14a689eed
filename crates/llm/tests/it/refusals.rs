//! What every provider makes of an answer that is no stream: tried again, or told once.

use std::time::{Duration, Instant};

use domain::Limits;
use llm::{ModelError, choose};

use crate::formats::ALL;
use crate::server::{Server, plain};
use crate::support::{ask, check, failure, open, with_key};

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn d_09_a_busy_server_is_asked_again_after_the_time_it_wishes() {
    for format in ALL {
        let busy = plain("429 Too Many Requests", "retry-after: 0.2\r\n", "{}");
        let hello = format.answer(format.hello);
        let server = Server::start(vec![busy.clone(), busy, hello]).await;
        let start = Instant::now();
        let shown = ask(format, &server).await;
        assert!(
            shown.ends_with("stop EndTurn\n"),
            "{}: {shown}",
            format.spec
        );
        assert!(start.elapsed() >= Duration::from_millis(400));
        assert_eq!(server.requests().len(), 3);
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn d_09_without_a_wish_it_is_asked_again_after_a_while() {
    let asked = ALL.map(|format| async move {
        let busy = plain("429 Too Many Requests", "", "{}");
        let server = Server::start(vec![busy, format.answer(format.hello)]).await;
        let start = Instant::now();
        let shown = ask(format, &server).await;
        assert!(
            shown.ends_with("stop EndTurn\n"),
            "{}: {shown}",
            format.spec
        );
        assert!(start.elapsed() >= Duration::from_millis(250));
        assert_eq!(server.requests().len(), 2);
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn d_09_a_date_is_a_wish_too() {
    let headers = "date: Wed, 21 Oct 2026 07:28:00 GMT\r\n\
                   retry-after: Wed, 21 Oct 2026 07:28:01 GMT\r\n";
    let format = ALL[0];
    let busy = plain("529 Overloaded", headers, "{}");
    let server = Server::start(vec![busy, format.answer(format.hello)]).await;
    let start = Instant::now();
    assert!(ask(format, &server).await.ends_with("stop EndTurn\n"));
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn d_09_a_server_that_asks_for_hours_is_not_waited_for() {
    let format = ALL[0];
    let body =
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"Come back tomorrow."}}"#;
    let busy = plain("429 Too Many Requests", "retry-after: 7200\r\n", body);
    let server = Server::start(vec![busy]).await;
    let told = "error the model's server answered 429: Come back tomorrow\n";
    assert_eq!(ask(format, &server).await, told);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn d_09_what_may_pass_is_tried_four_times_and_what_may_not_once() {
    let statuses = [
        (408, 4),
        (409, 4),
        (425, 4),
        (429, 4),
        (500, 4),
        (503, 4),
        (529, 4),
        (400, 1),
        (401, 1),
        (403, 1),
        (404, 1),
    ];
    for format in ALL {
        for (status, tries) in statuses {
            let answer = plain(&format!("{status} No"), "retry-after: 0\r\n", "loading");
            let server = Server::start(vec![answer]).await;
            let told = format!("error the model's server answered {status}: loading\n");
            assert_eq!(ask(format, &server).await, told);
            assert_eq!(server.requests().len(), tries, "{status} {}", format.spec);
        }
    }
}

#[tokio::test]
async fn a_refusal_is_told_once_in_the_servers_words_without_the_key() {
    for format in ALL {
        let body = r#"{"error":{"message":"Incorrect API key provided: sk-test. See https://example.com.","code":"invalid_api_key"}}"#;
        let server = Server::start(vec![plain("401 Unauthorized", "", body)]).await;
        assert_eq!(
            ask(format, &server).await,
            "error the model's server answered 401: Incorrect API key provided: (key) See (link)\n"
        );
        assert_eq!(server.requests().len(), 1);
        let page = plain("404 Not Found", "", "<html>nginx</html>");
        let told = "error the model's server answered with status 404\n";
        check(format, page, told).await;
        let elsewhere = plain("302 Found", "location: http://127.0.0.1:1/\r\n", "");
        let told = "error the model's server answered with status 302\n";
        check(format, elsewhere, told).await;
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_an_error_of_its_own() {
    for format in ALL {
        let refused = plain("400 Bad Request", JSON, format.too_long);
        let server = Server::start(vec![refused]).await;
        let mut model = open(format, &server.base, Limits::default()).await;
        let error = failure(model.as_mut()).await;
        assert_eq!(error, ModelError::ContextTooLong, "{}", format.spec);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_short_key_does_not_hide_what_the_server_says() {
    for format in ALL {
        let too_long = plain("400 Bad Request", JSON, format.too_long);
        let body = r#"{"error":{"message":"The next box has no exit"}}"#;
        let other = plain("400 Bad Request", JSON, body);
        let server = Server::start(vec![too_long, other]).await;
        let settings = with_key(format.spec, &server.base, Limits::default(), "x");
        let mut model = choose(settings).await.unwrap().provider.open();
        let error = failure(model.as_mut()).await;
        assert_eq!(error, ModelError::ContextTooLong, "{}", format.spec);
        let error = failure(model.as_mut()).await.to_string();
        let said = "the model's server answered 400: The next box has no exit";
        assert_eq!(error, said, "{}", format.spec);
    }
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_hidden() {
    for format in ALL {
        if format.key_header.is_none() {
            continue;
        }
        let body = r#"{"error":{"message":"Who is 'opensesame'? Is it opensesame!"}}"#;
        let server = Server::start(vec![plain("400 Bad Request", JSON, body)]).await;
        let settings = with_key(format.spec, &server.base, Limits::default(), "opensesame");
        let mut model = choose(settings).await.unwrap().provider.open();
        let error = failure(model.as_mut()).await.to_string();
        let said = "the model's server answered 400: Who is '(key)'? Is it (key)!";
        assert_eq!(error, said, "{}", format.spec);
    }
}
