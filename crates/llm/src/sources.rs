//! What the settings open: a provider for each form of `--model`, all on one HTTP client.

use std::sync::Arc;

use domain::Limits;
use domain::limits::MODEL_LIST_WAIT;
use reqwest::Url;
use tokio::time::timeout;

use crate::catalog::Addresses;
use crate::choose::{ChooseError, ModelSettings};
use crate::dialect::Dialect;
use crate::hosted::{Hosted, Place};
use crate::http::{self, Http, Login};
use crate::known;
use crate::model::{CONTEXT_WINDOW_DEFAULT, Provider};
use crate::probe::{self, Found};
use crate::providers::anthropic::Anthropic;
use crate::providers::offline::OfflineProvider;
use crate::providers::ollama::{self, Ollama};
use crate::providers::openai::OpenAi;
use crate::providers::openai_chat::OpenAiChat;
use crate::providers::script::ScriptProvider;
use crate::secret::{Key, Secret};
use crate::window::{Window, Windows};

/// Where Anthropic itself is.
const ANTHROPIC_BASE: &str = "https://api.anthropic.com/v1";

/// Where OpenAI itself is.
const OPENAI_BASE: &str = "https://api.openai.com/v1";

/// The settings that are really set, and the client that all providers share.
pub(crate) struct Sources {
    spec: Option<String>,
    spec_from: Option<String>,
    anthropic_key: Option<Key>,
    anthropic_base: Option<String>,
    openai_key: Option<Key>,
    openai_base: Option<String>,
    ollama_host: Option<String>,
    context_window: Option<u64>,
    windows: Arc<Windows>,
    limits: Arc<Limits>,
    http: Arc<Http>,
}

