//! The providers, one file each.

pub(crate) mod offline;
pub(crate) mod openai_chat;
pub(crate) mod script;
