//! What every provider makes of a whole answer.

use domain::Limits;

use crate::formats::{ALL, Format, HELLO, OLLAMA};
use crate::server::{Act, Server};
use crate::support::{ask, check, provider, show};

/// `hello` as it is shown; Ollama does not say what came from its cache.
fn hello(format: &Format) -> String {
    if format.spec == OLLAMA.spec {
        return HELLO.replace("usage 100 5 64", "usage 100 5 0");
    }
    HELLO.to_owned()
}

#[tokio::test]
async fn d_02_text_and_thoughts_stream_wherever_their_bytes_are_cut() {
    for format in ALL {
        // At sizes of one to three bytes every character of several bytes is cut somewhere.
        for size in [1, 2, 3, 7, 64, 100_000] {
            let answer = format.in_pieces(format.hello, size);
            check(format, answer, &hello(format)).await;
        }
    }
}

#[tokio::test]
async fn d_09_the_request_goes_to_the_right_place_with_its_key() {
    for format in ALL {
        let server = Server::start(vec![format.answer(format.hello)]).await;
        ask(format, &server).await;
        let (head, body) = server.requests().remove(0);
        let first = format!("post {} http/1.1", format.path);
        assert!(head.starts_with(&first), "{head}");
        match format.key_header {
            Some(key) => assert!(head.contains(key), "{head}"),
            None => assert!(!head.contains("sk-test"), "{head}"),
        }
        assert_eq!(body["model"], "mock");
        assert_eq!(body["stream"], true);
        let told = body.to_string();
        for words in ["Be kind.", "hello", "Reads a file."] {
            assert!(told.contains(words), "{}: {told}", format.spec);
        }
    }
}

#[tokio::test]
async fn d_09_two_tool_calls_in_mixed_pieces_come_out_whole_and_in_order() {
    let expected = "text Let me see.\ntool read {\"path\":\"a.txt\"}\ntool list {}\nstop ToolUse\n";
    for format in ALL {
        for size in [5, 100_000] {
            let answer = format.in_pieces(format.two_tools, size);
            check(format, answer, expected).await;
        }
    }
}

#[tokio::test]
async fn d_09_an_input_that_is_not_json_is_handed_on_as_the_text_it_is() {
    for format in ALL {
        let answer = format.answer(format.broken_input);
        check(format, answer, "tool list \"{path:\"\nstop ToolUse\n").await;
    }
}

#[tokio::test]
async fn d_09_an_answer_without_words_that_ends_well_is_an_end() {
    for format in ALL {
        let answer = format.answer(format.nothing_to_say);
        check(format, answer, "stop EndTurn\n").await;
    }
}

#[tokio::test]
async fn d_09_a_call_that_the_length_limit_cut_off_is_not_made() {
    for format in ALL {
        for cut_off in [format.cut_off, format.cut_off_early] {
            check(format, format.answer(cut_off), "stop MaxTokens\n").await;
        }
    }
}

#[tokio::test]
async fn d_09_an_end_that_never_comes_is_not_waited_for_long() {
    for format in ALL {
        let answer = format.begun(format.hello_without_end, vec![Act::Hang]);
        check(format, answer, &hello(format)).await;
        // Breaking off is no worse than hanging.
        let answer = format.begun(format.hello_without_end, vec![Act::Close]);
        check(format, answer, &hello(format)).await;
    }
}

#[tokio::test]
async fn a_20_calls_share_one_connection() {
    for format in ALL {
        let server = Server::start(vec![format.in_pieces(format.hello, 50)]).await;
        let provider = provider(format, &server.base, Limits::default()).await;
        for _ in 0..5 {
            assert_eq!(show(provider.open().as_mut()).await, hello(format));
        }
        assert_eq!(server.requests().len(), 5);
        assert_eq!(server.connections(), 1, "{}", format.spec);
    }
}

#[tokio::test]
async fn a_20_a_connection_that_the_server_closed_while_unused_is_replaced() {
    for format in ALL {
        let mut last = format.answer(format.hello);
        last.push(Act::Close);
        let mut server = Server::start(vec![last]).await;
        let provider = provider(format, &server.base, Limits::default()).await;
        assert_eq!(show(provider.open().as_mut()).await, hello(format));
        server.client_gone().await;
        assert_eq!(show(provider.open().as_mut()).await, hello(format));
        assert_eq!(server.connections(), 2, "{}", format.spec);
    }
}
