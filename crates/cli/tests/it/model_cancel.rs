//! Cancelling a turn that waits for a real provider: nobody keeps waiting, on either side.

use testkit::model::{ModelReply, RecordingModel, Speech, text};
use testkit::{AcpClient, Program, Update, wait_for};

use crate::support::{FORCED, binary};

/// What the program waits for when it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    FirstByte,
    MidStream,
    RetryPause,
}

impl Wait {
    fn reply(self) -> ModelReply {
        match self {
            Self::FirstByte => ModelReply::Hangs(vec![]),
            Self::MidStream => ModelReply::Hangs(vec![text("Once upon")]),
            Self::RetryPause => ModelReply::Refuses(429, "retry-after: 30\r\n", "{}"),
        }
    }

    async fn reached(self, client: &mut AcpClient, model: &RecordingModel, server: &Program) {
        match self {
            Self::FirstByte => wait_for("a request", || model.requests().len() == 1).await,
            Self::MidStream => {
                let has_begun = |update: &Update| update.text() == Some("Once upon");
                client.updates_until(has_begun).await;
            }
            Self::RetryPause => {
                let pauses = || server.stderr().contains("the model call is tried again");
                wait_for("the pause before another try", pauses).await;
            }
        }
    }
}

#[tokio::test]
async fn d_03_cancel_lets_go_of_a_provider_that_hangs_or_wants_to_be_asked_later() {
    for speech in Speech::ALL {
        for wait in [Wait::FirstByte, Wait::MidStream, Wait::RetryPause] {
            let model = RecordingModel::speaking(speech, vec![wait.reply()]).await;
            let mut server = Program::serve_in(model.home(binary())).await;
            let mut client = AcpClient::connect_ws(&server).await;
            let session = client.new_session().await;
            let prompt = client.start_prompt(&session, "go").await;
            wait.reached(&mut client, &model, &server).await;
            client.cancel(&session).await;
            let answer = client.wait(&prompt).await.unwrap();
            assert_eq!(answer["stopReason"], "cancelled", "{speech:?} {wait:?}");
            if wait != Wait::RetryPause {
                wait_for("the provider to be left", || model.left() == 1).await;
            }
            // The next prompt is the next request: what was cancelled is not tried again.
            client.take_updates(&session);
            let next = client.prompt(&session, "again").await;
            assert_eq!(next.text, "answer 2", "{speech:?} {wait:?}");
            assert_eq!(model.requests().len(), 2, "{speech:?} {wait:?}");
            let log = server.whole_log().await;
            assert!(!log.contains(FORCED), "{speech:?} {wait:?}: {log}");
        }
    }
}
