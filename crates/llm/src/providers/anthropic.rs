//! `anthropic:NAME`: Anthropic's Messages API.
//!
//! [`request`] is what is asked, [`reply`] what comes back, [`thinking`] who thinks how.

use crate::content::is_about_images;
use crate::dialect::{Asked, Dialect, Extra, Framing, Reply};

mod reply;
mod request;
mod thinking;

/// Messages.
pub(crate) struct Anthropic;

impl Dialect for Anthropic {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn body(&self, asked: &Asked<'_>) -> Vec<u8> {
        request::body(asked)
    }

    fn reply(&self) -> Box<dyn Reply> {
        Box::new(reply::MessagesReply::default())
    }

    fn refused_extra(&self, said: &str) -> Option<Extra> {
        let thoughts = said.contains("thinking").then_some(Extra::Thoughts);
        thoughts.or_else(|| is_about_images(said).then_some(Extra::Images))
    }
}
