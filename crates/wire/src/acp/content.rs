//! Content blocks: as text for a model, and as values that any ACP client accepts.

use agent_client_protocol_schema::v1::{ContentBlock, EmbeddedResourceResource, ToolCallContent};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rpc::RpcError;

/// Appends what `block` says to `text`.
///
/// Text stands as it is, links as Markdown, embedded text between tags that name its source. An
/// image is only named: models get it from the block. Sound was not offered at `initialize` and is
/// refused.
pub(super) fn push_text(text: &mut String, block: &ContentBlock) -> Result<(), RpcError> {
    match block {
        ContentBlock::Text(content) => text.push_str(&content.text),
        ContentBlock::ResourceLink(link) => {
            text.extend(["[", &link.name, "](", &link.uri, ")"]);
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(embedded) => text.extend([
                "\n<resource uri=\"",
                &embedded.uri,
                "\">\n",
                &embedded.text,
                "\n</resource>\n",
            ]),
            EmbeddedResourceResource::BlobResourceContents(embedded) => {
                text.extend(["[binary resource](", &embedded.uri, ")"]);
            }
            _ => return Err(not_taken()),
        },
        ContentBlock::Image(_) => text.push_str("[image]"),
        ContentBlock::Audio(_) => return Err(not_taken()),
        _ => return Err(not_taken()),
    }
    Ok(())
}

/// A stored value as a content block that can be sent, if it is one.
///
/// Journals may have been written by other tools or versions, so this is checked on the way out.
pub(super) fn block(stored: &Value) -> Option<Value> {
    let block = ContentBlock::deserialize(stored).ok()?;
    serde_json::to_value(block).ok()
}

/// A stored block of a tool result as an item of a tool call's content, if it can be one.
///
/// Terminals are left out: what is stored is replayed when they are long gone.
pub(super) fn tool_content(stored: &Value) -> Option<Value> {
    if let Some(block) = block(stored) {
        return Some(json!({"type": "content", "content": block}));
    }
    match ToolCallContent::deserialize(stored) {
        Ok(ToolCallContent::Terminal(_)) | Err(_) => None,
        Ok(content) => serde_json::to_value(content).ok(),
    }
}

/// A text block that borrows its text.
#[derive(serde::Serialize)]
#[serde(tag = "type", rename = "text")]
pub(super) struct TextBlock<'a> {
    pub(super) text: &'a str,
}

fn not_taken() -> RpcError {
    RpcError::invalid_params("the prompt has a kind of content that this agent does not take")
}
