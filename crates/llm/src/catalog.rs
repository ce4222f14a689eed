//! The models a running process can switch to: [`Catalog`] for those who switch, [`Models`] for
//! the one that really opens them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::choose::ChooseError;
use crate::known::{ANTHROPIC_OFFERED, OPENAI_OFFERED};
use crate::model::Provider;
use crate::probe;
use crate::sources::Sources;

/// A model that a person can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOption {
    /// What [`Catalog::provider`] takes, such as `anthropic:NAME`. It holds no path and no key.
    pub spec: String,
    /// What people read.
    pub name: String,
}

/// Where providers are, as far as somebody says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Anthropic's interface.
    pub anthropic: Option<String>,
    /// OpenAI's interface, or that of a server like it.
    pub openai: Option<String>,
    /// Ollama.
    pub ollama: Option<String>,
}

impl Addresses {
    /// These, and where they say nothing, `others`.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            anthropic: self.anthropic.or_else(|| others.anthropic.clone()),
            openai: self.openai.or_else(|| others.openai.clone()),
            ollama: self.ollama.or_else(|| others.ollama.clone()),
        }
    }

    /// Whether they say where the model `spec` is.
    fn name(&self, spec: &str) -> bool {
        let named = match spec.split_once(':').map(|(form, _)| form) {
            Some("anthropic") => &self.anthropic,
            Some("openai" | "openai-chat") => &self.openai,
            Some("ollama") => &self.ollama,
            Some(_) | None => return false,
        };
        named.is_some()
    }
}

/// Where the models of a session come from while it lives.
pub trait Catalog: Send + Sync {
    /// The models on offer now, the process's own first. Never waits.
    fn options(&self) -> Vec<ModelOption>;

    /// The provider of the model `spec`, within the settings of this process.
    ///
    /// This is for specs that the operator wrote. One that a client sent goes to
    /// [`Catalog::offered`], because a spec may name a file.
    ///
    /// # Errors
    /// If there is no such model, or its key is missing.
    fn provider(&self, spec: &str) -> Result<Arc<dyn Provider>, ChooseError>;

    /// The provider of the model `spec` at the address that an approved project names for it, with
    /// the keys of this process; `None` if it names none.
    fn at(
        &self,
        addresses: &Addresses,
        spec: &str,
    ) -> Option<Result<Arc<dyn Provider>, ChooseError>> {
        let _ = (addresses, spec);
        None
    }

    /// The provider of the model `spec`, if it is among [`Catalog::options`].
    ///
    /// # Errors
    /// If it is not on offer, or cannot be opened.
    fn offered(&self, spec: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        if self.options().iter().any(|option| option.spec == spec) {
            self.provider(spec)
        } else {
            Err(ChooseError::NotOffered)
        }
    }
}

/// The models that the settings of this process open.
pub struct Models {
    sources: Sources,
    /// The one that was chosen at the start, by its label.
    own: Arc<dyn Provider>,
    /// What Ollama said that it has.
    at_ollama: Mutex<Vec<String>>,
}

impl Models {
    pub(crate) fn new(sources: Sources, own: Arc<dyn Provider>) -> Self {
        Self {
            sources,
            own,
            at_ollama: Mutex::new(Vec::new()),
        }
    }

    /// Asks Ollama which models it has, for 300 ms at most; from then on they are on offer.
    pub async fn refresh(&self) {
        let names = probe::ollama_models(&self.sources.ollama()).await;
        *self
            .at_ollama
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = names;
    }
}

impl Catalog for Models {
    fn options(&self) -> Vec<ModelOption> {
        let own = self.own.label().to_owned();
        let mut specs = vec![own];
        if self.sources.anthropic_key().is_some() {
            specs.extend(
                ANTHROPIC_OFFERED
                    .iter()
                    .map(|name| format!("anthropic:{name}")),
            );
        }
        if self.sources.openai_key().is_some() && self.sources.is_at_openai() {
            specs.extend(OPENAI_OFFERED.iter().map(|name| format!("openai:{name}")));
        }
        let at_ollama = self.at_ollama.lock();
        let at_ollama = at_ollama.unwrap_or_else(PoisonError::into_inner);
        specs.extend(at_ollama.iter().map(|name| format!("ollama:{name}")));
        drop(at_ollama);
        let mut options: Vec<ModelOption> = Vec::with_capacity(specs.len());
        for spec in specs {
            if !options.iter().any(|option| option.spec == spec) {
                let name = spec.clone();
                options.push(ModelOption { spec, name });
            }
        }
        options
    }

    fn provider(&self, spec: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        // The label of a script or of a server that was found is all that clients know of it.
        if spec == self.own.label() {
            return Ok(Arc::clone(&self.own));
        }
        self.sources.by_spec(spec)
    }

    fn at(
        &self,
        addresses: &Addresses,
        spec: &str,
    ) -> Option<Result<Arc<dyn Provider>, ChooseError>> {
        let is_named = addresses.name(spec);
        is_named.then(|| self.sources.at(addresses).by_spec(spec))
    }
}

#[cfg(test)]
mod tests;
