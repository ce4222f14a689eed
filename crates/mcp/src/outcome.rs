//! What a server's result is to the model and to people.

use domain::limits::{IMAGE_BYTES_MAX, MCP_BLOCKS_MAX, MCP_SCHEMA_BYTES_MAX};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ResourceContents};
use serde_json::{Value, json};
use tools::Outcome;
use tools::output::Output;

use crate::error::{CallError, quoted};

/// The outcome of a call that has a result. What it says in a structured form must be of the form
/// that its server has announced.
pub(crate) fn of_result(
    result: CallToolResult,
    schema: Option<&JsonObject>,
    mut output: Output,
) -> Outcome {
    let is_error = result.is_error.unwrap_or(false);
    let mut blocks = Vec::new();
    let left_out = result.content.len().saturating_sub(MCP_BLOCKS_MAX);
    let mut has_text = false;
    for block in result.content.into_iter().take(MCP_BLOCKS_MAX) {
        let (text, shown) = read(block);
        has_text |= !text.is_empty();
        if !text.is_empty() {
            output.push(text.as_bytes());
            output.push(b"\n");
        }
        blocks.extend(shown);
    }
    if left_out > 0 {
        output.push(format!("[{left_out} more blocks left out]\n").as_bytes());
    }
    if let Some(structured) = &result.structured_content {
        if let (Some(schema), false) = (schema, is_error)
            && let Err(problem) = check(structured, schema)
        {
            return Outcome::failed(format!(
                "The server's result is not of the form that it has announced: {problem}"
            ));
        }
        // Servers repeat it as text for those who cannot read it.
        if !has_text {
            output.push(structured.to_string().as_bytes());
        }
    } else if schema.is_some() && !is_error {
        return Outcome::failed(
            "The server's result lacks the structured content that it has announced.",
        );
    }
    let text = output.shown();
    let text = text.trim_end();
    let outcome = match (is_error, text.is_empty()) {
        (true, true) => Outcome::failed("The tool failed and did not say why."),
        (true, false) => Outcome::failed(text),
        (false, true) => Outcome::completed("(no output)"),
        (false, false) => Outcome::completed(text),
    };
    Outcome { blocks, ..outcome }
}

/// The outcome of a call that has none.
pub(crate) fn of_error(server: &str, error: &CallError) -> Outcome {
    let text = format!("{server}: {error}.");
    match error.may_have_run() {
        true => Outcome::unknown(format!("{text} The tool may have run or not.")),
        false => Outcome::failed(text),
    }
}

/// A block as text for the model, and as something for people where there is more to see.
fn read(block: ContentBlock) -> (String, Option<Value>) {
    match block {
        ContentBlock::Text(text) => (text.text, None),
        ContentBlock::Image(image) => media("image", &image.mime_type, image.data),
        ContentBlock::Audio(audio) => media("audio", &audio.mime_type, audio.data),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                (format!("[resource {}]\n{text}", quoted(&uri)), None)
            }
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                let bytes = blob.len() / 4 * 3;
                (
                    format!("[resource {}, {bytes} bytes of data]", quoted(&uri)),
                    None,
                )
            }
            _ => ("[a resource of an unknown kind]".to_owned(), None),
        },
        ContentBlock::ResourceLink(link) => {
            let shown = json!({"type": "content", "content": {
                "type": "resource_link", "uri": link.uri, "name": link.name,
            }});
            let (name, uri) = (quoted(&link.name), quoted(&link.uri));
            (format!("[link to the resource {name}: {uri}]"), Some(shown))
        }
        _ => ("[content of an unknown kind]".to_owned(), None),
    }
}

fn media(kind: &str, mime_type: &str, data: String) -> (String, Option<Value>) {
    let text = format!(
        "[{kind} {}, {} bytes]",
        quoted(mime_type),
        data.len() / 4 * 3
    );
    let shown = (data.len() <= IMAGE_BYTES_MAX).then(|| {
        json!({"type": "content", "content": {
            "type": kind, "mimeType": mime_type, "data": data,
        }})
    });
    (text, shown)
}

/// Whether `value` is of the form that `schema` describes; what is wrong if not.
fn check(value: &Value, schema: &JsonObject) -> Result<(), String> {
    let schema = Value::Object(schema.clone());
    // One so long is not looked at; its tool is not offered.
    if schema.to_string().len() > MCP_SCHEMA_BYTES_MAX {
        return Ok(());
    }
    // A schema that is wrong, or refers to others, is the server's mistake and says nothing.
    let Ok(validator) = jsonschema::validator_for(&schema) else {
        return Ok(());
    };
    validator.validate(value).map_err(|error| {
        let (at, problem) = (error.instance_path().to_string(), error.to_string());
        quoted(&match at.is_empty() {
            true => problem,
            false => format!("{problem} (at {at})"),
        })
    })
}

#[cfg(test)]
mod tests {
    use domain::event::ToolStatus;
    use domain::limits::{IMAGE_BYTES_MAX, MCP_BLOCKS_MAX};
    use serde_json::{Value, json};
    use tools::Outcome;
    use tools::output::Output;

    use super::of_result;

    fn read(result: Value, schema: Option<Value>) -> Outcome {
        let output = Output::new(std::path::PathBuf::new());
        let result = serde_json::from_value(result).unwrap();
        let schema = schema.map(|schema| schema.as_object().unwrap().clone());
        of_result(result, schema.as_ref(), output)
    }

    #[test]
    fn a_result_in_a_form_has_that_form_unless_it_is_an_error() {
        let schema = || Some(json!({"type": "object", "required": ["n"]}));
        let content = json!([{"type": "text", "text": "said"}]);
        let formless = read(json!({"content": content}), schema());
        assert_eq!(formless.status, ToolStatus::Failed);
        assert!(formless.text.contains("lacks the structured content"));
        let wrong = json!({"content": content, "structuredContent": {"m": 1}});
        assert_eq!(read(wrong, schema()).status, ToolStatus::Failed);
        let right = json!({"content": content, "structuredContent": {"n": 1}});
        assert_eq!(read(right, schema()).text, "said");
        let error = read(json!({"content": content, "isError": true}), schema());
        assert_eq!((error.status, &*error.text), (ToolStatus::Failed, "said"));
    }

    #[test]
    fn of_too_much_the_beginning_is_told_and_what_is_no_text_is_named() {
        let many = vec![json!({"type": "text", "text": "x"}); MCP_BLOCKS_MAX + 3];
        let many = read(json!({"content": many}), None).text;
        assert!(many.ends_with("[3 more blocks left out]"), "{many}");
        for (length, is_shown) in [(IMAGE_BYTES_MAX, true), (IMAGE_BYTES_MAX + 1, false)] {
            let data = "A".repeat(length);
            let image = json!({"type": "image", "mimeType": "image/png", "data": data});
            let image = read(json!({"content": [image]}), None);
            assert!(
                image.text.starts_with("[image image/png,"),
                "{}",
                image.text
            );
            assert_eq!(image.blocks.len(), usize::from(is_shown), "{length}");
        }
    }
}
