//! `openai:NAME`: OpenAI's Responses API.
//!
//! [`request`] is what is asked, [`reply`] what comes back. Nothing is stored at OpenAI: a model's
//! reasoning comes sealed and is given back in the same way.

use crate::content::{is_about_images, is_about_output};
use crate::dialect::{Asked, Dialect, Extra, Framing, Reply};

mod reply;
mod request;

/// Responses.
pub(crate) struct OpenAi;

impl Dialect for OpenAi {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn body(&self, asked: &Asked<'_>) -> Vec<u8> {
        request::body(asked)
    }

    fn reply(&self) -> Box<dyn Reply> {
        Box::new(reply::ResponsesReply::default())
    }

    fn refused_extra(&self, said: &str) -> Option<Extra> {
        // Others that speak Responses do not all know it.
        if said.contains("prompt_cache_key") {
            return Some(Extra::CacheKey);
        }
        if is_about_output(said) {
            return Some(Extra::OutputLimit);
        }
        // Models that do not reason, and organisations that may not see summaries.
        let names = ["reasoning", "encrypted content", "encrypted_content"];
        let is_named = names.iter().any(|name| said.contains(name));
        let thoughts = is_named.then_some(Extra::Thoughts);
        thoughts.or_else(|| is_about_images(said).then_some(Extra::Images))
    }
}
