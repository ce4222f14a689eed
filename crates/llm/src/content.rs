//! A prompt's ACP content blocks as the few kinds of parts that models take.

use std::borrow::Cow;

use serde_json::Value;

use crate::dialect::Extras;
use crate::model::ToolOutcome;

/// What a prompt is made of, for every provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Text(Cow<'a, str>),
    /// An image, in base64.
    Image {
        mime: &'a str,
        data: &'a str,
    },
}

/// The kinds of images that all providers take.
const IMAGE_KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The parts of a prompt. One of plain text is one part, its text; what no model can be given is
/// named instead.
pub(crate) fn parts<'a>(text: &'a str, blocks: &'a [Value]) -> Vec<Part<'a>> {
    if is_plain(blocks) {
        return vec![Part::Text(text.into())];
    }
    let mut parts: Vec<Part<'a>> = blocks.iter().map(part).collect();
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        parts.push(Part::Text(text.into()));
    }
    parts
}

impl Part<'_> {
    /// Whether it is a text without a word.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Image { .. } => false,
        }
    }
}

/// Whether a prompt is nothing but its text.
pub(crate) fn is_plain(blocks: &[Value]) -> bool {
    blocks.iter().all(|block| kind(block) == "text")
}

/// The type of a content block. It is nearly always the first field, and each prompt of the
/// conversation is asked for it before every call: comparing is cheaper than hashing.
pub(crate) fn kind(block: &Value) -> &str {
    let mut fields = block.as_object().into_iter().flatten();
    let found = fields.find(|(name, _)| *name == "type");
    found.and_then(|(_, kind)| kind.as_str()).unwrap_or("")
}

/// What a model is told of a call's end: words, and images if it is shown those.
pub(crate) fn found(outcome: &ToolOutcome, extras: Extras) -> (Cow<'_, str>, Vec<Part<'_>>) {
    let is_image = |part: &Part<'_>| matches!(part, Part::Image { .. });
    let images: Vec<Part<'_>> = outcome.images.iter().map(part).filter(is_image).collect();
    match extras.images || images.is_empty() {
        true => (Cow::from(&outcome.text), images),
        false => (
            format!("{}\n[You cannot see images.]", outcome.text).into(),
            Vec::new(),
        ),
    }
}

/// The same, where an outcome has no other sign that it is a bad one.
pub(crate) fn found_or_failed(
    outcome: &ToolOutcome,
    extras: Extras,
) -> (Cow<'_, str>, Vec<Part<'_>>) {
    let (text, images) = found(outcome, extras);
    match outcome.failed {
        true => (format!("The tool did not succeed: {text}").into(), images),
        false => (text, images),
    }
}

/// Whether what a server said, in lower case, is about images.
pub(crate) fn is_about_images(said: &str) -> bool {
    ["image", "vision", "multimodal"]
        .iter()
        .any(|word| said.contains(word))
}

/// Whether a refusal is about how long the answer may be. `said` is in lower case.
pub(crate) fn is_about_output(said: &str) -> bool {
    [
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "in the completion",
    ]
    .iter()
    .any(|word| said.contains(word))
}

fn part(block: &Value) -> Part<'_> {
    let field = |name: &str| block[name].as_str().unwrap_or("");
    match kind(block) {
        "text" => Part::Text(field("text").into()),
        "image" => image(field("mimeType"), field("data"), field("uri")),
        "resource" => resource(&block["resource"]),
        "resource_link" => Part::Text(format!("[{}]({})", field("name"), field("uri")).into()),
        "audio" => Part::Text("[sound, which the model cannot hear]".into()),
        other => Part::Text(format!("[content of type {other}]").into()),
    }
}

fn resource(resource: &Value) -> Part<'_> {
    let field = |name: &str| resource[name].as_str().unwrap_or("");
    let uri = field("uri");
    match resource["text"].as_str() {
        Some(text) => Part::Text(format!("<resource uri=\"{uri}\">\n{text}\n</resource>").into()),
        None if field("mimeType").starts_with("image/") => {
            image(field("mimeType"), field("blob"), uri)
        }
        None => Part::Text(format!("[attached, not text: {uri}]").into()),
    }
}

fn image<'a>(mime: &'a str, data: &'a str, uri: &str) -> Part<'a> {
    if !data.is_empty() && IMAGE_KINDS.contains(&mime) {
        return Part::Image { mime, data };
    }
    Part::Text(format!("[image that the model cannot see: {mime} {uri}]").into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Part, parts};

    fn text(text: &str) -> Part<'_> {
        Part::Text(text.into())
    }

    #[test]
    fn plain_text_is_one_part() {
        let blocks = [
            json!({"type": "text", "text": "a"}),
            json!({"type": "text", "text": "b"}),
        ];
        assert_eq!(parts("ab", &blocks), [text("ab")]);
        assert_eq!(parts("ab", &[]), [text("ab")]);
    }

    #[test]
    fn images_are_shown_resources_quoted_and_the_rest_named() {
        let image = |mime: &str| json!({"type": "image", "mimeType": mime, "data": "QUJD"});
        let table: [(Value, Part<'_>); 8] = [
            (
                image("image/png"),
                Part::Image {
                    mime: "image/png",
                    data: "QUJD",
                },
            ),
            (
                image("image/tiff"),
                text("[image that the model cannot see: image/tiff ]"),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:a", "text": "A"}}),
                text("<resource uri=\"file:a\">\nA\n</resource>"),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:a", "mimeType": "image/webp", "blob": "QUJD"}}),
                Part::Image {
                    mime: "image/webp",
                    data: "QUJD",
                },
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:a", "blob": "QUJD"}}),
                text("[attached, not text: file:a]"),
            ),
            (
                json!({"type": "resource_link", "name": "b", "uri": "file:b"}),
                text("[b](file:b)"),
            ),
            (
                json!({"type": "audio", "mimeType": "audio/wav", "data": "QUJD"}),
                text("[sound, which the model cannot hear]"),
            ),
            (json!({"type": "new"}), text("[content of type new]")),
        ];
        for (block, expected) in &table {
            let words = json!({"type": "text", "text": "see"});
            let blocks = [words, block.clone()];
            let shown = parts("see", &blocks);
            assert_eq!(shown, [text("see"), expected.clone()], "{block}");
        }
    }
}
