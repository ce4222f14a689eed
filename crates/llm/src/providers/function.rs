//! Tools as those providers are told of them that call a tool a function: chat completions and Ollama.

use serde::Serialize;

use crate::dialect::Asked;
use crate::model::ToolSpec;
use crate::schema::Schema;

/// One tool.
#[derive(Serialize)]
pub(super) struct Function<'a> {
    r#type: &'static str,
    function: Described<'a>,
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Schema,
}

impl<'a> Function<'a> {
    /// The tools of a request, if the model can have some.
    pub(super) fn all(asked: &Asked<'a>) -> Vec<Self> {
        let tools = asked.request.tools.iter().filter(|_| asked.extras.tools);
        tools.map(Self::of).collect()
    }

    fn of(tool: &'a ToolSpec) -> Self {
        Self {
            r#type: "function",
            function: Described {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
            },
        }
    }
}
