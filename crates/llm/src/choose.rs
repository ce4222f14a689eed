//! Which model answers: what was asked for, else a key, else a local server, else `offline`.

use std::sync::Arc;

use domain::Limits;
use egress::{Proxies, Roots, RootsError};

use crate::catalog::Models;
use crate::known::{ANTHROPIC_OFFERED, OPENAI_OFFERED};
use crate::model::Provider;
use crate::probe::{self, LocalServer};
use crate::providers::offline::OfflineProvider;
use crate::providers::script::ScriptError;
use crate::secret::Key;
use crate::sources::Sources;

/// What the program was told about models. An empty text counts as not set.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    /// The model that was asked for.
    pub spec: Option<String>,
    /// Where it was asked for, in words: `--model`, a variable, or a file.
    pub spec_from: Option<String>,
    /// The key for Anthropic.
    pub anthropic_key: Option<Key>,
    /// `ANTHROPIC_BASE_URL`.
    pub anthropic_base: Option<String>,
    /// The key for OpenAI, or a server that is like it.
    pub openai_key: Option<Key>,
    /// `OPENAI_BASE_URL`, with or without `/v1`.
    pub openai_base: Option<String>,
    /// `OLLAMA_HOST`, as Ollama itself takes it.
    pub ollama_host: Option<String>,
    /// Tokens that fit into one call, for models of which that is not known or set otherwise.
    pub context_window: Option<u64>,
    /// Which certificates are trusted.
    pub roots: Roots,
    /// Which proxy is used.
    pub proxies: Proxies,
    /// Deadlines.
    pub limits: Limits,
}

/// The provider that was chosen.
#[derive(Clone)]
pub struct Choice {
    /// Where models come from.
    pub provider: Arc<dyn Provider>,
    /// A short clause for people, such as `OPENAI_API_KEY is set`.
    pub why: String,
    /// Whether nothing was set and nothing was found, so that the embedded assistant answers.
    pub is_fallback: bool,
    /// The models that this process can switch to.
    pub models: Arc<Models>,
}

/// The model that was asked for cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// The spec has no form that we know.
    #[error(
        "`{spec}` names no model; use anthropic:NAME, openai:NAME, openai-chat:NAME, \
         ollama:NAME, script:FILE or offline"
    )]
    UnknownSpec {
        /// What was given.
        spec: String,
    },
    /// Nothing says where to send requests.
    #[error(
        "{form} needs {key} or `fastness login {form}`, or {base} for a server that wants no key"
    )]
    NoKey {
        /// The part before the colon.
        form: &'static str,
        /// The variable for the key.
        key: &'static str,
        /// The variable for the base.
        base: &'static str,
    },
    /// The base is no http or https URL.
    #[error("{variable} is not an http or https URL")]
    NotABase {
        /// Where it was set.
        variable: &'static str,
    },
    /// Another server takes the place of OpenAI, and nothing says which of its models to use.
    #[error(
        "{variable} leads to a server that did not say which models it has; name one with \
         --model openai-chat:NAME"
    )]
    NoModelListed {
        /// Where the server was set.
        variable: &'static str,
    },
    /// There are no certificates to trust in the file for them.
    #[error(transparent)]
    Authorities(#[from] RootsError),
    /// Somebody who may only choose from the list chose something else.
    #[error("this model is not on offer here")]
    NotOffered,
    /// The script cannot be played.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// Chooses the provider.
///
/// Takes no time when a model was asked for. Else a server that takes the place of OpenAI is asked
/// which models it has; and only if nothing is set does it look for a model server on this machine,
/// for 300 ms at most.
///
/// # Errors
/// If the model that was asked for cannot be used.
pub async fn choose(settings: ModelSettings) -> Result<Choice, ChooseError> {
    choose_among(settings, probe::KNOWN).await
}

async fn choose_among(
    settings: ModelSettings,
    local_servers: &[LocalServer],
) -> Result<Choice, ChooseError> {
    let sources = Sources::new(settings)?;
    let found = first_of(&sources, local_servers).await?;
    let is_fallback = found.is_none();
    let (provider, why) = found.unwrap_or_else(|| {
        let why = "no Anthropic or OpenAI key and no local model server found";
        (Arc::new(OfflineProvider), why.to_owned())
    });
    let models = Arc::new(Models::new(sources, Arc::clone(&provider)));
    Ok(Choice {
        provider,
        why,
        is_fallback,
        models,
    })
}

/// The first of what there is, and why; `None` if there is nothing.
async fn first_of(
    sources: &Sources,
    local_servers: &[LocalServer],
) -> Result<Option<(Arc<dyn Provider>, String)>, ChooseError> {
    if let Some(spec) = sources.spec() {
        let why = match sources.spec_from() {
            Some(place) => format!("set by {place}"),
            None => "it was asked for".to_owned(),
        };
        return Ok(Some((sources.by_spec(spec)?, why)));
    }
    let keys = [
        (sources.anthropic_key(), "anthropic", ANTHROPIC_OFFERED),
        (
            sources.openai_key().filter(|_| sources.is_at_openai()),
            "openai",
            OPENAI_OFFERED,
        ),
    ];
    for (key, form, offered) in keys {
        if let (Some(key), Some(name)) = (key, offered.first()) {
            let provider = sources.by_spec(&format!("{form}:{name}"))?;
            return Ok(Some((provider, key.source.clone())));
        }
    }
    if !sources.is_at_openai() {
        let why = "it is the first that OPENAI_BASE_URL lists";
        return Ok(Some((sources.first_listed().await?, why.to_owned())));
    }
    if let Some(found) = probe::first(local_servers, &sources.ollama()).await {
        let why = format!("{} answers on this machine", found.server);
        return Ok(Some((sources.local(&found)?, why)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
