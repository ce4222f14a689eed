//! A question to a person as a choice, which every client can show.

use super::{PermissionOption, PermissionOptionKind, QuestionAsked};

/// The option of a person who will answer in their own words, in the chat.
const LATER: &str = "later";

/// The option of a person who does not want to answer.
const DECLINE: &str = "decline";

/// What a person chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// An answer that was offered.
    Answer(&'a str),
    /// To answer in the chat.
    Later,
    /// Not to answer.
    Decline,
}

impl QuestionAsked {
    /// The ways to answer it by choosing: the answers it offers, and not to. The agent can also be
    /// answered in the chat, which a tool server does not hear.
    #[must_use]
    pub fn choices(&self) -> Vec<PermissionOption> {
        let option = |option_id: String, name: &str, kind| PermissionOption {
            option_id,
            name: name.to_owned(),
            kind,
        };
        let once = PermissionOptionKind::AllowOnce;
        let answers = self.options.iter().enumerate();
        let answers = answers.map(|(at, answer)| option(answer_id(at), answer, once));
        let later = || option(LATER.to_owned(), "I'll answer in the chat", once);
        let later = self.server.is_none().then(later);
        let reject = PermissionOptionKind::RejectOnce;
        let is_wish = self.server.is_some() && self.form.is_none();
        let name = match is_wish {
            true => "Don't allow",
            false => "Don't answer",
        };
        let decline = option(DECLINE.to_owned(), name, reject);
        answers.chain(later).chain([decline]).collect()
    }

    /// What the choice `option_id` means; one that was not offered is no answer.
    #[must_use]
    pub fn chosen(&self, option_id: &str) -> Choice<'_> {
        if option_id == LATER && self.server.is_none() {
            return Choice::Later;
        }
        let mut answers = self.options.iter().enumerate();
        match answers.find(|(at, _)| answer_id(*at) == option_id) {
            Some((_, answer)) => Choice::Answer(answer),
            None => Choice::Decline,
        }
    }
}

fn answer_id(at: usize) -> String {
    format!("answer_{}", at + 1)
}
