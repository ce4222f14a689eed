//! Tools that a client has of its own: what it says of them, and what of that is believed.
//!
//! Their names begin with [`PREFIX`], so none takes the place of another tool, and a person sees
//! where a call goes. What they say of themselves is cut to size; nothing of it is trusted.

use std::sync::Arc;

use domain::limits::{
    CLIENT_TOOL_DESCRIPTION_BYTES_MAX, CLIENT_TOOL_NAME_BYTES_MAX, CLIENT_TOOL_SCHEMA_BYTES_MAX,
    CLIENT_TOOLS_MAX,
};
use serde_json::{Value, json};

use crate::plain::plain;

/// What the names of clients' tools begin with.
pub const PREFIX: &str = "client__";

/// Characters of a name that is no good, as people are told it.
const SHOWN_CHARS_MAX: usize = 40;

/// A tool as a client describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOffer {
    /// What the client calls it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its input.
    pub input_schema: Value,
}

/// A tool of a client's that a model may use.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTool {
    /// What the model calls it.
    pub name: String,
    /// What the client calls it.
    pub own_name: String,
    /// What it does, as the client says.
    pub description: String,
    /// The JSON schema of its input.
    pub input_schema: Value,
}

/// The tools of a client.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// Those that can be used.
    pub tools: Arc<[ClientTool]>,
    /// Why others cannot, in words for a person; told once.
    pub problems: Vec<String>,
}

/// A call of a client's tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRequest {
    /// The call, as the client was shown it.
    pub call: domain::CallId,
    /// What the client calls the tool.
    pub name: String,
    /// Its input.
    pub input: Value,
}

/// What came of such a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReply {
    /// What the tool said.
    pub text: String,
    /// Whether it says that it failed.
    pub is_error: bool,
}

impl Discovered {
    /// No tools, for this reason.
    #[must_use]
    pub fn none(problem: String) -> Self {
        Self {
            tools: Arc::new([]),
            problems: vec![problem],
        }
    }

    /// What can be used of `offers`.
    #[must_use]
    pub fn of(offers: Vec<ToolOffer>) -> Self {
        let mut tools: Vec<ClientTool> = Vec::new();
        let mut refused: Vec<String> = Vec::new();
        for offer in offers {
            let is_known = tools.iter().any(|tool| tool.own_name == offer.name);
            let is_good = is_name(&offer.name) && is_schema(&offer.input_schema);
            match is_good && !is_known && tools.len() < CLIENT_TOOLS_MAX {
                true => tools.push(usable(offer)),
                false => refused.push(plain(offer.name.as_bytes())),
            }
        }
        let first = refused.first().map(|name| {
            let name: String = name.chars().take(SHOWN_CHARS_MAX).collect();
            let count = refused.len();
            format!("{count} of the client's tools cannot be used, the first is {name:?}")
        });
        Self {
            tools: tools.into(),
            problems: first.into_iter().collect(),
        }
    }
}

/// What every provider takes as a part of a name.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=CLIENT_TOOL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_part)
}

/// Nothing, or the schema of an object that is not too long.
fn is_schema(schema: &Value) -> bool {
    match schema {
        Value::Null => true,
        Value::Object(fields) => {
            let is_object = fields.get("type").is_none_or(|kind| kind == "object");
            is_object && schema.to_string().len() <= CLIENT_TOOL_SCHEMA_BYTES_MAX
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

fn usable(offer: ToolOffer) -> ClientTool {
    let mut description = plain(offer.description.as_bytes());
    description.truncate(description.floor_char_boundary(CLIENT_TOOL_DESCRIPTION_BYTES_MAX));
    let mut input_schema = offer.input_schema;
    match &mut input_schema {
        Value::Object(fields) => {
            fields.entry("type").or_insert_with(|| json!("object"));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            input_schema = json!({"type": "object"});
        }
    }
    ClientTool {
        name: format!("{PREFIX}{}", offer.name),
        own_name: offer.name,
        description: format!("A tool of the user's client. {description}"),
        input_schema,
    }
}

#[cfg(test)]
mod tests {
    use domain::limits::{CLIENT_TOOL_SCHEMA_BYTES_MAX, CLIENT_TOOLS_MAX};
    use serde_json::{Value, json};

    use super::{Discovered, ToolOffer};

    fn offer(name: &str) -> ToolOffer {
        ToolOffer {
            name: name.to_owned(),
            ..ToolOffer::default()
        }
    }

    #[test]
    fn d_06_a_clients_tool_takes_no_other_tools_place() {
        let found = Discovered::of(vec![offer("read"), offer("bash"), offer("read")]);
        let names: Vec<_> = found.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["client__read", "client__bash"]);
        assert!(found.problems[0].contains("1 of the client's tools"));
        assert_eq!(found.tools[0].input_schema, json!({"type": "object"}));
    }

    #[test]
    fn d_06_what_a_client_says_of_its_tools_is_cut_to_size() {
        let with = |input_schema: Value| ToolOffer {
            input_schema,
            ..offer("x")
        };
        let long = "s".repeat(CLIENT_TOOL_SCHEMA_BYTES_MAX);
        let bad = [
            offer(""),
            offer("a b"),
            offer("ä"),
            offer("\u{1b}[2J"),
            offer(&"n".repeat(1_000)),
            with(json!([])),
            with(json!({"type": "string"})),
            with(json!({"title": long})),
        ];
        for offer in bad {
            let found = Discovered::of(vec![offer.clone()]);
            assert!(found.tools.is_empty(), "{offer:?}");
            assert!(found.problems[0].len() < 200, "{:?}", found.problems);
        }
        let wordy = ToolOffer {
            description: "\u{1b}[31m".to_owned() + &"ä".repeat(1_000_000),
            ..offer("wordy")
        };
        let found = Discovered::of(vec![wordy]);
        let description = &found.tools[0].description;
        assert!(description.len() < 3_000 && !description.contains('\u{1b}'));
        let many = (0..CLIENT_TOOLS_MAX * 2).map(|at| offer(&format!("t{at}")));
        assert_eq!(Discovered::of(many.collect()).tools.len(), CLIENT_TOOLS_MAX);
    }
}
