//! What a tool server may want while one of its tools runs.
//!
//! [`Asks`] is the port: the turn that runs the tool implements it, and a server without one is told
//! that nobody can be asked.

use std::fmt;
use std::pin::Pin;

use domain::CallId;
use serde_json::{Map, Value};

/// Whoever can be asked on behalf of a tool server.
pub trait Asks: fmt::Debug + Send + Sync {
    /// Asks the person. Dropped, it takes the question back.
    fn person(&self, question: ServerQuestion) -> Answering;

    /// Has the session's model answer, if the person allows it. Dropped, it stops.
    fn model(&self, wish: SampleRequest) -> Sampling;
}

/// A question under way.
pub type Answering = Pin<Box<dyn Future<Output = PersonAnswer> + Send>>;

/// What a tool server wants to know.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerQuestion {
    /// The call of its tool that runs.
    pub call: CallId,
    /// What the server is called.
    pub server: String,
    /// Its words.
    pub message: String,
    /// The JSON schema of an answer: an object of plain values. Without one it is about a permission.
    pub form: Option<Value>,
    /// The answers there are, if they are few: for clients that show no forms.
    pub options: Vec<String>,
}

/// What a person answered.
#[derive(Clone, Debug, PartialEq)]
pub enum PersonAnswer {
    /// The form, filled in. Nobody has checked it.
    Filled(Map<String, Value>),
    /// One of the options.
    Chosen(String),
    /// Nothing, and that is an answer.
    Declined,
    /// Nothing, for the question went away.
    Cancelled,
}

/// An answer of the model's under way.
pub type Sampling = Pin<Box<dyn Future<Output = Result<Sampled, NotSampled>> + Send>>;

/// What a tool server wants the session's model to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRequest {
    /// The call of its tool that runs.
    pub call: CallId,
    /// What the server is called.
    pub server: String,
    /// What the model is told first.
    pub system: String,
    /// A conversation of the server's own.
    pub messages: Vec<(Speaker, String)>,
    /// How many tokens the answer may have.
    pub tokens_max: u32,
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Whoever asks.
    Person,
    /// Whoever answers.
    Model,
}

/// What the model answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Its words.
    pub text: String,
    /// Whether there would have been more.
    pub is_cut: bool,
}

/// Why it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSampled {
    /// The person did not allow it.
    Denied,
    /// The model failed, or the turn ended.
    Failed,
}
