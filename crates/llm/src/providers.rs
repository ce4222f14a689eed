//! The providers, one file each; those behind HTTP are dialects of [`crate::hosted`].

pub(crate) mod anthropic;
mod function;
pub(crate) mod offline;
pub(crate) mod ollama;
pub(crate) mod openai;
pub(crate) mod openai_chat;
pub(crate) mod script;
