//! What people are asked: whether a call may run, or what the agent wants to know.
//!
//! Both wait in one list, are asked of every client, and take the first answer. A permission decides
//! about its call; a question of the agent's is its call, and the answer is the outcome of it. What a
//! sub-agent or a tool server asks is neither: its call goes on and hears the answer.

use domain::CallId;
use domain::event::{
    AnswerOutcome, Choice, PermissionAsked, QuestionAnswered, QuestionAsked, QuestionOutcome,
    ToolStatus,
};
use domain::ids::PermissionId;
use domain::limits::ANSWER_BYTES_MAX;
use domain::{EventSeq, PrincipalId};
use journal::Entry;
use serde_json::{Map, Value};

use super::decide::{entry, result, unanswered};
use super::{Rejected, SessionState};

/// What the model is told instead of an answer that is yet to come.
const LATER_TEXT: &str = "The user will answer in the chat. End your turn now without guessing the \
answer; it comes with their next message.";

/// Something that people are asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where it was asked.
    pub seq: EventSeq,
    /// As it was asked.
    pub asked: Asked,
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Asked {
    /// Whether a call may run.
    Permission(PermissionAsked),
    /// What the agent wants to know.
    Person(QuestionAsked),
}

/// How a person answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// With an option that was offered.
    Option(String),
    /// The same, and why.
    Explained {
        /// The option.
        option: String,
        /// Why, in words for the model.
        reason: String,
    },
    /// In their own words.
    Words(String),
    /// By filling in a form.
    Form(Map<String, Value>),
    /// Not at all.
    Nothing,
}

impl Said {
    /// The option that was chosen.
    pub(super) fn option(&self) -> Option<&str> {
        match self {
            Self::Option(option) | Self::Explained { option, .. } => Some(option),
            Self::Words(_) | Self::Form(_) | Self::Nothing => None,
        }
    }

    /// Why, if that was said.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Explained { reason, .. } => Some(reason),
            Self::Option(_) | Self::Words(_) | Self::Form(_) | Self::Nothing => None,
        }
    }
}

impl Asked {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &PermissionId {
        match self {
            Self::Permission(asked) => &asked.id,
            Self::Person(asked) => &asked.id,
        }
    }

    /// The call that waits for it.
    #[must_use]
    pub fn call_id(&self) -> &CallId {
        match self {
            Self::Permission(asked) => &asked.call_id,
            Self::Person(asked) => &asked.call_id,
        }
    }

    /// Whether a sub-agent or a tool server asks: then the call goes on meanwhile.
    pub(super) fn is_beside_call(&self) -> bool {
        match self {
            Self::Permission(asked) => asked.asker.is_some(),
            Self::Person(asked) => asked.server.is_some(),
        }
    }

    /// The event that ends it because the turn was cancelled.
    pub(super) fn cancelled(&self) -> Entry {
        match self {
            Self::Permission(asked) => unanswered(&asked.id, AnswerOutcome::Cancelled),
            Self::Person(asked) => entry(QuestionAnswered {
                id: asked.id.clone(),
                outcome: QuestionOutcome::Cancelled,
                text: None,
                content: None,
                by: None,
            }),
        }
    }
}

impl SessionState {
    /// A person answers what they were asked.
    pub(super) fn answer(
        &self,
        question: &PermissionId,
        said: &Said,
        by: &PrincipalId,
    ) -> Result<Vec<Entry>, Rejected> {
        match (self.question(question)?, said) {
            (Asked::Permission(asked), said) => Ok(self.permit(asked, said, by)),
            (Asked::Person(asked), said) => {
                let by = Answerer {
                    by: Some(by),
                    reason: said.reason(),
                };
                Ok(settled(asked, heard(asked, said), by))
            }
        }
    }

    /// A question that ends without an answer.
    pub(super) fn close_question(
        &self,
        question: &PermissionId,
        outcome: AnswerOutcome,
    ) -> Result<Vec<Entry>, Rejected> {
        match self.question(question)? {
            Asked::Permission(asked) => Ok(Self::close_permission(asked, outcome)),
            Asked::Person(asked) => {
                let outcome = match outcome {
                    AnswerOutcome::Expired => QuestionOutcome::Expired,
                    AnswerOutcome::Cancelled => QuestionOutcome::Cancelled,
                    AnswerOutcome::Allowed | AnswerOutcome::Denied => QuestionOutcome::Declined,
                };
                Ok(settled(asked, Heard::nothing(outcome), Answerer::default()))
            }
        }
    }

