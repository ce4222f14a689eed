//! What a test client answers when the agent asks it something.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::RpcError;

/// A request from the agent.
#[derive(Clone, Debug)]
pub struct AgentRequest {
    /// Its id, to be echoed in the answer.
    pub id: Value,
    /// What is asked.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// How a client answers a permission question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first option of kind `allow_once`.
    Allow,
    /// The first option of kind `allow_always`.
    AllowAlways,
    /// The first option of kind `reject_once`.
    Reject,
    /// The option with this id, whether it was offered or not.
    Option(String),
    /// The question was cancelled.
    Cancelled,
    /// Not at all, until the test answers with `AcpClient::answer`.
    Hold,
}

/// Makes an answer of a request's parameters.
pub type Responder = Box<dyn FnMut(&Value) -> Result<Value, RpcError> + Send>;

/// How a client answers requests for one method.
pub enum Reply {
    /// With this result.
    Result(Value),
    /// With this error.
    Error(RpcError),
    /// With what the function makes of the parameters.
    With(Responder),
    /// Not at all, until the test answers with `AcpClient::answer`.
    Hold,
}

impl From<Choice> for Reply {
    fn from(choice: Choice) -> Self {
        if choice == Choice::Hold {
            return Self::Hold;
        }
        Self::With(Box::new(move |params| choose(&choice, params)))
    }
}

/// The replies a test has laid down, by method.
#[derive(Default)]
pub(super) struct Replies(HashMap<String, Reply>);

impl Replies {
    pub(super) fn set(&mut self, method: &str, reply: Reply) {
        self.0.insert(method.to_owned(), reply);
    }

    /// The answer to `request`, or `None` if the test will give it.
    ///
    /// What a client has not offered is an unknown method to it. A permission question is
    /// different: every client must answer, so the test has to say how.
    pub(super) fn answer(&mut self, request: &AgentRequest) -> Option<Result<Value, RpcError>> {
        match self.0.get_mut(&request.method) {
            Some(Reply::Result(result)) => Some(Ok(result.clone())),
            Some(Reply::Error(error)) => Some(Err(error.clone())),
            Some(Reply::With(answer)) => Some(answer(&request.params)),
            Some(Reply::Hold) => None,
            None if request.method == "session/request_permission" => {
                panic!("the agent asks for permission and the test has not said `on_permission`")
            }
            None => Some(Err(RpcError::new(-32601, "method not found"))),
        }
    }
}

fn choose(choice: &Choice, params: &Value) -> Result<Value, RpcError> {
    let option = match choice {
        Choice::Allow => option_of_kind(params, "allow_once"),
        Choice::AllowAlways => option_of_kind(params, "allow_always"),
        Choice::Reject => option_of_kind(params, "reject_once"),
        Choice::Option(id) => id.clone(),
        Choice::Cancelled | Choice::Hold => {
            return Ok(json!({"outcome": {"outcome": "cancelled"}}));
        }
    };
    Ok(json!({"outcome": {"outcome": "selected", "optionId": option}}))
}

fn option_of_kind(params: &Value, kind: &str) -> String {
    let options = params["options"].as_array().into_iter().flatten();
    let option = options
        .filter(|option| option["kind"] == kind)
        .find_map(|option| option["optionId"].as_str());
    match option {
        Some(id) => id.to_owned(),
        None => panic!("no option of kind {kind} among {}", params["options"]),
    }
}
