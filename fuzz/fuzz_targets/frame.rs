//! Any bytes as a frame: parsing, and decoding what it asks for, give a value or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::acp::{decode, decode_agent, permission_outcome};
use wire::rpc::{Incoming, parse, response};

fuzz_target!(|frame: &[u8]| {
    match parse(frame) {
        Ok(Incoming::Request { id, method, params }) => {
            let _ = decode(&method, params.as_deref());
            let _ = decode_agent(&method, params.as_deref());
            let answer = response(&id, &()).expect("an answer is JSON");
            match parse(answer.as_bytes()) {
                Ok(Incoming::Response { id: echoed, .. }) => {
                    assert_eq!(
                        echoed.as_json(),
                        id.as_json(),
                        "an id was not echoed exactly"
                    );
                }
                other => panic!("our own answer was read as {other:?}"),
            }
        }
        Ok(Incoming::Notification { method, params }) => {
            let _ = decode(&method, params.as_deref());
            let _ = decode_agent(&method, params.as_deref());
        }
        Ok(Incoming::Response {
            outcome: Ok(result),
            ..
        }) => {
            let _ = permission_outcome(&result);
        }
        Ok(Incoming::Response { .. } | Incoming::Ignored(_)) => {}
        Err(refusal) => {
            let answer = refusal.to_frame();
            assert!(
                parse(answer.as_bytes()).is_ok(),
                "our own refusal was refused"
            );
        }
    }
});
