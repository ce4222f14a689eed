//! How many tokens fit into one call of a model: set by the operator, known by the model's name, or
//! asked of the server, once for each address and model.
//!
//! Servers do not agree on how they say it, so several places are tried in turn. Asking is bounded
//! in time and size, and a server that does not say costs nothing but the default window.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::limits::{
    MODEL_LIST_BYTES_MAX, MODEL_WINDOW_TOKENS_MAX, MODEL_WINDOW_TOKENS_MIN, MODEL_WINDOW_WAIT,
    MODEL_WINDOWS_KEPT_MAX,
};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::hosted::Endpoint;
use crate::http::{self, Broken};

/// What a server said, once it was asked; `None` if it does not say.
type Answered = Arc<OnceCell<Option<u64>>>;

/// The windows that servers told, by address and model. All providers of a process share it.
#[derive(Default)]
pub(crate) struct Windows(Mutex<BTreeMap<(String, String), Answered>>);

/// The window of one model.
pub(crate) struct Window {
    /// What the operator set, or what is known of the model's name.
    certain: Option<u64>,
    /// What counts while nothing is known.
    default: u64,
    answered: Answered,
}

/// A place where servers say how much a model reads.
pub(crate) struct Source {
    place: Place,
    method: Method,
    /// The window in an answer, for the model of this name.
    read: fn(&Value, &str) -> Option<u64>,
}

/// Where a [`Source`] is.
enum Place {
    /// Beside the address that calls go to.
    Beside(&'static [&'static str]),
    /// At the server's root, before the version.
    Root(&'static [&'static str]),
}

/// Nothing listens there; it may later.
struct Unreachable;

/// Where servers that speak as OpenAI does say it: most in their list of models (vLLM, OpenRouter,
/// Groq, Mistral), llama.cpp, LM Studio and Ollama in places of their own.
pub(crate) const COMPATIBLE: &[Source] = &[
    Source {
        place: Place::Beside(&["models"]),
        method: Method::GET,
        read: in_list,
    },
    Source {
        place: Place::Root(&["props"]),
        method: Method::GET,
        read: |answer, _| answer["default_generation_settings"]["n_ctx"].as_u64(),
    },
    Source {
        place: Place::Root(&["api", "v0", "models"]),
        method: Method::GET,
        read: in_list,
    },
    Source {
        place: Place::Root(&["api", "show"]),
        method: Method::POST,
        read: |answer, _| set_by_model_file(answer).or_else(|| trained(answer)),
    },
];

/// Where Ollama says it. Requests tell Ollama how much to keep, so a model that could read more is
/// held to the default; a model file that sets a number is the user's own choice.
pub(crate) const OLLAMA: &[Source] = &[Source {
    place: Place::Beside(&["show"]),
    method: Method::POST,
    read: |answer, _| {
        let trained = || trained(answer).map(|window| window.min(crate::providers::ollama::WINDOW));
        set_by_model_file(answer).or_else(trained)
    },
}];

impl Windows {
    /// The answer of the server at `url` about `model`, given or still to come.
    pub(crate) fn of(&self, url: &Url, model: &str) -> Answered {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (url.to_string(), model.to_owned());
        if kept.len() >= MODEL_WINDOWS_KEPT_MAX && !kept.contains_key(&key) {
            kept.pop_first();
        }
        Arc::clone(kept.entry(key).or_default())
    }
}

impl Window {
    pub(crate) fn new(certain: Option<u64>, default: u64, answered: Answered) -> Self {
        Self {
            certain,
            default,
            answered,
        }
    }

    /// As far as it is known now.
    pub(crate) fn tokens(&self) -> u64 {
        let told = || self.answered.get().copied().flatten();
        self.certain.or_else(told).unwrap_or(self.default)
    }

    /// Asks the server, unless that is done or not needed.
    ///
    /// Cancel safe: the next caller asks again.
    pub(crate) async fn learn(&self, endpoint: &Endpoint) {
        if self.certain.is_some() || self.answered.initialized() {
            return;
        }
        let asked = self.answered.get_or_try_init(|| async {
            // A server that is silent now would be silent before each call.
            let told = timeout(MODEL_WINDOW_WAIT, ask(endpoint)).await;
            told.unwrap_or(Ok(None))
        });
        if let Ok(Some(window)) = asked.await {
            tracing::info!(model = endpoint.model, window, "the server told the window");
        }
    }
}

/// The first window that a place of the endpoint's dialect tells.
async fn ask(endpoint: &Endpoint) -> Result<Option<u64>, Unreachable> {
    for source in endpoint.dialect.windows() {
        let Some(request) = source.request(endpoint) else {
            continue;
        };
        let answer = match endpoint.http.send(request).await {
            Ok(answer) if (200..300).contains(&answer.status()) => answer,
            // Asking at another path would end the same way.
            Err(Broken::Unreachable | Broken::ProxyLogin | Broken::Untrusted) => {
                return Err(Unreachable);
            }
            Ok(_) | Err(Broken::Lost) => continue,
        };
        let body = answer.text(MODEL_LIST_BYTES_MAX).await;
        let Ok(answer) = serde_json::from_str(&body) else {
            continue;
        };
        let plausible = MODEL_WINDOW_TOKENS_MIN..=MODEL_WINDOW_TOKENS_MAX;
        let told = (source.read)(&answer, &endpoint.model);
        if let Some(window) = told.filter(|window| plausible.contains(window)) {
            return Ok(Some(window));
        }
    }
    Ok(None)
}

impl Source {
    fn request(&self, endpoint: &Endpoint) -> Option<reqwest::Request> {
        let (mut url, path) = match self.place {
            Place::Beside(path) => (http::interface(&endpoint.url)?, path),
            Place::Root(path) => (http::root(&endpoint.url)?, path),
        };
        url.path_segments_mut().ok()?.pop_if_empty().extend(path);
        let is_post = self.method == Method::POST;
        let accept = "application/json";
        let mut request = http::request(self.method.clone(), &url, &endpoint.login, accept)?;
        for (name, value) in endpoint.dialect.headers() {
            let value = reqwest::header::HeaderValue::from_static(value);
            request.headers_mut().insert(*name, value);
        }
        if is_post {
            let body = json!({ "model": endpoint.model }).to_string();
            *request.body_mut() = Some(body.into());
        }
        Some(request)
    }
}

/// The window of `model` in a list of models. A server with a single model takes any name for it.
fn in_list(answer: &Value, model: &str) -> Option<u64> {
    const NAMES: [&str; 6] = [
        "loaded_context_length",
        "max_model_len",
        "context_length",
        "context_window",
        "max_context_length",
        "max_input_tokens",
    ];
    let models = answer["data"].as_array()?;
    let named = models.iter().find(|entry| entry["id"] == model);
    let entry = match (named, models.as_slice()) {
        (Some(entry), _) | (None, [entry]) => entry,
        (None, _) => return None,
    };
    let told = NAMES.iter().find_map(|name| entry[*name].as_u64());
    told.or_else(|| entry["meta"]["n_ctx"].as_u64())
}

/// The `num_ctx` of an Ollama model file.
fn set_by_model_file(answer: &Value) -> Option<u64> {
    let lines = answer["parameters"].as_str()?.lines();
    lines
        .filter_map(|line| line.trim().strip_prefix("num_ctx"))
        .find_map(|value| value.trim().parse().ok())
}

/// How much the model of an Ollama answer was trained to read.
fn trained(answer: &Value) -> Option<u64> {
    let facts = answer["model_info"].as_object()?;
    let length = facts
        .iter()
        .find(|(name, _)| name.ends_with(".context_length"));
    length?.1.as_u64()
}