    /// A tool server asks while a call of its tool runs, which goes on meanwhile.
    pub(super) fn ask_for_server(&self, asked: QuestionAsked) -> Result<Vec<Entry>, Rejected> {
        let mut calls = self.calls.iter();
        let runs = calls.any(|call| call.id == asked.call_id && call.allowed_by.is_some());
        let is_new = self.question(&asked.id).is_err();
        if !runs || !is_new || asked.server.is_none() {
            return Err(Rejected::Late);
        }
        Ok(vec![entry(asked)])
    }

    /// A question beside a call was settled elsewhere, or nobody waits for its answer.
    pub(super) fn withdraw(&self, question: &PermissionId) -> Result<Vec<Entry>, Rejected> {
        let open = self.question(question)?;
        match open.is_beside_call() {
            true => Ok(vec![open.cancelled()]),
            false => Err(Rejected::Late),
        }
    }

    pub(super) fn question(&self, id: &PermissionId) -> Result<&Asked, Rejected> {
        let mut open = self.questions.iter();
        let found = open.find(|question| question.asked.id() == id);
        found.map(|question| &question.asked).ok_or(Rejected::Late)
    }
}

/// What a person's answer means.
struct Heard {
    outcome: QuestionOutcome,
    text: Option<String>,
    content: Option<Map<String, Value>>,
}

impl Heard {
    fn nothing(outcome: QuestionOutcome) -> Self {
        Self {
            outcome,
            text: None,
            content: None,
        }
    }

    fn words(words: &str) -> Self {
        let end = words.floor_char_boundary(ANSWER_BYTES_MAX);
        Self {
            text: Some(words[..end].to_owned()),
            ..Self::nothing(QuestionOutcome::Answered)
        }
    }
}

fn heard(asked: &QuestionAsked, said: &Said) -> Heard {
    let declined = Heard::nothing(QuestionOutcome::Declined);
    match said {
        Said::Option(option) | Said::Explained { option, .. } => match asked.chosen(option) {
            Choice::Answer(answer) => Heard::words(answer),
            Choice::Later => Heard::nothing(QuestionOutcome::Later),
            Choice::Decline => declined,
        },
        Said::Words(words) if words.trim().is_empty() => declined,
        Said::Words(words) => Heard::words(words),
        // Cutting it would make another answer of it.
        Said::Form(content) if form_bytes(content) > ANSWER_BYTES_MAX => declined,
        Said::Form(content) => Heard {
            content: Some(content.clone()),
            ..Heard::nothing(QuestionOutcome::Answered)
        },
        Said::Nothing => declined,
    }
}

fn form_bytes(content: &Map<String, Value>) -> usize {
    let bytes = |(name, value): (&String, &Value)| name.len() + value.to_string().len();
    content.iter().map(bytes).sum()
}

/// Whose answer it is, and why it is that one, as far as they say.
#[derive(Clone, Copy, Default)]
struct Answerer<'a> {
    by: Option<&'a PrincipalId>,
    reason: Option<&'a str>,
}

/// The end of a question, and with it of its call: both are stored together, so a call has the
/// answer that the journal has. The call of a tool server goes on.
fn settled(
    asked: &QuestionAsked,
    heard: Heard,
    Answerer { by, reason }: Answerer<'_>,
) -> Vec<Entry> {
    let Heard {
        outcome,
        text,
        content,
    } = heard;
    let (status, told) = match outcome {
        QuestionOutcome::Answered => (ToolStatus::Completed, text.clone().unwrap_or_default()),
        QuestionOutcome::Later => (ToolStatus::Completed, LATER_TEXT.to_owned()),
        QuestionOutcome::Declined if by.is_none() => (
            ToolStatus::Denied,
            "The user could not be asked.".to_owned(),
        ),
        QuestionOutcome::Declined => {
            let told = reason.unwrap_or("The user declined to answer.");
            (ToolStatus::Denied, told.to_owned())
        }
        QuestionOutcome::Expired => (
            ToolStatus::Denied,
            "The user did not answer in time.".to_owned(),
        ),
        QuestionOutcome::Cancelled => (ToolStatus::Cancelled, String::new()),
    };
    let answered = QuestionAnswered {
        id: asked.id.clone(),
        outcome,
        text,
        content,
        by: by.map(|by| by.as_str().to_owned()),
    };
    let ended = || result(asked.call_id.clone(), status, &told);
    let ended = asked.server.is_none().then(ended);
    std::iter::once(entry(answered)).chain(ended).collect()
}
