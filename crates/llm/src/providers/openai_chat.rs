//! `openai-chat:NAME`: chat completions, as OpenAI and many other servers speak them.
//!
//! [`request`] is what is asked, [`reply`] what comes back.

use crate::content::{is_about_images, is_about_output};
use crate::dialect::{Asked, Dialect, Extra, Framing, Reply};

mod reply;
mod request;

/// Chat completions.
pub(crate) struct OpenAiChat;

impl Dialect for OpenAiChat {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn body(&self, asked: &Asked<'_>) -> Vec<u8> {
        request::body(asked)
    }

    fn reply(&self) -> Box<dyn Reply> {
        Box::new(reply::ChatReply::default())
    }

    fn may_write_calls(&self) -> bool {
        true
    }

    fn refused_extra(&self, said: &str) -> Option<Extra> {
        // As servers of small models say it; an agent that only talks is better than none.
        let tools = said.contains("does not support tools");
        let tools = tools.then_some(Extra::Tools);
        let limit = is_about_output(said).then_some(Extra::OutputLimit);
        let images = || is_about_images(said).then_some(Extra::Images);
        tools.or(limit).or_else(images)
    }
}
