//! What every provider makes of an answer that breaks, stops, or never comes.

use std::time::Duration;

use domain::{FailureKind, Limits};
use futures_util::StreamExt;
use llm::{Chunk, ModelError};

use crate::formats::{ALL, Format, HELLO};
use crate::server::{Act, Server, chunk, plain, stream_end};
use crate::support::{ask, check, failure, open, request, show};

/// An answer that broke off after its first word, with what was counted until then.
fn broke_off(format: &Format) -> String {
    let counted = format.first_word_counted;
    format!("text Hi\n{counted}error the model's answer broke off before its end\n")
}

#[tokio::test]
async fn d_09_an_error_in_mid_stream_ends_the_answer_with_that_error() {
    for format in ALL {
        let error = chunk(&format.bytes(&[format.error]));
        let answer = format.begun(format.first_word, vec![error, stream_end()]);
        let (counted, error) = (format.first_word_counted, format.error_shown);
        let told = format!("text Hi\n{counted}{error}");
        check(format, answer, &told).await;
    }
}

#[tokio::test]
async fn d_09_a_cut_stream_is_never_a_silent_end() {
    for format in ALL {
        let half = format.bytes(&[format.error]);
        let half = chunk(&half[..half.len() / 2]);
        for then in [
            vec![Act::Close],
            vec![stream_end()],
            vec![half, stream_end()],
        ] {
            check(
                format,
                format.begun(format.first_word, then),
                &broke_off(format),
            )
            .await;
        }
    }
}

#[tokio::test]
async fn d_09_an_unusable_answer_says_what_is_wrong_with_it() {
    for format in ALL {
        let server = Server::start(vec![format.answer(&["{not json"])]).await;
        let shown = ask(format, &server).await;
        let unusable = "error the model's server sent something unusable: ";
        assert!(shown.starts_with(unusable), "{}: {shown}", format.spec);
        assert_eq!(server.requests().len(), 1);

        let empty = "error the model's answer is empty\n";
        check(format, format.begun(&[], vec![stream_end()]), empty).await;
        check(format, plain("200 OK", "", ""), empty).await;
    }
}

