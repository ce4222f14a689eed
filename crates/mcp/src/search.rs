//! Finding a tool among many, by words.

use std::cmp::Reverse;
use std::sync::Arc;

use domain::limits::MCP_FOUND_MAX;
use serde_json::{Value, json};
use tools::remote::RemoteTool;

/// What a model calls to search.
pub(crate) const NAME: &str = "tool_search";

/// The tool that finds others, of which there are `count`.
pub(crate) fn tool(count: usize) -> RemoteTool {
    RemoteTool {
        name: NAME.to_owned(),
        title: "Search for tools".to_owned(),
        description: format!(
            "Finds tools of the connected MCP servers by what they do. There are {count} of them, too \
             many to list. You can call the tools that a search has found."
        ),
        input_schema: Arc::new(json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you want to do, in a few words"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MCP_FOUND_MAX,
                    "description": "Number of tools to find",
                },
            },
            "required": ["query"],
        })),
        is_shown: true,
    }
}

/// The tools that `input` asks for, best first.
///
/// # Errors
/// In words for the model, if it asks for nothing.
pub(crate) fn find<'a>(
    input: &Value,
    tools: &'a [RemoteTool],
) -> Result<Vec<&'a RemoteTool>, &'static str> {
    let query = input["query"].as_str().unwrap_or_default().to_lowercase();
    let words: Vec<&str> = words(&query).collect();
    if words.is_empty() {
        return Err("Say in `query` what the tool should do.");
    }
    let limit = input["limit"].as_u64().unwrap_or(MCP_FOUND_MAX as u64);
    let limit = usize::try_from(limit).unwrap_or(MCP_FOUND_MAX);
    let rated = tools.iter().map(|tool| (score(tool, &words), tool));
    let mut rated: Vec<_> = rated.filter(|(score, _)| *score > 0).collect();
    rated.sort_by_key(|(score, tool)| (Reverse(*score), &tool.name));
    let found = rated.into_iter().map(|(_, tool)| tool);
    Ok(found.take(limit.clamp(1, MCP_FOUND_MAX)).collect())
}

/// What the model reads about the tools that were found.
pub(crate) fn told(found: &[&RemoteTool]) -> String {
    if found.is_empty() {
        return "No tool was found; try other words.".to_owned();
    }
    let lines = found.iter().map(|tool| {
        let first = tool.description.lines().next().unwrap_or_default();
        format!("{}: {first}\n", tool.name)
    });
    let lines: String = lines.collect();
    format!("These tools can be called now:\n{}", lines.trim_end())
}

/// How well a tool fits: a word in its name counts more than one in its description.
fn score(tool: &RemoteTool, wanted: &[&str]) -> usize {
    let (name, said) = (tool.name.to_lowercase(), tool.description.to_lowercase());
    let one = |word: &&str| {
        let in_name = words(&name).any(|part| part == *word);
        match (in_name, name.contains(*word), said.contains(*word)) {
            (true, _, _) => 8,
            (false, true, _) => 4,
            (false, false, true) => 1,
            (false, false, false) => 0,
        }
    };
    wanted.iter().map(one).sum()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{find, tool};

    #[test]
    fn a_tool_is_found_by_its_name_before_its_description() {
        let named = |name: &str, description: &str| {
            let (name, description) = (name.to_owned(), description.to_owned());
            tools::remote::RemoteTool {
                name,
                description,
                ..tool(0)
            }
        };
        let tools = [
            named("mcp__a__create_issue", "Makes one."),
            named("mcp__a__list", "Lists every issue."),
            named("mcp__b__weather", "Tells the weather."),
        ];
        let names = |input| -> Vec<String> {
            let found = find(&input, &tools).unwrap();
            found.iter().map(|tool| tool.name.clone()).collect()
        };
        let both = ["mcp__a__create_issue", "mcp__a__list"];
        assert_eq!(names(json!({"query": "Issue"})), both);
        assert_eq!(names(json!({"query": "issue", "limit": 1})), both[..1]);
        assert!(names(json!({"query": "piano"})).is_empty());
        assert!(find(&json!({"query": " - "}), &tools).is_err());
    }
}
