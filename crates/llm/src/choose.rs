//! Which model answers: what was asked for, else a key, else a local server, else `offline`.

use std::path::PathBuf;
use std::sync::Arc;

use domain::Limits;

use crate::catalog::Models;
use crate::known::{ANTHROPIC_OFFERED, OPENAI_OFFERED};
use crate::model::Provider;
use crate::probe::{self, LocalServer};
use crate::providers::offline::OfflineProvider;
use crate::providers::script::ScriptError;
use crate::secret::Secret;
use crate::sources::Sources;

/// What the program was told about models. An empty text counts as not set.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    /// The model that was asked for.
    pub spec: Option<String>,
    /// Where it was asked for, in words: `--model`, a variable, or a file.
    pub spec_from: Option<String>,
    /// `ANTHROPIC_API_KEY`.
    pub anthropic_key: Option<Secret>,
    /// `ANTHROPIC_BASE_URL`.
    pub anthropic_base: Option<String>,
    /// `OPENAI_API_KEY`.
    pub openai_key: Option<Secret>,
    /// `OPENAI_BASE_URL`, with or without `/v1`.
    pub openai_base: Option<String>,
    /// `OLLAMA_HOST`, as Ollama itself takes it.
    pub ollama_host: Option<String>,
    /// Tokens that fit into one call, for models of which that is not known or set otherwise.
    pub context_window: Option<u64>,
    /// Certificate authorities to trust besides the public ones, in PEM.
    pub ca_file: Option<PathBuf>,
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
    #[error("{form} needs {key}, or {base} for a server that wants no key")]
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
    #[error("{file} holds no certificates in PEM that can be read")]
    Authorities {
        /// The file.
        file: String,
    },
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
    let (provider, why) = first_of(&sources, local_servers).await?;
    let models = Arc::new(Models::new(sources, Arc::clone(&provider)));
    Ok(Choice {
        provider,
        why,
        models,
    })
}

/// The first of what there is, and why.
async fn first_of(
    sources: &Sources,
    local_servers: &[LocalServer],
) -> Result<(Arc<dyn Provider>, String), ChooseError> {
    if let Some(spec) = sources.spec() {
        let why = match sources.spec_from() {
            Some(place) => format!("set by {place}"),
            None => "it was asked for".to_owned(),
        };
        return Ok((sources.by_spec(spec)?, why));
    }
    let keys = [
        (
            sources.has_anthropic(),
            "ANTHROPIC_API_KEY",
            "anthropic",
            ANTHROPIC_OFFERED,
        ),
        (
            sources.has_openai() && sources.is_at_openai(),
            "OPENAI_API_KEY",
            "openai",
            OPENAI_OFFERED,
        ),
    ];
    for (is_set, key, form, offered) in keys {
        if let Some(name) = offered.first().filter(|_| is_set) {
            let provider = sources.by_spec(&format!("{form}:{name}"))?;
            return Ok((provider, format!("{key} is set")));
        }
    }
    if !sources.is_at_openai() {
        let why = "it is the first that OPENAI_BASE_URL lists";
        return Ok((sources.first_listed().await?, why.to_owned()));
    }
    if let Some(found) = probe::first(local_servers, &sources.ollama()).await {
        let why = format!("{} answers on this machine", found.server);
        return Ok((sources.local(&found)?, why));
    }
    let why = "no Anthropic or OpenAI key and no local model server found";
    Ok((Arc::new(OfflineProvider), why.to_owned()))
}

#[cfg(test)]
mod tests;