#[tokio::test]
async fn d_09_a_connection_lost_before_the_first_byte_is_tried_again_and_after_it_never() {
    for format in ALL {
        // A head without a body is no answer yet.
        for lost in [vec![Act::Close], vec![format.head(), Act::Close]] {
            let server = Server::start(vec![lost, format.answer(format.hello)]).await;
            let shown = ask(format, &server).await;
            assert!(
                shown.ends_with("stop EndTurn\n"),
                "{}: {shown}",
                format.spec
            );
            assert_eq!(server.requests().len(), 2);
        }
        let cut = format.begun(format.first_word, vec![Act::Close]);
        let server = Server::start(vec![cut, format.answer(format.hello)]).await;
        assert_eq!(ask(format, &server).await, broke_off(format));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn f42_silence_before_the_first_byte_ends_at_its_deadline() {
    for format in ALL {
        for silent in [vec![Act::Hang], vec![format.head(), Act::Hang]] {
            let server = Server::start(vec![silent]).await;
            let limits = Limits {
                model_first_byte: Duration::from_millis(150),
                ..Limits::default()
            };
            let mut model = open(format, &server.base, limits).await;
            let error = failure(model.as_mut()).await;
            assert_eq!(error.to_turn_error().kind, FailureKind::ModelTimeout);
            let said = "the model did not begin to answer within 0.15 s";
            assert_eq!(error.to_string(), said);
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn f42_silence_between_chunks_ends_at_its_deadline() {
    for format in ALL {
        let stuck = format.begun(format.first_word, vec![Act::Hang]);
        let server = Server::start(vec![stuck]).await;
        let limits = Limits {
            model_between_chunks: Duration::from_millis(150),
            ..Limits::default()
        };
        let shown = show(open(format, &server.base, limits).await.as_mut()).await;
        let said = "the model stopped in mid-answer and did not go on within 0.15 s";
        let counted = format.first_word_counted;
        assert_eq!(shown, format!("text Hi\n{counted}error {said}\n"));
    }
}

#[tokio::test]
async fn comments_do_not_keep_a_silent_call_alive() {
    for format in ALL {
        // Lines of JSON have no comments, but some of them may be blank.
        let bytes: &[u8] = if format.is_lines {
            b"\n"
        } else {
            b": ping\n\n"
        };
        let Act::Write(bytes) = chunk(bytes) else {
            panic!("a chunk is written")
        };
        let drip = || Act::Drip(bytes.clone(), Duration::from_millis(10));
        let limits = Limits {
            model_first_byte: Duration::from_millis(200),
            model_between_chunks: Duration::from_millis(150),
            model_call: Duration::from_secs(20),
            ..Limits::default()
        };
        let server = Server::start(vec![format.begun(&[], vec![drip()])]).await;
        let error = failure(open(format, &server.base, limits.clone()).await.as_mut()).await;
        let said = "the model did not begin to answer within 0.2 s";
        assert_eq!(error.to_string(), said, "{}", format.spec);
        let server = Server::start(vec![format.begun(format.first_word, vec![drip()])]).await;
        let shown = show(open(format, &server.base, limits).await.as_mut()).await;
        let said = "error the model stopped in mid-answer and did not go on within 0.15 s\n";
        assert!(shown.ends_with(said), "{}: {shown}", format.spec);
    }
}

#[tokio::test]
async fn events_without_content_keep_a_call_alive_five_times_as_long() {
    let events = [
        ("anthropic:", r#"{"type":"ping"}"#),
        ("openai-chat:", r#"{"choices":[{"delta":{"content":""}}]}"#),
        ("openai:", r#"{"type":"response.in_progress"}"#),
        ("ollama:", r#"{"message":{"content":""},"done":false}"#),
    ];
    for (spec, event) in events {
        let is_meant = |format: &&&Format| format.spec.starts_with(spec);
        let Some(format) = ALL.iter().find(is_meant) else {
            continue;
        };
        let Act::Write(ping) = chunk(&format.bytes(&[event])) else {
            panic!("a chunk is written")
        };
        let drip = Act::Drip(ping, Duration::from_millis(10));
        let server = Server::start(vec![format.begun(format.first_word, vec![drip])]).await;
        let limits = Limits {
            model_between_chunks: Duration::from_millis(100),
            model_call: Duration::from_secs(20),
            ..Limits::default()
        };
        let shown = show(open(format, &server.base, limits).await.as_mut()).await;
        let said = "error the model stopped in mid-answer and did not go on within 0.5 s\n";
        assert!(shown.ends_with(said), "{spec}: {shown}");
    }
}

#[tokio::test]
async fn f42_an_answer_without_end_ends_at_the_deadline_of_the_call() {
    for format in ALL {
        let Act::Write(word) = chunk(&format.bytes(format.first_word)) else {
            panic!("a chunk is written")
        };
        let drip = Act::Drip(word, Duration::from_millis(20));
        let server = Server::start(vec![format.begun(&[], vec![drip])]).await;
        let limits = Limits {
            model_call: Duration::from_millis(300),
            ..Limits::default()
        };
        let shown = show(open(format, &server.base, limits).await.as_mut()).await;
        assert!(shown.starts_with("text Hi\ntext Hi\n"), "{shown}");
        let said = "error the model did not finish its answer within 0.3 s\n";
        assert!(shown.ends_with(said), "{shown}");
    }
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_call_and_the_next_one_works() {
    for format in ALL {
        let stuck = format.begun(format.first_word, vec![Act::Hang]);
        let mut server = Server::start(vec![stuck, format.answer(format.hello)]).await;
        let mut model = open(format, &server.base, Limits::default()).await;
        let mut stream = model.stream(request());
        let mut first = stream.next().await;
        if let Some(Ok(Chunk::Usage(_))) = first {
            first = stream.next().await;
        }
        assert_eq!(first, Some(Ok(Chunk::Text("Hi".to_owned()))));
        drop(stream);
        server.client_gone().await;
        let shown = show(model.as_mut()).await;
        assert_eq!(shown.lines().next(), HELLO.lines().next());
    }
}

#[tokio::test]
async fn nobody_there_is_an_error_that_names_no_address() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let nobody = ALL.map(|format| {
        let base = base.clone();
        async move { failure(open(format, &base, Limits::default()).await.as_mut()).await }
    });
    // Together, because each waits between its four tries.
    for error in futures_util::future::join_all(nobody).await {
        assert_eq!(error, ModelError::Unreachable { tries: 4 });
        let error = error.to_turn_error();
        assert_eq!(error.kind, FailureKind::ModelError);
        let said = "the model's server could not be reached (tried 4 times)";
        assert_eq!(error.message, said);
    }
}