impl Sources {
    /// Takes the settings in.
    ///
    /// # Errors
    /// If the file of certificate authorities cannot be used.
    pub(crate) fn new(settings: ModelSettings) -> Result<Self, ChooseError> {
        let text = |text: Option<String>| {
            let text = text?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let key = |key: Option<Key>| key.filter(|key| !key.secret.is_empty());
        settings.roots.check()?;
        Ok(Self {
            spec: text(settings.spec),
            spec_from: text(settings.spec_from),
            anthropic_key: key(settings.anthropic_key),
            anthropic_base: text(settings.anthropic_base),
            openai_key: key(settings.openai_key),
            openai_base: text(settings.openai_base),
            ollama_host: text(settings.ollama_host),
            context_window: settings.context_window,
            windows: Arc::default(),
            http: Arc::new(Http::new(
                &settings.limits,
                settings.roots,
                settings.proxies,
            )),
            limits: Arc::new(settings.limits),
        })
    }

    /// The same at other addresses, where there are some.
    pub(crate) fn at(&self, addresses: &Addresses) -> Self {
        let or = |named: &Option<String>, own: &Option<String>| named.clone().or(own.clone());
        Self {
            anthropic_base: or(&addresses.anthropic, &self.anthropic_base),
            openai_base: or(&addresses.openai, &self.openai_base),
            ollama_host: or(&addresses.ollama, &self.ollama_host),
            spec: self.spec.clone(),
            spec_from: self.spec_from.clone(),
            anthropic_key: self.anthropic_key.clone(),
            openai_key: self.openai_key.clone(),
            context_window: self.context_window,
            windows: Arc::clone(&self.windows),
            limits: Arc::clone(&self.limits),
            http: Arc::clone(&self.http),
        }
    }

    /// The model that was asked for.
    pub(crate) fn spec(&self) -> Option<&str> {
        self.spec.as_deref()
    }

    /// Where it was asked for.
    pub(crate) fn spec_from(&self) -> Option<&str> {
        self.spec_from.as_deref()
    }

    pub(crate) fn anthropic_key(&self) -> Option<&Key> {
        self.anthropic_key.as_ref()
    }

    pub(crate) fn openai_key(&self) -> Option<&Key> {
        self.openai_key.as_ref()
    }

    /// Whether requests for `openai:` models go to OpenAI itself; a server elsewhere has models of its own.
    pub(crate) fn is_at_openai(&self) -> bool {
        let Some(base) = &self.openai_base else {
            return true;
        };
        let (_, rest) = base.split_once("://").unwrap_or(("", base));
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        let host = host.to_ascii_lowercase();
        host == "openai.com" || host.ends_with(".openai.com")
    }

    /// Where the server of the models of `form` is, and which variable says so; `None` for a form
    /// without one.
    pub(crate) fn base(&self, form: &str) -> Option<(String, &'static str)> {
        let anthropic = || self.anthropic_base.as_deref().unwrap_or(ANTHROPIC_BASE);
        let openai = || self.openai_base.as_deref().unwrap_or(OPENAI_BASE);
        Some(match form {
            "anthropic" => (anthropic().to_owned(), "ANTHROPIC_BASE_URL"),
            "openai" | "openai-chat" => (openai().to_owned(), "OPENAI_BASE_URL"),
            "ollama" => (self.ollama(), "OLLAMA_HOST"),
            _ => return None,
        })
    }

    /// The client that all providers share.
    pub(crate) fn http(&self) -> &Http {
        &self.http
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
        let label = spec.to_owned();
        match form {
            "script" => {
                let limits = Arc::clone(&self.limits);
                Ok(Arc::new(ScriptProvider::read(name, limits)?))
            }
            "anthropic" => self.anthropic(label, name),
            "openai" => self.openai(label, name, &["responses"], OpenAi),
            "openai-chat" => self.openai(label, name, &["chat", "completions"], OpenAiChat),
            "ollama" => self.at_ollama(label, name),
            _ => Err(unknown()),
        }
    }

    fn anthropic(&self, label: String, name: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        if self.anthropic_key.is_none() && self.anthropic_base.is_none() {
            return Err(ChooseError::NoKey {
                form: "anthropic",
                key: "ANTHROPIC_API_KEY",
                base: "ANTHROPIC_BASE_URL",
            });
        }
        let base = self.anthropic_base.as_deref().unwrap_or(ANTHROPIC_BASE);
        let url = http::versioned(base, &["messages"]);
        let url = url.ok_or(ChooseError::NotABase {
            variable: "ANTHROPIC_BASE_URL",
        })?;
        let login = secret(self.anthropic_key.as_ref());
        let login = login.map_or(Login::Nobody, Login::ApiKey);
        Ok(hosted(label, self.place(url, login, name), Anthropic))
    }

    /// A model of OpenAI, or of a server that is like it.
    fn openai(
        &self,
        label: String,
        name: &str,
        path: &[&str],
        dialect: impl Dialect + 'static,
    ) -> Result<Arc<dyn Provider>, ChooseError> {
        if self.openai_key.is_none() && self.openai_base.is_none() {
            return Err(ChooseError::NoKey {
                form: "openai",
                key: "OPENAI_API_KEY",
                base: "OPENAI_BASE_URL",
            });
        }
        let base = self.openai_base.as_deref().unwrap_or(OPENAI_BASE);
        let url = http::versioned(base, path).ok_or(ChooseError::NotABase {
            variable: "OPENAI_BASE_URL",
        })?;
        let login = Login::bearer(secret(self.openai_key.as_ref()));
        Ok(hosted(label, self.place(url, login, name), dialect))
    }

    /// The first model of the server that takes the place of OpenAI.
    pub(crate) async fn first_listed(&self) -> Result<Arc<dyn Provider>, ChooseError> {
        let variable = "OPENAI_BASE_URL";
        let base = self.openai_base.as_deref().unwrap_or(OPENAI_BASE);
        let url = http::versioned(base, &["models"]).ok_or(ChooseError::NotABase { variable })?;
        let login = Login::bearer(secret(self.openai_key.as_ref()));
        let list = timeout(MODEL_LIST_WAIT, self.http.json(&url, &login)).await;
        let list = list.ok().flatten();
        let name = list.and_then(|list| probe::first_listed(&list));
        let name = name.ok_or(ChooseError::NoModelListed { variable })?;
        self.by_spec(&format!("openai-chat:{name}"))
    }

    fn at_ollama(&self, label: String, name: &str) -> Result<Arc<dyn Provider>, ChooseError> {
        let url = http::at(&self.ollama(), &["api", "chat"]);
        let url = url.ok_or(ChooseError::NotABase {
            variable: "OLLAMA_HOST",
        })?;
        let place = self.place(url, Login::Nobody, name);
        let answered = self.windows.of(&place.url, name);
        let window = Window::new(self.context_window, ollama::WINDOW, answered);
        Ok(hosted(label, Place { window, ..place }, Ollama))
    }

    /// The first model of a server that was found on this machine.
    pub(crate) fn local(&self, found: &Found) -> Result<Arc<dyn Provider>, ChooseError> {
        if found.is_ollama() {
            return self.at_ollama(format!("ollama:{}", found.model), &found.model);
        }
        let label = format!("{} ({})", found.model, found.server);
        let url = http::versioned(&found.base, &["chat", "completions"]);
        let url = url.ok_or(ChooseError::NotABase {
            variable: "OPENAI_BASE_URL",
        })?;
        let place = self.place(url, Login::Nobody, &found.model);
        Ok(hosted(label, place, OpenAiChat))
    }

    fn place(&self, url: Url, login: Login, name: &str) -> Place {
        let certain = self.context_window.or_else(|| known::context_window(name));
        let answered = self.windows.of(&url, name);
        Place {
            url,
            login,
            model: name.to_owned(),
            window: Window::new(certain, CONTEXT_WINDOW_DEFAULT, answered),
            limits: Arc::clone(&self.limits),
            http: Arc::clone(&self.http),
        }
    }

    /// Ollama's base URL.
    pub(crate) fn ollama(&self) -> String {
        probe::ollama_base(self.ollama_host.as_deref().unwrap_or(""))
    }
}

fn hosted(label: String, place: Place, dialect: impl Dialect + 'static) -> Arc<dyn Provider> {
    Arc::new(Hosted::new(label, place, dialect))
}

fn secret(key: Option<&Key>) -> Option<Secret> {
    key.map(|key| key.secret.clone())
}
