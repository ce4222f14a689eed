//! Which model answers: what was asked for, else a key, else a local server, else `offline`.

use std::sync::Arc;

use domain::Limits;

use crate::model::Provider;
use crate::probe::{self, Found, LocalServer};
use crate::providers::offline::OfflineProvider;
use crate::providers::openai_chat::OpenAiChat;
use crate::providers::script::{ScriptError, ScriptProvider};
use crate::secret::Secret;

/// Where OpenAI itself is.
const OPENAI_BASE: &str = "https://api.openai.com/v1";

/// The model taken when there is a key and nothing else: quick, cheap, and good with tools.
const OPENAI_DEFAULT_MODEL: &str = "gpt-5-mini";

/// What the program was told about models. An empty text counts as not set.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    /// `--model` or `FASTNESS_MODEL`.
    pub spec: Option<String>,
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
}

/// The model that was asked for cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// The spec has no form that we know.
    #[error(
        "`{spec}` names no model; use openai-chat:NAME, ollama:NAME, script:FILE or offline \
         (anthropic:NAME and openai:NAME are to come)"
    )]
    UnknownSpec {
        /// What was given.
        spec: String,
    },
    /// The form is known, but this version cannot speak to that provider.
    #[error(
        "`{form}:` is not built yet; use openai-chat:NAME with OPENAI_API_KEY, and \
         OPENAI_BASE_URL for another compatible server"
    )]
    NotBuilt {
        /// The part before the colon.
        form: String,
    },
    /// Nothing says where to send requests.
    #[error("openai-chat needs OPENAI_API_KEY, or OPENAI_BASE_URL for a server that wants no key")]
    NoKey,
    /// The base is no http or https URL.
    #[error("{variable} is not an http or https URL")]
    NotABase {
        /// Where it was set.
        variable: &'static str,
    },
    /// The script cannot be played.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// Chooses the provider.
///
/// Takes no time when a model was asked for. Only if nothing is set does it look for a model
/// server on this machine, for 300 ms at most.
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
    let chooser = Chooser::new(settings);
    if let Some(spec) = &chooser.spec {
        return Ok(Choice {
            provider: chooser.by_spec(spec)?,
            why: "set by --model or FASTNESS_MODEL".to_owned(),
        });
    }
    if chooser.openai_key.is_some() {
        return Ok(Choice {
            provider: chooser.openai_chat(OPENAI_DEFAULT_MODEL)?,
            why: "OPENAI_API_KEY is set".to_owned(),
        });
    }
    let skipped = if chooser.has_anthropic_key {
        "ANTHROPIC_API_KEY is set, but anthropic: is not built yet; "
    } else {
        ""
    };
    match probe::first(local_servers, &chooser.ollama()).await {
        Some(found) => Ok(Choice {
            why: format!("{skipped}{} answers on this machine", found.server),
            provider: chooser.local(&found)?,
        }),
        None => Ok(Choice {
            provider: Arc::new(OfflineProvider),
            why: format!("{skipped}no OpenAI key and no local model server found"),
        }),
    }
}

/// The settings that are really set.
struct Chooser {
    spec: Option<String>,
    has_anthropic_key: bool,
    openai_key: Option<Secret>,
    openai_base: Option<String>,
    ollama_host: Option<String>,
    limits: Arc<Limits>,
}

impl Chooser {
    fn new(settings: ModelSettings) -> Self {
        let text = |text: Option<String>| {
            let text = text?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let key = |key: Option<Secret>| key.filter(|key| !key.is_empty());
        Self {
            spec: text(settings.spec),
            has_anthropic_key: key(settings.anthropic_key).is_some(),
            openai_key: key(settings.openai_key),
            openai_base: text(settings.openai_base),
            ollama_host: text(settings.ollama_host),
            limits: Arc::new(settings.limits),
        }
    }

    fn by_spec(&self, spec: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        if spec == "offline" {
            return Ok(Arc::new(OfflineProvider));
        }
        let unknown = || ChooseError::UnknownSpec {
            spec: spec.to_owned(),
        };
        let (form, name) = spec.split_once(':').ok_or_else(unknown)?;
        if name.is_empty() {
            return Err(unknown());
        }
        match form {
            "script" => {
                let limits = Arc::clone(&self.limits);
                Ok(Arc::new(ScriptProvider::read(name, limits)?))
            }
            "openai-chat" => self.openai_chat(name),
            "ollama" => self.at_ollama(name, format!("ollama:{name}")),
            "anthropic" | "openai" => Err(ChooseError::NotBuilt {
                form: form.to_owned(),
            }),
            _ => Err(unknown()),
        }
    }

    fn openai_chat(&self, name: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        if self.openai_key.is_none() && self.openai_base.is_none() {
            return Err(ChooseError::NoKey);
        }
        let base = self.openai_base.as_deref().unwrap_or(OPENAI_BASE);
        let key = self.openai_key.clone();
        self.compatible(format!("openai-chat:{name}"), name, base, key)
            .ok_or(ChooseError::NotABase {
                variable: "OPENAI_BASE_URL",
            })
    }

    fn at_ollama(&self, name: &str, label: String) -> Result<Arc<dyn Provider>, ChooseError> {
        self.compatible(label, name, &self.ollama(), None)
            .ok_or(ChooseError::NotABase {
                variable: "OLLAMA_HOST",
            })
    }

    fn local(&self, found: &Found) -> Result<Arc<dyn Provider>, ChooseError> {
        let label = format!("{} ({})", found.model, found.server);
        self.compatible(label, &found.model, &found.base, None)
            .ok_or(ChooseError::NotABase {
                variable: "OLLAMA_HOST",
            })
    }

    fn compatible(
        &self,
        label: String,
        name: &str,
        base: &str,
        key: Option<Secret>,
    ) -> Option<Arc<dyn Provider>> {
        let limits = Arc::clone(&self.limits);
        let provider = OpenAiChat::new(label, name, base, key, limits).ok()?;
        Some(Arc::new(provider))
    }

    /// Ollama's base URL.
    fn ollama(&self) -> String {
        probe::ollama_base(self.ollama_host.as_deref().unwrap_or(""))
    }
}

#[cfg(test)]
mod tests;
