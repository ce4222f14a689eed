//! What the settings open: a provider for each form of `--model`, all on one HTTP client.

use std::sync::Arc;

use domain::Limits;

use crate::choose::{ChooseError, ModelSettings};
use crate::model::Provider;
use crate::probe::{self, Found};
use crate::providers::offline::OfflineProvider;
use crate::providers::openai_chat::OpenAiChat;
use crate::providers::script::ScriptProvider;
use crate::secret::Secret;

/// Where OpenAI itself is.
const OPENAI_BASE: &str = "https://api.openai.com/v1";

/// The settings that are really set.
pub(crate) struct Sources {
    spec: Option<String>,
    anthropic_key: Option<Secret>,
    openai_key: Option<Secret>,
    openai_base: Option<String>,
    ollama_host: Option<String>,
    limits: Arc<Limits>,
}

impl Sources {
    pub(crate) fn new(settings: ModelSettings) -> Self {
        let text = |text: Option<String>| {
            let text = text?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let key = |key: Option<Secret>| key.filter(|key| !key.is_empty());
        Self {
            spec: text(settings.spec),
            anthropic_key: key(settings.anthropic_key),
            openai_key: key(settings.openai_key),
            openai_base: text(settings.openai_base),
            ollama_host: text(settings.ollama_host),
            limits: Arc::new(settings.limits),
        }
    }

    /// The model that was asked for.
    pub(crate) fn spec(&self) -> Option<&str> {
        self.spec.as_deref()
    }

    pub(crate) fn has_anthropic(&self) -> bool {
        self.anthropic_key.is_some()
    }

    pub(crate) fn has_openai(&self) -> bool {
        self.openai_key.is_some()
    }

    /// The provider of the model `spec`.
    pub(crate) fn by_spec(&self, spec: &str) -> Result<Arc<dyn Provider>, ChooseError> {
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

    pub(crate) fn openai_chat(&self, name: &str) -> Result<Arc<dyn Provider>, ChooseError> {
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

    /// The first model of a server that was found on this machine.
    pub(crate) fn local(&self, found: &Found) -> Result<Arc<dyn Provider>, ChooseError> {
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
    pub(crate) fn ollama(&self) -> String {
        probe::ollama_base(self.ollama_host.as_deref().unwrap_or(""))
    }
}
