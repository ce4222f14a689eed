//! Where tool servers ask while one of their tools runs: the person, through the session; and, if the
//! person allows it, the turn's model.

use domain::event::QuestionAsked;
use domain::ids::PermissionId;
use domain::limits::MCP_SAMPLES_MAX;
use tokio::sync::{mpsc, oneshot};
use tools::asks::{
    Answering, Asks, NotSampled, PersonAnswer, SampleRequest, Sampled, Sampling, ServerQuestion,
};
use tools::plain::plain;

use crate::report::{Asking, Report};

/// Characters of a server's wish that a person reads before they allow it.
const SHOWN_CHARS_MAX: usize = 2_000;

/// The answer of a person who allows it.
const ALLOW: &str = "Allow once";

/// Passes questions on to the session of a turn, and wishes to the turn.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    reports: mpsc::Sender<Report>,
    samples: mpsc::Sender<Sample>,
}

/// A wish that the person has allowed.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) wish: SampleRequest,
    pub(super) reply: oneshot::Sender<Result<Sampled, NotSampled>>,
}

impl Desk {
    /// The desk of a turn with these `reports`, and where its wishes arrive.
    pub(super) fn new(reports: &mpsc::Sender<Report>) -> (Self, mpsc::Receiver<Sample>) {
        let (samples, wishes) = mpsc::channel(MCP_SAMPLES_MAX);
        let reports = reports.clone();
        (Self { reports, samples }, wishes)
    }
}

impl Asks for Desk {
    fn person(&self, question: ServerQuestion) -> Answering {
        let reports = self.reports.clone();
        Box::pin(async move {
            let id = PermissionId::random();
            let (reply, answer) = oneshot::channel();
            let asked = QuestionAsked {
                id: id.clone(),
                call_id: question.call,
                question: question.message,
                options: question.options,
                server: Some(question.server),
                form: question.form,
            };
            let taken_back = TakenBack::new(&reports, id);
            let asking = Box::new(Asking { asked, reply });
            if reports.send(Report::Asked(asking)).await.is_err() {
                return PersonAnswer::Cancelled;
            }
            let answer = answer.await.unwrap_or(PersonAnswer::Cancelled);
            taken_back.not_any_more();
            answer
        })
    }

    fn model(&self, wish: SampleRequest) -> Sampling {
        let asking = self.person(permission(&wish));
        let samples = self.samples.clone();
        Box::pin(async move {
            if asking.await != PersonAnswer::Chosen(ALLOW.to_owned()) {
                return Err(NotSampled::Denied);
            }
            let (reply, sampled) = oneshot::channel();
            let sent = samples.send(Sample { wish, reply }).await;
            sent.map_err(|_| NotSampled::Failed)?;
            sampled.await.unwrap_or(Err(NotSampled::Failed))
        })
    }
}

/// Whether the model may answer what a server wants it to.
fn permission(wish: &SampleRequest) -> ServerQuestion {
    let said = wish.messages.iter().map(|(_, text)| text.as_str());
    let said: Vec<&str> = std::iter::once(wish.system.as_str()).chain(said).collect();
    let said = plain(said.join("\n").as_bytes()).replace(char::REPLACEMENT_CHARACTER, "");
    let mut shown: String = said.trim().chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < said.trim().len() {
        shown.push('…');
    }
    let tokens = wish.tokens_max;
    ServerQuestion {
        call: wish.call.clone(),
        server: wish.server.clone(),
        message: format!("may the model answer this for it, in up to {tokens} tokens?\n\n{shown}"),
        form: None,
        options: vec![ALLOW.to_owned()],
    }
}

/// Tells the session about a question whose answer nobody waits for any more.
struct TakenBack {
    question: Option<(mpsc::Sender<Report>, PermissionId)>,
}

impl TakenBack {
    fn new(reports: &mpsc::Sender<Report>, id: PermissionId) -> Self {
        let question = Some((reports.clone(), id));
        Self { question }
    }

    fn not_any_more(mut self) {
        self.question = None;
    }
}

impl Drop for TakenBack {
    fn drop(&mut self) {
        let Some((reports, id)) = self.question.take() else {
            return;
        };
        // Where no runtime is left, no session is left either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { reports.send(Report::TakenBack(id)).await });
        }
    }
}
