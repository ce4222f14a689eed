//! `ollama:NAME`: Ollama's own chat interface, one JSON object per line.
//!
//! It can be told how much context to keep; through its compatible interface it would silently cut
//! off what it has no room for.

use crate::content::is_about_images;
use crate::dialect::{Asked, Dialect, Extra, Framing, Reply};
use crate::window;

mod reply;
mod request;

/// Tokens of context that are asked for if nothing else is set: an agent's instructions, tools and
/// some files fit, and so does the memory it takes on most machines.
pub(crate) const WINDOW: u64 = 32_768;

/// Ollama's chat.
pub(crate) struct Ollama;

impl Dialect for Ollama {
    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn body(&self, asked: &Asked<'_>) -> Vec<u8> {
        request::body(asked)
    }

    fn reply(&self) -> Box<dyn Reply> {
        Box::new(reply::OllamaReply::default())
    }

    fn windows(&self) -> &'static [window::Source] {
        window::OLLAMA
    }

    fn may_write_calls(&self) -> bool {
        true
    }

    fn refused_extra(&self, said: &str) -> Option<Extra> {
        if said.contains("does not support thinking") {
            Some(Extra::Thoughts)
        } else if said.contains("does not support tools") {
            Some(Extra::Tools)
        } else {
            is_about_images(said).then_some(Extra::Images)
        }
    }
}
