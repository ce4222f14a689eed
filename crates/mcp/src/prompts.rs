//! Prompts that servers have prepared, as commands that a person types.

use domain::limits::{MCP_DESCRIPTION_BYTES_MAX, MCP_LIST_WAIT, MCP_PAGES_MAX, MCP_PROMPTS_MAX};
use rmcp::model::{
    ContentBlock, GetPromptRequestParams, PaginatedRequestParams, Prompt, ResourceContents, Role,
};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tools::output::Output;
use tools::remote::RemoteCommand;

use crate::error::{CallError, quoted};
use crate::link::Link;
use crate::names::offered_name;

/// A prompt as a person is offered it.
pub(crate) fn command(server: &str, prompt: &Prompt) -> RemoteCommand {
    let said = prompt.description.as_deref().or(prompt.title.as_deref());
    let said = quoted(said.unwrap_or(&prompt.name));
    let end = said.floor_char_boundary(MCP_DESCRIPTION_BYTES_MAX);
    let arguments = prompt.arguments.iter().flatten();
    let hints = arguments.map(|argument| match argument.required {
        Some(true) => quoted(&argument.name),
        Some(false) | None => format!("[{}]", quoted(&argument.name)),
    });
    let hint = hints.collect::<Vec<_>>().join(" ");
    RemoteCommand {
        name: offered_name(server, &prompt.name),
        description: said[..end].to_owned(),
        hint: (!hint.is_empty()).then_some(hint),
    }
}

impl Link {
    /// The prompts that the server has prepared, as far as pages and prompts may go.
    ///
    /// # Errors
    /// If a page does not come.
    pub(crate) async fn prompts(&self) -> Result<Vec<Prompt>, CallError> {
        let info = self.peer().peer_info();
        if info.is_none_or(|info| info.capabilities.prompts.is_none()) {
            return Ok(Vec::new());
        }
        let (mut prompts, mut cursor) = (Vec::new(), None);
        for _ in 0..MCP_PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = timeout(MCP_LIST_WAIT, self.peer().list_prompts(Some(page)));
            let page = tokio::select! {
                page = page => page.map_err(|_| CallError::TooLong(MCP_LIST_WAIT))?,
                () = self.life().ended() => return Err(CallError::Closed(self.life().why())),
            };
            let page = page.map_err(|error| self.failure(error))?;
            prompts.extend(page.prompts);
            cursor = page.next_cursor;
            if cursor.is_none() || prompts.len() >= MCP_PROMPTS_MAX {
                break;
            }
        }
        prompts.truncate(MCP_PROMPTS_MAX);
        Ok(prompts)
    }

    /// What the prompt that is offered as `name` says with what was typed after it.
    ///
    /// # Errors
    /// In words for a person, if there is no such prompt or the server does not give it.
    pub(crate) async fn expand(
        &self,
        (server, name): (&str, &str),
        typed: &str,
    ) -> Result<String, String> {
        let prompts = self.prompts().await.map_err(|error| error.to_string())?;
        let mut prompts = prompts.into_iter();
        let prompt = prompts.find(|prompt| offered_name(server, &prompt.name) == name);
        let Some(prompt) = prompt else {
            return Err("it has no such prompt".to_owned());
        };
        let mut params = GetPromptRequestParams::new(prompt.name.clone());
        params.arguments = arguments(&prompt, typed)?;
        let getting = timeout(MCP_LIST_WAIT, self.peer().get_prompt(params));
        let got = tokio::select! {
            got = getting => got.map_err(|_| CallError::TooLong(MCP_LIST_WAIT).to_string())?,
            () = self.life().ended() => return Err(self.life().why()),
        };
        let got = got.map_err(|error| self.failure(error).to_string())?;
        let mut said = Output::new(std::path::PathBuf::new());
        for message in got.messages {
            if message.role == Role::Assistant {
                said.push(b"[said by the assistant] ");
            }
            said.push(words(message.content).as_bytes());
            said.push(b"\n");
        }
        Ok(said.shown().trim_end().to_owned())
    }
}

/// What was typed, as the arguments of a prompt in their order; the last takes all that is left.
fn arguments(prompt: &Prompt, typed: &str) -> Result<Option<Map<String, Value>>, String> {
    let wanted = prompt.arguments.as_deref().unwrap_or_default();
    let (mut given, mut rest) = (Map::new(), typed.trim());
    for (at, argument) in wanted.iter().enumerate() {
        let is_last = at + 1 == wanted.len();
        let (value, left) = match rest.split_once(char::is_whitespace) {
            Some((word, left)) if !is_last => (word, left.trim_start()),
            Some(_) | None => (rest, ""),
        };
        rest = left;
        if !value.is_empty() {
            given.insert(argument.name.clone(), Value::from(value));
        } else if argument.required == Some(true) {
            return Err(format!("it needs {}", quoted(&argument.name)));
        }
    }
    Ok((!given.is_empty()).then_some(given))
}

/// A block of a prompt in words.
fn words(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource {}]\n{text}", quoted(&uri))
            }
            ResourceContents::BlobResourceContents { .. } | _ => {
                "[a resource that is no text]".to_owned()
            }
        },
        ContentBlock::ResourceLink(link) => {
            format!("[link to the resource {}]", quoted(&link.uri))
        }
        ContentBlock::Image(_) | ContentBlock::Audio(_) | _ => {
            "[content that is no text]".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{Prompt, PromptArgument};
    use serde_json::json;

    use super::{arguments, command};

    fn prompt() -> Prompt {
        let required = |name: &str, required| PromptArgument::new(name).with_required(required);
        let wanted = vec![required("city", true), required("state", false)];
        Prompt::new("trip", Some("Plans\na trip"), Some(wanted))
    }

    #[test]
    fn what_is_typed_becomes_arguments_in_their_order() {
        let given = |typed| arguments(&prompt(), typed).map(|given| json!(given));
        assert_eq!(
            given(" Paris  all of it "),
            Ok(json!({"city": "Paris", "state": "all of it"}))
        );
        assert_eq!(given("Paris"), Ok(json!({"city": "Paris"})));
        assert_eq!(given("  "), Err("it needs city".to_owned()));
    }

    #[test]
    fn a_prompt_is_offered_with_what_it_wants() {
        let offered = command("s", &prompt());
        assert_eq!(offered.name, "mcp__s__trip");
        assert_eq!(offered.description, "Plans a trip");
        assert_eq!(offered.hint.as_deref(), Some("city [state]"));
    }
}
